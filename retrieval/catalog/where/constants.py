"""Constants: what the parts of a condition that name no column are worth, as DuckDB sees them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from slimdex.indexes.errors import InputError

from ...sql import identifier
from .condition import limited, refusal, scratch, tree_of
from .vocabulary import CLOCKS


class NoConstantError(Exception):
    """A part of a condition that has no value of its own, and why."""


def bound(where: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """The tree of a condition that holds or not for values of these columns.

    Parameters
    ----------
    columns : name -> DuckDB type.

    Raises
    ------
    InputError
        If it is no condition, or compares what can't be compared.
    """
    tree = tree_of(where, [*columns])
    described = ", ".join(f"{identifier(name)} {type_}" for name, type_ in columns.items())
    cursor = scratch().cursor()
    try:
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE documents({described})")
        with limited(cursor):
            cursor.sql("SELECT * FROM documents").filter(where).fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].split())
        raise refusal(where, reason, [*columns]) from error
    finally:
        cursor.close()
    return tree


def constants(
    nodes: Sequence[Mapping[str, Any]], type_: str, columns: Sequence[str]
) -> tuple[str, list[Any]]:
    """Parts of a tree as they are compared with a column: the type of that, and their values.

    Parameters
    ----------
    type_ : the column's DuckDB type.
    columns : the names of all, in any case.

    Raises
    ------
    NoConstantError
        If one of them names a column, or has no value.

    >>> tree = tree_of("day IN ('2024-02-29', DATE '2024-03-01')", ["day"])
    >>> constants(tree["children"][1:], "DATE", ["day"])
    ('DATE', [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)])
    """
    names = {name.lower() for name in columns}
    for node in nodes:
        if named := _column_in(node, names):
            raise NoConstantError(f"column {named!r} on both sides")
    cursor = scratch().cursor()
    try:
        with limited(cursor):
            texts = [_sql(cursor, node) for node in nodes]
            all_ = ", ".join([f"NULL::{type_}", *texts])
            ((common,),) = cursor.execute(f"SELECT typeof(coalesce({all_}))").fetchall()
            values = ", ".join(f"({text})::{common}" for text in texts)
            (found,) = cursor.execute(f"SELECT {values}").fetchall()
    except (duckdb.Error, InputError) as error:
        raise NoConstantError(" ".join(str(error).split("\n\n")[0].split())) from error
    finally:
        cursor.close()
    return str(common), [*found]


def _sql(cursor: duckdb.DuckDBPyConnection, node: Mapping[str, Any]) -> str:
    """A part of a tree as text, in brackets."""
    literal = node.get("literal")
    if literal is not None and literal["kind"] == "INTEGER":
        return f"({literal['text']})"
    found = cursor.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()
    tree = json.loads(found[0][0])
    tree["statements"][0]["node"]["select_list"] = [node]
    ((text,),) = cursor.execute(
        "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]
    ).fetchall()
    return f"({str(text).removeprefix('SELECT')})"


def _column_in(node: Any, names: set[str]) -> str | None:
    """A column that a part of a tree names, if there is one."""
    waiting = [node]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, Mapping):
            if value.get("class") == "COLUMN_REF":
                first = value["column_names"][0]
                if first.lower() in names or first.lower() not in CLOCKS:
                    return str(first)
            waiting += value.values()
    return None
