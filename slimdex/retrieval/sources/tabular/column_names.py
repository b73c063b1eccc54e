"""Names of columns: which have the id, text and title, and unique names for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

from slimdex.indexes.errors import InputError

from ...documents import OWN_COLUMNS

ID_NAMES = ("_id", "id", "doc_id", "docid")
TEXT_NAMES = ("text", "body", "content", "sentence", "document", "passage")
TITLE_NAMES = ("title",)
USUAL_NAMES = (ID_NAMES, TEXT_NAMES, TITLE_NAMES)


@dataclass(frozen=True)
class ColumnNames:
    """Columns named by the user; None searches for the usual names.

    A column of vectors is read by `given_vectors` and is not metadata.

    `types` maps columns to requested DuckDB types; "all" stands for every column.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    vectors: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)


def kept_names(columns: Sequence[str], ours: Sequence[str] = OWN_COLUMNS) -> dict[str, str]:
    """Map the user's columns to unique names, with "_" appended where they clash with ours.

    >>> kept_names(["year", "Vector"], ["id", "vector"])
    {'year': 'year', 'Vector': 'Vector_'}
    """
    taken = {*ours, *(name.lower() for name in columns if name.lower() not in ours)}
    kept = {}
    for column in columns:
        name = column
        while column.lower() in ours and name.lower() in taken:
            name += "_"
        kept[column] = name
        taken.add(name.lower())
    return kept


def unique_names(names: Iterable[object]) -> list[str]:
    """Names of columns as texts, unique ignoring case, as DuckDB makes them for CSV.

    >>> unique_names(["id", "ID", 2023, ""])
    ['id', 'ID_1', '2023', 'column3']
    """
    unique, taken = list[str](), set[str]()
    for number, given in enumerate(names):
        name = str(given) or f"column{number}"
        tried = chain([name], (f"{name}_{i}" for i in count(1)))
        unique.append(next(each for each in tried if each.lower() not in taken))
        taken.add(unique[-1].lower())
    return unique


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the first column with a usual name, ignoring case."""
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[name] for name in usual if name in lowered), None)


def only_text_column(source: str, types: Mapping[str, str]) -> str:
    """Return the only text column that is not an id; raise `InputError` if there are others."""
    texts = [c for c, type_ in types.items() if type_ == "VARCHAR" and c.lower() not in ID_NAMES]
    if len(texts) == 1:
        return texts[0]
    found = ", ".join(types)
    raise InputError(f"{source}: which column is the text? Name one by text=NAME: {found}")
