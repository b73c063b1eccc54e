"""Documents: text in, hits out.

`commands` are done by whoever has an index open; `address` and `holder` find who has.
Files and folders import only what is above them: extras, atomic_files, documents, as_json,
passages, document_lines, lexical, sql, conditions, encoders, column_types, catalog, sources,
search, collection, building, syncing, watching, commands, address, holder,
exact_search, evaluation, losses, exporting, cluster, server, frameworks, cli.
"""

if __name__ != "slimdex.retrieval":
    raise ImportError("retrieval is a folder of slimdex: import slimdex.retrieval")
