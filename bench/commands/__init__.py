"""Commands of `slimdex bench`, a file for each, and `slimdex plan`.

Files import only what is above them: retrieval, peers, search, start, encode, serve, tune, hybrid,
sts, report, tables, planning.
"""
