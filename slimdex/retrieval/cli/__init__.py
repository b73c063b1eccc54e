"""The command line: `slimdex`, its commands, their options, and what it prints.

`slimdex --help` imports each module here, in 0.1 s. Commands therefore import what is slow to load,
such as numpy and FAISS, when they run.
"""
