"""Metadata of frameworks, converted to columns of an index and back.

Metadata may have any names; those of slimdex's own columns get an underscore. Missing values and
None are omitted on return.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..documents import OWN_COLUMNS

_TAKEN = {name.lower() for name in OWN_COLUMNS}


def column_of(name: str) -> str:
    """Column for a name of metadata.

    >>> column_of("year"), column_of("id"), column_of("ID_")
    ('year', 'id_', 'ID__')
    """
    return f"{name}_" if name.rstrip("_").lower() in _TAKEN else name


def name_of(column: str) -> str:
    """Name of metadata for a column.

    >>> [name_of(column_of(name)) for name in ("year", "id", "Text_")]
    ['year', 'id', 'Text_']
    """
    bare = column.rstrip("_").lower()
    return column[:-1] if bare in _TAKEN and column.endswith("_") else column


def as_columns(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metadata to columns."""
    return {column_of(str(name)): value for name, value in metadata.items()}


def as_metadata(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Convert columns to metadata."""
    return {name_of(name): value for name, value in columns.items() if value is not None}
