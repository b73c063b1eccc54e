"""The catalog: documents, their columns and the state of an index, in one DuckDB file.

Callers use `store`, which has a class per table; the rest locks, opens, checks and queries it.
"""
