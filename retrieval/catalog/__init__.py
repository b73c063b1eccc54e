"""The catalog: documents, their columns and the state of an index, in one DuckDB file.

`store` is what others use; the rest is how it is locked, opened, checked, migrated and asked.
Files import only what is above them: folder_lock, journal, certificate, state, schema,
where_vocabulary, database, where, where_tree, column_fit, metadata_columns,
document_origins, column_values, document_rows, passages_table, migrations, store.
"""
