"""Ingest: documents are cut, staged, encoded and written.

Files import only what is above them: folder_ids, made_up_ids, long_documents, kept_vectors,
staging, encoding, preparing, writer, rewriting, migration, reencoding, repair, undoing.
"""
