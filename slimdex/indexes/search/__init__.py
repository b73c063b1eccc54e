"""Search: candidates by codes, rescored by full vectors, with or without a filter."""
