"""Store: an index's folder: what is committed in it, and the documents that DuckDB keeps there.

`snapshot` is one committed state, `change` the only way to the next one. `document_store` reads
the documents of a commit, and `new_documents` writes those that the next one adds.
"""
