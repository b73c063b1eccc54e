"""Vector search: reduce rows, compress each to a few bytes, find the nearest.

Knows nothing of text, DuckDB or encoders.
Files and folders import only what is above them: errors, execution, json_text, tensors, arrays,
ranking, bounds, options, maps, vectors, codes, reducers, search, settings.
"""

import os

from .execution.forks import use_one_thread

if __name__ != "slimdex.indexes":
    raise ImportError("indexes is a folder of slimdex: import slimdex.indexes")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=use_one_thread)
