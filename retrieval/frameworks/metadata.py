"""Metadata: what frameworks let a document say of itself, as columns of an index, and back.

A framework's metadata may have any names; those that are columns of slimdex's own get an
underscore. What is missing is not given back, and neither is a None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..documents import OWN_COLUMNS

_TAKEN = {name.lower() for name in OWN_COLUMNS}


def column_of(name: str) -> str:
    """The column for a name of metadata.

    >>> column_of("year"), column_of("id"), column_of("ID_")
    ('year', 'id_', 'ID__')
    """
    return f"{name}_" if name.rstrip("_").lower() in _TAKEN else name


def name_of(column: str) -> str:
    """The name that a column is for.

    >>> [name_of(column_of(name)) for name in ("year", "id", "Text_")]
    ['year', 'id', 'Text_']
    """
    bare = column.rstrip("_").lower()
    return column[:-1] if bare in _TAKEN and column.endswith("_") else column


def as_columns(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as a document's own."""
    return {column_of(str(name)): value for name, value in metadata.items()}


def as_metadata(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A document's own columns as metadata."""
    return {name_of(name): value for name, value in columns.items() if value is not None}
