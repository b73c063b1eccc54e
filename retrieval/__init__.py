"""Documents: text in, hits out.

Files and folders import only what is above them: atomic_files, documents, passages, document_lines,
sql, encoders, column_types, catalog, sources, collection, building, syncing, watching,
exact_search, evaluation, losses, exporting, cluster, cli.
"""
