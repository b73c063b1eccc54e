"""Storage: an index's folder, what is committed in it and what is searched.

`commit_log` is the only way to change the folder, `snapshot` is one committed state, and
`snapshot_manager` knows the newest.
"""
