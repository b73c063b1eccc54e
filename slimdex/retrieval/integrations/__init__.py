"""Integrations: slimdex as a document store of other libraries."""
