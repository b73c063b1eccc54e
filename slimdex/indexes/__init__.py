"""Vector search: reduce rows, compress each to a few bytes, find the nearest.

Knows nothing of text, DuckDB or encoders.
"""

from slimdex.system import forks as forks
