"""Documents: text in, hits out.

Users import `collection`; the other modules do its work.
Files and folders import only what is above them: extras, atomic_files, user_cache, sql,
duckdb_library, documents, as_json, passages, column_types, lexical, encoders, catalog, sources,
storage, search, trials, open_index, ingest, quality, adding, collection, operations, exporting,
cluster, integrations, server, cli.
"""

if __name__ != "slimdex.retrieval":
    raise ImportError("retrieval is a folder of slimdex: import slimdex.retrieval")
