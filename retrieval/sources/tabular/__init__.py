"""Tabular sources: rows of files, databases and dataframes.

Files import only what is above them: column_names, table_worker, databases, duckdb_readers, tables,
records.
"""
