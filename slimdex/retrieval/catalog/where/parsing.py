"""Conversion of SQL that compares columns with constants to a tree of conditions.

SQL has three truth values, the tree has two. So each part is translated for the truth value
requested of it; NOT swaps true and false, and an unknown part satisfies neither.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

from slimdex.indexes.errors import InputError

from ...duckdb_library import duckdb
from ...sql import identifier
from .allowed import CLOCKS
from .checks import limited, refusal, scratch, tree_of
from .conditions import ALWAYS, NEVER, And, Compare, Condition, Or, UnsupportedError

EXACT_REAL = 1 << 53
"""Magnitude from which doubles can't represent every whole number."""
_OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")}
_INTEGERS |= {"INTEGER", "UINTEGER"}
_REALS = {"FLOAT", "DOUBLE"}
_MOMENTS = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"}
_OTHERS = {"BOOLEAN", "VARCHAR", "UUID", "TIME"}


def condition_of(where: str, columns: Mapping[str, str]) -> Condition:
    """Parse a condition in SQL on columns, name -> DuckDB type.

    Raises `InputError` if it is no such condition, and `UnsupportedError` if a part of it is not a
    comparison of a column with constants.

    >>> condition_of("NOT Year >= 1990.5", {"year": "SMALLINT"})
    Compare(column='year', operator='>=', value=Decimal('1990.5'), truth=False)
    >>> condition_of("day IN ('2024-02-29')", {"day": "DATE"})
    Compare(column='day', operator='IN', value=(datetime.date(2024, 2, 29),), truth=True)
    """
    tree = _bound(where, columns)
    return _Parser(columns).holds(tree, True)


class _Parser:
    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = {name.lower(): (name, type_) for name, type_ in columns.items()}

    def holds(self, node: Mapping[str, Any], truth: bool) -> Condition:
        """Condition under which a part is true, or false."""
        kind, class_ = node["type"], node["class"]
        if class_ == "CONJUNCTION":
            parts = tuple(self.holds(child, truth) for child in node["children"])
            return And(parts) if (kind == "CONJUNCTION_AND") == truth else Or(parts)
        if kind == "OPERATOR_NOT":
            return self.holds(node["children"][0], not truth)
        if class_ == "COLUMN_REF":
            return self._flag(node, truth)
        if class_ == "CONSTANT":
            _, (value,) = _values([node], "BOOLEAN", self._columns)
            return ALWAYS if value is truth else NEVER
        if class_ == "BETWEEN":
            column, ends = self._constants(node["input"], [node["lower"], node["upper"]])
            parts = tuple(map(_compared, [column] * 2, [">=", "<="], ends, [truth] * 2))
            return And(parts) if truth else Or(parts)
        if class_ == "COMPARISON":
            return self._comparison(node, truth)
        if class_ == "OPERATOR":
            return self._operator(node, truth)
        raise UnsupportedError(kind)

    def _flag(self, node: Mapping[str, Any], truth: bool) -> Condition:
        column, type_ = self._column(node)
        if type_ != "BOOLEAN":
            raise UnsupportedError(f"column {column!r} ({type_}) as a boolean")
        return Compare(column, "=", True, truth)

    def _comparison(self, node: Mapping[str, Any], truth: bool) -> Condition:
        left, right, operator = node["left"], node["right"], _OPERATORS.get(node["type"])
        if operator is None:
            raise UnsupportedError(node["type"])
        if left["class"] != "COLUMN_REF":
            left, right, operator = right, left, _TURNED[operator]
        column, (value,) = self._constants(left, [right])
        if operator == "<>":
            return _compared(column, "=", value, not truth)
        return _compared(column, operator, value, truth)

    def _operator(self, node: Mapping[str, Any], truth: bool) -> Condition:
        first, *rest = node["children"]
        if node["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            truth = truth == (node["type"] == "OPERATOR_IS_NULL")
            return Compare(self._column(first)[0], "IS NULL", truth=truth)
        if node["type"] not in ("COMPARE_IN", "COMPARE_NOT_IN"):
            raise UnsupportedError(node["type"])
        truth = truth == (node["type"] == "COMPARE_IN")
        column, values = self._constants(first, rest)
        known = tuple(value for value in values if value is not None)
        if not known or (len(known) < len(values) and not truth):
            return NEVER
        return Compare(column, "IN", known, truth)

    def _constants(
        self, node: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[Any]]:
        """Return a column and the values that it is compared with."""
        column, type_ = self._column(node)
        common, values = _values(others, type_, self._columns)
        if not _is_exact(type_, common):
            raise UnsupportedError(f"column {column!r} ({type_}) beside {common}")
        for value in values:
            if type_ not in _REALS and isinstance(value, float) and not abs(value) < EXACT_REAL:
                raise UnsupportedError(f"{value!r} beside whole numbers")
        return column, values

    def _column(self, node: Mapping[str, Any]) -> tuple[str, str]:
        """Return the name and type of the column that the node refers to."""
        if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
            raise UnsupportedError(f"{node['type']} in place of a column")
        name = node["column_names"][0]
        column, type_ = self._columns.get(name.lower(), (name, "none of the index's"))
        if type_ not in _INTEGERS | _REALS | _MOMENTS | _OTHERS and not type_.startswith("DECIMAL"):
            raise UnsupportedError(f"column {column!r} ({type_})")
        return column, type_


def _compared(column: str, operator: str, value: Any, truth: bool) -> Condition:
    return NEVER if value is None else Compare(column, operator, value, truth)


def _is_exact(type_: str, common: str) -> bool:
    """True if casting to a common type preserves a column's values for comparison."""
    for types in (_REALS, _MOMENTS):
        if type_ in types:
            return common in types
    if type_ in _OTHERS:
        return common == type_
    is_whole = common in _INTEGERS or common.startswith(("DECIMAL", "INTEGER_LITERAL"))
    return is_whole or (type_ in _INTEGERS and common == "DOUBLE")


def _bound(where: str, columns: Mapping[str, str]) -> dict[str, Any]:
    """Parse a condition; raise `InputError` if it compares incomparable types."""
    tree = tree_of(where, [*columns])
    described = ", ".join(f"{identifier(name)} {type_}" for name, type_ in columns.items())
    cursor = scratch().cursor()
    try:
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE documents({described})")
        with limited(cursor):
            cursor.execute(f"SELECT * FROM documents WHERE ({where}\n)").fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].split())
        raise refusal(where, reason, [*columns]) from error
    finally:
        cursor.close()
    return tree


