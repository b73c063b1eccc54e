"""Asked sources: what words and options of the command line say of files, columns and queries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import console

if TYPE_CHECKING:
    from ..building import Sources
    from ..commands import AskedSources
    from ..sources.column_names import ColumnNames


def column_names(
    text: str | None, id: str | None, title: str | None, types: list[str] | None
) -> ColumnNames:
    """The columns that options name."""
    from ..sources.column_names import ColumnNames
    from ..sources.duckdb_readers import checked_types

    return ColumnNames(text, id, title, types=checked_types(types or []))


def asked_sources(
    sources: list[str] | None,
    sql: list[str] | None,
    *,
    text: str | None = None,
    id: str | None = None,
    title: str | None = None,
    types: list[str] | None = None,
    vectors: str | None = None,
    encoding: str | None = None,
    file_format: str | None = None,
) -> AskedSources:
    """The sources that words and options name, for a command.

    Raises
    ------
    InputError
        If there are none, or a type is none.
    """
    from ..commands import AskedSources
    from ..sources.duckdb_readers import checked_types

    checked_types(types or [])
    specs = specs_of(sources, sql)
    _say_if_typed(specs)
    return AskedSources(specs, text, id, title, types or [], vectors, encoding, file_format)


def _say_if_typed(specs: list[str]) -> None:
    from ..sources.text_files import STANDARD_INPUT

    if STANDARD_INPUT in specs and sys.stdin is not None and sys.stdin.isatty():
        console.note("reading what you type, until Ctrl-D")


def specs_of(sources: list[str] | None, sql: list[str] | None) -> list[str]:
    """Files, folders and packages, and queries.

    Raises
    ------
    InputError
        If there are none.
    """
    from slimdex.indexes.errors import InputError

    specs = [*(sources or []), *(f"sql:{query}" for query in sql or [])]
    if not specs:
        raise InputError("no sources; expected a file, a folder, -, python: or --sql")
    return specs


def open_sources(
    specs: list[str],
    names: ColumnNames,
    vectors: str | None = None,
    encoding: str | None = None,
    file_format: str | None = None,
) -> Sources:
    """The sources, and on stderr what the user should know of them."""
    from ..building import Sources
    from ..sources.text_files import FileFormat

    _say_if_typed(specs)
    opened = Sources.open(specs, names, vectors, FileFormat(encoding, file_format))
    for line in opened.notes:
        console.note(line)
    return opened
