"""Storage: an index's folder, what is committed in it and what is searched.

`commit_log` is the only way to change the folder, `snapshot` is one committed state, and
`snapshot_manager` knows the newest.

Files import only what is above them: network_filesystems, work_folder, head, commit_log,
index_files, derived_lexical, document_lines, document_file, derived_documents, snapshot,
snapshot_manager, verification.
"""
