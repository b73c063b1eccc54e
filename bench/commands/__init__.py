"""Commands of `slimdex bench`, a file for each or two, and `slimdex plan`.

Files import only what is above them: retrieval, peers, search, start, encode, serve, updates, tune,
hybrid, sts, report, planning.
"""
