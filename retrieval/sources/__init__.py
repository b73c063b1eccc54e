"""Sources: read documents, queries and vectors from files, folders and packages.

`source` opens any of them. To add a format that DuckDB reads, start in `duckdb_readers`.
Files and folders import only what is above them: origins, files, text_files, text_errors,
docstrings, tabular, given_vectors, source, column_agreement,
opened_sources.
"""
