"""Sources: read documents, queries and vectors from files, folders and packages.

`source` opens any of them. To add a format that DuckDB reads, start in `duckdb_readers`.
Files and folders import only what is above them: origins, files, text_files, text_errors,
column_names, table_worker, databases, docstrings, duckdb_readers, given_vectors, tables, records,
source, column_agreement.
"""
