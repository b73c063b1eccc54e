"""Sources: files, folders and packages become Documents, queries and vectors.

`source` opens any of them; a new format begins in `tables`, if DuckDB reads it.
Files and folders import only what is above them: origins, files, text_files, table_worker,
databases, docstrings, duckdb_readers, given_vectors, tables, records, source, column_agreement.
"""
