"""Vector search: reduce rows, compress each to a few bytes, find the nearest.

Knows nothing of text, DuckDB or encoders.
"""

import os

from .execution.forks import use_one_thread

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=use_one_thread)
