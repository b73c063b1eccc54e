"""Documents from objects in memory: dicts, dataframes, Arrow tables, DuckDB relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb

from ...column_types import restore_values
from ...documents import Document, check_columns, id_text
from .columns import (
    ID_NAMES,
    TEXT_NAMES,
    TITLE_NAMES,
    conversion_sql,
    has_zone,
    storable,
    storage_names,
    usual_column,
    zone_note,
)
from .databases import unique_names
from .tables import BATCH

EXPECTED_RECORDS = "documents, dicts with an id and a text, or a dataframe with such columns"


class Records(NamedTuple):
    """Documents of an object.

    Attributes
    ----------
    documents : to be read once.
    columns : DuckDB types of their columns, if the object states them.
    zoned : columns with times that had zones; complete once the documents are read.
    """

    documents: Iterable[Document]
    columns: Sequence[Mapping[str, str]]
    zoned: set[str]

    def notes(self) -> list[str]:
        """Notes for the user, once the documents are read."""
        return zone_note(self.zoned)


def as_documents(records: Any) -> Records:
    """Convert an object to documents.

    It may be a `Document` or several; a dict with "id", "text" and optionally "title", whose other
    keys are metadata, or several; a dataframe of pandas or polars, an Arrow table or any other
    object with the Arrow stream protocol, or a DuckDB relation.

    Raises `InputError` if it is none of these, or an id or text is missing.

    >>> [*as_documents({"id": 7, "text": "It rained.", "year": 2001}).documents]
    [Document(id='7', text='It rained.', title='', metadata={'year': 2001})]
    """
    if isinstance(records, Document | Mapping):
        records = [records]

    # A dataframe of pandas: names become unique texts, and objects are read as dicts.
    if type(records).__module__.partition(".")[0] == "pandas" and hasattr(records, "columns"):
        records = records.set_axis(unique_names(records.columns), axis=1)
    if _has_objects(records):
        records = records.astype(object).where(records.notna(), None).to_dict("records")

    # What DuckDB reads.
    if type(records).__module__.partition(".")[0] == "duckdb" and hasattr(records, "project"):
        selected, columns, zoned = _selection(records)
        with _reading(records):
            rows = records.project(selected).fetchall()
        return Records(_documents([rows], columns), [columns], zoned)
    if hasattr(records, "__arrow_c_stream__"):
        import_module("duckdb")  # the package adds relations to the connections of its extension
        connection = connect()
        with _reading(records):
            selected, columns, zoned = _selection(connection.from_arrow(records))
            connection.register("given", records)
            cursor = connection.execute(f"SELECT {selected} FROM given")
        return Records(_documents(_parts(cursor, records), columns), [columns], zoned)

    # Dicts and documents.
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        shown = shorten(records, 40) if isinstance(records, str) else type(records).__name__
        raise InputError(f"{shown}; expected {EXPECTED_RECORDS}")
    zoned = set[str]()
    return Records((_document(item, zoned) for item in records), [], zoned)


@contextmanager
def _reading(records: Any) -> Iterator[None]:
    """Raise `InputError` if DuckDB can't read an object."""
    try:
        yield
    except (duckdb.Error, UnicodeEncodeError) as error:  # the latter is pyarrow's
        reason = " ".join(str(error).splitlines()[:1])
        raise InputError(
            f"{type(records).__name__}: {reason}"
            + _advice(reason)
            + f"; expected {EXPECTED_RECORDS}"
        ) from error


def _parts(cursor: duckdb.DuckDBPyConnection, records: Any) -> Iterator[Sequence[Any]]:
    """Rows of a query, some at a time."""
    while True:
        with _reading(records):
            rows = cursor.fetchmany(BATCH)
        if not rows:
            return
        yield rows


def _has_objects(records: Any) -> bool:
    """Return whether a dataframe of pandas has dicts or lists, whose items DuckDB reads as text."""
    if type(records).__module__.partition(".")[0] != "pandas" or not hasattr(records, "dtypes"):
        return False
    objects = records.loc[:, records.dtypes == "object"]
    return any(isinstance(value, dict | list | tuple) for value in objects.to_numpy().flat)


