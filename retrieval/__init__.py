"""Documents: text in, hits out.

Users import `collection`; the other modules do its work.
Files and folders import only what is above them: extras, locks, atomic_files, user_cache, sql,
duckdb_library, documents, passages, column_types, lexical, encoders, catalog, sources,
storage, search, trials, open_index, ingest, quality, adding, asked_sources, syncing, collection,
operations, exporting, mapping, cluster, integrations, remote, server, cli.
"""

if __name__ != "slimdex.retrieval":
    raise ImportError("retrieval is a folder of slimdex: import slimdex.retrieval")
