"""Storage: an index's folder, what is committed in it and what is searched.

`snapshot` is one committed state, `change` the only way to the next one.
"""