def _document(item: Any, zoned: set[str]) -> Document:
    """Return an item as a document; add its columns whose times have zones to `zoned`."""
    document = item if isinstance(item, Document) else _from_mapping(item)
    for name, value in document.metadata.items():
        if _is_zoned(value):
            zoned.add(name)
    return document


def _is_zoned(value: Any) -> bool:
    """True for a time with a zone, and for a list that contains one at any depth."""
    if isinstance(value, datetime | time):
        return value.tzinfo is not None
    waiting = [value]
    seen = set[int]()  # a list may contain itself
    while waiting:
        item = waiting.pop()
        if isinstance(item, datetime | time):
            if item.tzinfo is not None:
                return True
        elif isinstance(item, list | tuple) and id(item) not in seen:
            seen.add(id(item))
            waiting += item
    return False


def _from_mapping(item: Any) -> Document:
    """Make a document of a dict; raise `InputError` for other types, and without an id or text."""
    if not isinstance(item, Mapping):
        raise InputError(f"{type(item).__name__} {repr(item)[:40]}; expected {EXPECTED_RECORDS}")
    names = [name for name in item if isinstance(name, str)]
    id = usual_column(names, ID_NAMES)
    text = usual_column(names, TEXT_NAMES)
    title = usual_column(names, TITLE_NAMES)
    if id is None or item[id] is None or text is None:
        lacks = "id" if id is None or item[id] is None else "text"
        keys = ", ".join(map(str, item))
        raise InputError(f"a dict of {keys} has no {lacks}; expected {EXPECTED_RECORDS}")

    # All other keys are metadata.
    rest = {name: value for name, value in item.items() if name not in (id, text, title)}
    heading = item[title] if title else None
    return Document(id_text(item[id]), _words(item[text]), _words(heading), rest)


def _words(value: Any) -> str:
    return "" if value is None else str(value)


def _selection(relation: Any) -> tuple[str, Mapping[str, str], set[str]]:
    """Return SQL that selects the id, text, title and metadata of a relation's rows.

    Also returns the types of the metadata columns, and the columns that have times with zones.
    """
    # Select columns by position, since the relation's own names may occur twice.
    names = unique_names(relation.columns)
    types = dict(zip(names, map(str, relation.types), strict=True))
    values = {}
    for position, (column, type_) in enumerate(types.items(), start=1):
        values[column] = conversion_sql(f"#{position}", type_)

    id = usual_column(names, ID_NAMES)
    text = usual_column(names, TEXT_NAMES)
    title = usual_column(names, TITLE_NAMES)
    if id is None or text is None:
        lacks = "id" if id is None else "text"
        raise InputError(f"columns {', '.join(types)}: no {lacks}; expected {EXPECTED_RECORDS}")

    # The other columns are metadata.
    metadata = {c: t for c, t in types.items() if c not in (id, text, title)}
    check_columns(len(metadata), "the table")
    stored_names = storage_names([*metadata])
    metadata_types = {}
    zoned = set()
    for column, type_ in metadata.items():
        metadata_types[stored_names[column]] = storable(type_)
        if has_zone(type_):
            zoned.add(stored_names[column])

    expressions = [f"CAST({values[id]} AS VARCHAR)", f"CAST({values[text]} AS VARCHAR)"]
    expressions.append(f"CAST({values[title]} AS VARCHAR)" if title else "''")
    expressions += [values[column] for column in metadata]
    return ", ".join(expressions), metadata_types, zoned


def _documents(parts: Iterable[Sequence[Any]], columns: Mapping[str, str]) -> Iterator[Document]:
    """Yield the documents of rows (id, text, title, metadata...) that `_selection` selects."""
    for number, (id, text, title, *metadata) in enumerate(chain.from_iterable(parts), start=1):
        if id is None:
            raise InputError(f"row {number} has no id; expected one")
        yield Document(id, text or "", title or "", restore_values(columns, metadata))


def _advice(reason: str) -> str:
    return " (`pip install pyarrow`)" if "pyarrow" in reason else ""
