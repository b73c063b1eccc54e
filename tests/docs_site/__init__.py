"""The documentation's site, as `make docs` builds it."""