def _values(
    nodes: Sequence[Mapping[str, Any]], type_: str, names: Container[str]
) -> tuple[str, list[Any]]:
    """Common type of a column and constant parts, and the values of these."""
    _check_constant([*nodes], names)
    cursor = scratch().cursor()
    try:
        with limited(cursor):
            texts = [_sql(cursor, node) for node in nodes]
            all_ = ", ".join([f"NULL::{type_}", *texts])
            ((common,),) = cursor.execute(f"SELECT typeof(coalesce({all_}))").fetchall()
            values = ", ".join(f"({text})::{common}" for text in texts)
            (converted,) = cursor.execute(f"SELECT {values}").fetchall()
    except (duckdb.Error, InputError) as error:
        raise UnsupportedError(" ".join(str(error).split("\n\n")[0].split())) from error
    finally:
        cursor.close()
    return str(common), [*converted]


def _sql(cursor: duckdb.DuckDBPyConnection, node: Mapping[str, Any]) -> str:
    """Convert a part of a tree to text, in brackets."""
    literal = node.get("literal")
    if literal is not None and literal["kind"] == "INTEGER":
        return f"({literal['text']})"
    rows = cursor.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()
    tree = json.loads(rows[0][0])
    tree["statements"][0]["node"]["select_list"] = [node]
    ((text,),) = cursor.execute(
        "SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]
    ).fetchall()
    return f"({str(text).removeprefix('SELECT')})"


def _check_constant(waiting: list[Any], names: Container[str]) -> None:
    """Raise `UnsupportedError` for parts that refer to a column or set a collation."""
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, Mapping):
            if value.get("class") == "COLLATE":
                raise UnsupportedError("COLLATE")
            if value.get("class") == "COLUMN_REF":
                first = value["column_names"][0]
                if first.lower() in names or first.lower() not in CLOCKS:
                    raise UnsupportedError(f"column {first!r} on both sides")
            waiting += value.values()
