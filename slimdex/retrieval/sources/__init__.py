"""Sources: read documents, queries and vectors from files, folders and packages.

`source` opens any of them. To add a format that DuckDB reads, start in `duckdb_readers`.
"""
