"""DuckDB's extension module, which starts in a quarter of the time of the package around it.

The package `duckdb` adds relations and the values of expressions in Python, for which it imports
most of the standard library. The catalog runs SQL only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb as duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:  # another release may name it otherwise
        import duckdb as duckdb
