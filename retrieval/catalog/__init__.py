"""The catalog: documents, their columns and the state of an index, in one DuckDB file.

Callers use `store`, which has a class per table; the rest locks, opens, checks and queries it.
Files and folders import only what is above them: checkpoint_journal, duckdb_connection,
catalog_file, database, state, schema, where, column_fit, metadata_columns, passages_table,
documents_table, document_ids, store.
"""
