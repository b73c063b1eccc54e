"""Operands: the SQL of a column's values of one kind, or of those inside a column of JSON.

Kinds are "number", "text", "moment" and "time", as of the constants in `conditions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from slimdex.system.duckdb_library import literal

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE")
JSON_NUMBERS = "'BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE', 'BOOLEAN'"
MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
NESTED = ("[", "STRUCT(", "JSON", "MAP(", "UNION(")
"""Parts of the names of types that are compared as JSON."""


@dataclass(frozen=True)
class ScalarOperand:
    """A column of scalar values.

    Attributes
    ----------
    has_value : SQL: there is a value.
    by_kind : kind -> SQL of the values of this kind, NULL for others.
    reads_texts_as : the type that a constant text is cast to, to be compared; "" if it stays text.
    """

    has_value: str
    by_kind: Mapping[str, str] = field(default_factory=dict)
    reads_texts_as: str = ""

    def of_kind(self, kind: str) -> str | None:
        """SQL of the values of a kind; None if there can be none."""
        return self.by_kind.get(kind)


NO_VALUE = ScalarOperand(has_value="false")


@dataclass(frozen=True)
class JsonOperand:
    """JSON, or a value inside it.

    Attributes
    ----------
    json : SQL of the JSON.
    path : names and numbers that lead to the value inside it; empty for the JSON itself.
    """

    json: str
    path: tuple[str, ...] = ()
    reads_texts_as: ClassVar[str] = ""

    @property
    def has_value(self) -> str:
        """SQL: there is a value."""
        return f"coalesce({self.type}, 'NULL') <> 'NULL'"

    @property
    def type(self) -> str:
        """SQL of the name of the value's type in JSON."""
        return f"json_type({self.place})"

    @property
    def text(self) -> str:
        """SQL of a text, or of a number as written."""
        return f"json_extract_string({self.place})"

    @property
    def place(self) -> str:
        """SQL of two arguments: the JSON, and the path as JSON Pointer (RFC 6901) writes it."""
        pointer = ""
        for name in self.path:
            pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        return f"{self.json}, {literal(pointer or '$')}"

    def of_kind(self, kind: str) -> str:
        """SQL of the values of a kind: truths are numbers, and moments and times are texts."""
        if kind == "number":
            number = f"TRY_CAST({self.text} AS DOUBLE)"
            truth = f"CAST(TRY_CAST({self.text} AS BOOLEAN) AS DOUBLE)"
            return (
                f"CASE WHEN {self.type} = 'BOOLEAN' THEN {truth} "
                f"WHEN {self.type} IN ({JSON_NUMBERS}) THEN {number} END"
            )
        text = f"CASE WHEN {self.type} = 'VARCHAR' THEN {self.text} END"
        return as_moment(text) if kind == "moment" else text


Operand = ScalarOperand | JsonOperand


def operand_of(column: str, type_: str, path: tuple[str, ...]) -> Operand:
    """The operand of a quoted column, or of the value at a path inside it."""
    if any(part in type_ for part in NESTED):
        return JsonOperand(column if type_ == "JSON" else f"CAST({column} AS JSON)", path)
    if path:  # there is nothing inside a scalar
        return NO_VALUE
    has_value = f"{column} IS NOT NULL"

    # The values of one kind may also be compared as another: texts as moments, for example.
    if type_ == "BOOLEAN":
        return ScalarOperand(has_value, {"number": f"CAST({column} AS TINYINT)"})
    if type_.startswith("DECIMAL"):  # JSON has its values as texts
        return ScalarOperand(has_value, {"number": column, "text": column}, type_)
    if type_.removeprefix("U") in NUMBERS:
        return ScalarOperand(has_value, {"number": column})
    if type_ == "VARCHAR":
        return ScalarOperand(has_value, {"text": column, "moment": as_moment(column)})
    if type_ in MOMENTS:
        return ScalarOperand(has_value, {"text": column, "moment": column}, "TIMESTAMP")
    if type_ in ("TIME", "UUID", "INTERVAL"):
        return ScalarOperand(has_value, {"text": column, "time": column}, type_)
    return ScalarOperand(has_value, {"text": f"CAST({column} AS VARCHAR)"})


def as_moment(text: str) -> str:
    """SQL: the moment in UTC that a text states, as ISO 8601 writes it; NULL for other texts."""
    is_moment = rf"regexp_matches({text}, '^\d{{4}}-\d\d-\d\d')"
    return f"CASE WHEN {is_moment} THEN timezone('UTC', TRY_CAST({text} AS TIMESTAMPTZ)) END"
