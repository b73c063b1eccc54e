"""Documents from objects in memory: dicts, dataframes, Arrow tables, DuckDB relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb

from ...documents import Document, check_columns, id_text
from .columns import (
    ID_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    restore_values,
    storage_names,
    stored_type,
    unique_names,
    usual_column,
)
from .table_files import describe
from .tables import BATCH

EXPECTED_RECORDS = "documents, dicts with an id and a text, or a dataframe with such columns"


def as_documents(records: Any) -> Iterable[Document]:
    """Convert an object to documents.

    It may be a `Document` or several; a dict with "id", "text" and optionally "title", whose other
    keys are metadata, or several; a dataframe of pandas or polars, an Arrow table or any other
    object with the Arrow stream protocol, or a DuckDB relation.

    Raises `InputError` if it is none of these, or an id or text is missing.

    >>> [*as_documents({"id": 7, "text": "It rained.", "year": 2001})]
    [Document(id='7', text='It rained.', title='', metadata={'year': 2001})]
    """
    library = type(records).__module__.partition(".")[0]
    if isinstance(records, Document | Mapping):
        records = [records]
    elif library == "pandas" and hasattr(records, "columns"):
        records = _dicts_of(records)

    # What DuckDB reads, with its types. Two columns may have the same name.
    elif library == "duckdb" and hasattr(records, "project"):
        names = unique_names(records.columns)
        selected, columns = _selection(names, [*map(str, records.types)])
        with _reading(records):
            rows = records.project(selected).fetchall()
        return _documents(rows, columns)
    elif hasattr(records, "__arrow_c_stream__"):
        import_module("duckdb")  # the package adds Arrow to the connections of its extension
        connection = connect()
        with _reading(records):
            connection.register("given", records)
            types = describe(connection, "given")
            selected, columns = _selection([*types], [*types.values()])
            cursor = connection.execute(f"SELECT {selected} FROM given")
        parts = iter(partial(_next_rows, cursor, records), [])
        return _documents(chain.from_iterable(parts), columns)

    # Dicts and documents.
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        shown = shorten(records, 40) if isinstance(records, str) else type(records).__name__
        raise InputError(f"{shown}; expected {EXPECTED_RECORDS}")
    return map(_document, records)


def _dicts_of(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas dataframe, with None for missing values."""
    frame = frame.set_axis(unique_names(frame.columns), axis=1)
    for start in range(0, len(frame), BATCH):
        rows = frame.iloc[start : start + BATCH].astype(object)
        yield from rows.where(rows.notna(), None).to_dict("records")


@contextmanager
def _reading(records: Any) -> Iterator[None]:
    """Raise `InputError` if DuckDB can't read an object."""
    try:
        yield
    except (duckdb.Error, UnicodeEncodeError) as error:  # the latter is pyarrow's
        reason = " ".join(str(error).splitlines()[:1])
        advice = " (`pip install pyarrow`)" if "pyarrow" in reason else ""
        name = type(records).__name__
        raise InputError(f"{name}: {reason}{advice}; expected {EXPECTED_RECORDS}") from error


def _next_rows(cursor: duckdb.DuckDBPyConnection, records: Any) -> list[Any]:
    """The next rows of a query; none at its end."""
    with _reading(records):
        return cursor.fetchmany(BATCH)


def _document(item: Any) -> Document:
    """Make a document of a dict; raise `InputError` for other types, and without an id or text."""
    if isinstance(item, Document):
        return item
    if not isinstance(item, Mapping):
        raise InputError(f"{type(item).__name__} {repr(item)[:40]}; expected {EXPECTED_RECORDS}")
    names = [name for name in item if isinstance(name, str)]
    id, text, title = _roles(names, f"a dict of {', '.join(map(str, item))}")
    if item[id] is None:
        raise InputError(f"a dict has None as {id!r}; expected an id")

    # All other keys are metadata.
    rest = {name: value for name, value in item.items() if name not in (id, text, title)}
    heading = item[title] if title else None
    return Document(id_text(item[id]), _words(item[text]), _words(heading), rest)


def _roles(names: Sequence[str], what: str) -> tuple[str, str, str | None]:
    """Columns of the id, the text and the title; raises `InputError` without an id or text."""
    id = usual_column(names, ID_NAMES)
    text = usual_column(names, TEXT_NAMES)
    if id is None or text is None:
        lacks = "id" if id is None else "text"
        raise InputError(f"{what} has no {lacks}; expected {EXPECTED_RECORDS}")
    return id, text, usual_column(names, TITLE_NAMES)


def _words(value: Any) -> str:
    return "" if value is None else str(value)


def _selection(names: Sequence[str], types: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return SQL that selects the id, text, title and metadata, and the metadata's types."""
    id, text, title = _roles(names, f"a table of {', '.join(names)}")
    metadata = [name for name in names if name not in (id, text, title)]
    check_columns(len(metadata), "the table")
    stored_names = storage_names(metadata)
    number = {name: f"#{position}" for position, name in enumerate(names, start=1)}
    stored_types = dict(zip(names, map(stored_type, types), strict=True))

    # Other types need no cast; that of a moment would depend on the session's time zone.
    selected = []
    for name in (id, text, title):
        selected.append(f"CAST({number[name]} AS VARCHAR)" if name else "NULL")
    for name in metadata:
        type_ = stored_types[name]
        is_cast = type_ in ("JSON", "VARCHAR")
        selected.append(f"CAST({number[name]} AS {type_})" if is_cast else number[name])
    return ", ".join(selected), {stored_names[name]: stored_types[name] for name in metadata}


def _documents(rows: Iterable[Sequence[Any]], columns: Mapping[str, str]) -> Iterator[Document]:
    """Yield the documents of rows (id, text, title, metadata...) that `_selection` selects."""
    for number, (id, text, title, *metadata) in enumerate(rows, start=1):
        if id is None:
            raise InputError(f"row {number} has no id; expected one")
        values = [*map(_in_utc, metadata)]
        yield Document(id, text or "", title or "", restore_values(columns, values))


def _in_utc(value: Any) -> Any:
    """Return a moment in UTC, whatever zone a session of DuckDB has; other values as they are."""
    if isinstance(value, list | tuple):
        return [*map(_in_utc, value)]
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC) if is_moment else value
