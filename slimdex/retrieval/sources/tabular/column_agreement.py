"""Agreement of column types between sources, and between sources and an index.

The sources of a build are treated as one file with all their rows. Types of an existing index
change only if nothing is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from slimdex.errors import InputError, shorten

from ...store.columns import TEXTS, wider
from .columns import MOMENTS, NUMBERS, is_nested
from .tables import EVERY_COLUMN, TableSource


def check_typed(sources: Sequence[object], types: Mapping[str, str]) -> None:
    """Raise `InputError` if no source has a column for which the user gave a type."""
    columns = list[str]()
    for source in sources:
        if isinstance(source, TableSource):
            columns += source.all_columns
    for name in types:
        if name != EVERY_COLUMN and name not in columns:
            expected = ", ".join(dict.fromkeys(columns)) or "none"
            raise InputError(f"types: no column {name!r}; expected one of {expected}")


def agree(sources: Sequence[object]) -> list[str]:
    """Make tables read columns of the same name as one type; return notes."""
    tables_by_column = defaultdict[str, list[TableSource]](list)
    for source in sources:
        if isinstance(source, TableSource):
            for name in source.columns:
                tables_by_column[name.lower()].append(source)
    notes = []
    for name, tables in tables_by_column.items():
        if len({table.type_of(name) for table in tables}) > 1:
            notes += _agree(name, tables)
    return notes


def _agree(name: str, tables: Sequence[TableSource]) -> list[str]:
    """Make tables read a column as one type; return a note if the types of its values differ."""
    empty = [table for table in tables if table.is_empty(name)]
    filled = [table for table in tables if table not in empty] or tables
    types = {table.type_of(name) for table in filled}
    joint = _joint(name, filled, types) if len(types) > 1 else None

    # The index widens types by itself; columns without values take one of these types.
    if joint is None:
        for table in empty:
            table.keep_as(name, min(types))
        return []

    for table in tables:
        table.keep_as(name, joint)
    kinds = ", ".join(sorted(types))
    return [f"column {name!r} is {kinds} in different files; it is stored as {joint}"]


def agree_with(index: Mapping[str, str], sources: Sequence[object]) -> list[str]:
    """Make tables read columns as the index's types where possible; return notes.

    Raises `InputError`, with the value and its place, if the index's column would lose information.
    """
    index_types = {name.lower(): type_ for name, type_ in index.items()}
    notes = list[str]()
    for source in sources:
        if not isinstance(source, TableSource):
            continue
        for name in source.columns:
            index_type = index_types.get(name.lower())
            if index_type is not None:
                notes += _agree_with(index_type, source, name)
    return notes


def _agree_with(index_type: str, table: TableSource, name: str) -> list[str]:
    """Make a table read a column as the index's type where possible; return notes.

    Raises `InputError` if the index's column would have to become text.
    """
    # Keep the type if the index takes such values as they are, or if the user has named it.
    type_ = table.type_of(name)
    inferred = table.inferred_type(name)
    if index_type in (type_, "JSON") or name in table.requested:
        return []
    if index_type == "VARCHAR":  # as text, not as a number or list
        table.keep_as(name, "VARCHAR")
        return []
    if wider(index_type, type_) not in TEXTS:  # the index widens its column without loss
        return []
    if table.is_empty(name):
        table.keep_as(name, index_type)
        return []

    # Numbers written as another type of number.
    holds_numbers = NUMBERS.fullmatch(index_type) is not None
    are_numbers = holds_numbers and NUMBERS.fullmatch(inferred) is not None
    number_types = (index_type, inferred) if are_numbers else ()
    for number_type in number_types:
        if table.misfit(name, number_type, zeros=True) is None:
            table.keep_as(name, number_type)
            if "INT" in number_type:
                return []
            return [
                f"{table.name}: column {name!r} holds {index_type}: stored as numbers, not as "
                "written"
            ]

    # Text that can all be read as the index's type.
    misfit = table.misfit(name, index_type, zeros=holds_numbers)
    if misfit is None:
        table.keep_as(name, index_type)
        return []

    which = f"{table.name}, row {misfit[0]}: {shorten(misfit[1], 40)} in column {name!r}"
    which += f" is not {index_type}"
    raise InputError(
        f"{which}: column {name!r} holds {index_type}; the new values are {type_} (types="
        f"{name}=VARCHAR makes the whole column text, types={name}={index_type} reads matching "
        "values)"
    )


def _joint(name: str, tables: Sequence[TableSource], types: set[str]) -> str | None:
    """Type of the column if all tables were one file; None if the index widens by itself."""
    # Numbers take the wider type, unless it would change how some are written.
    if all(map(NUMBERS.fullmatch, types)):
        joint = wider(*sorted(types))
        exact = not any(table.not_as_written({name: joint}) for table in tables)
        return None if exact else "VARCHAR"
    if all(table.is_typed for table in tables) and wider(*types) not in TEXTS:
        return None

    # Lists and objects, which the index widens by itself unless their numbers would become texts.
    nested = list(filter(is_nested, types))
    if len(nested) == len(types) and "JSON" not in types:
        joint = wider(*sorted(types))
        are_texts = all("VARCHAR" in type_ for type_ in types)
        keeps_numbers = ("VARCHAR" in joint) == are_texts
        if joint != "VARCHAR" and keeps_numbers:
            return None
    are_json = all(table.is_json for table in tables)
    strings = types <= {"VARCHAR", "UUID", *MOMENTS}
    return "JSON" if nested or (are_json and not strings) else "VARCHAR"
