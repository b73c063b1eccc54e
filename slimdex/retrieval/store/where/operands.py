"""Operands: the SQL of a column's values of one kind, or of those inside a column of JSON.

Kinds are "number", "text", "moment" and "time", as of the constants in `conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slimdex.system.duckdb_library import literal

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE")
JSON_NUMBERS = "'BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE', 'BOOLEAN'"
MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
NESTED = ("[", "STRUCT(", "JSON", "MAP(", "UNION(")
"""Parts of the names of types that are compared as JSON."""
ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
"""End of a moment's text that has a zone, as a regular expression."""


@dataclass(frozen=True)
class Operand:
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

    def list_has(self, spellings: Sequence[str]) -> str:
        """SQL: the value is a list with an item that is one of these texts of JSON."""
        return "false"

    def equal_parts(self, value: Any, holds: Callable[[Operand, str, Any], str]) -> str:
        """SQL: the value equals a list or dict, whose parts are compared by `holds`."""
        return "false"


@dataclass(frozen=True)
class JsonOperand(Operand):
    """JSON, or a value inside it.

    Attributes
    ----------
    json : SQL of the JSON.
    path : names and numbers that lead to the value inside it; empty for the JSON itself.
    """

    json: str = ""
    path: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: str, type_: str, path: tuple[str, ...] = ()) -> JsonOperand:
        """Make the operand of a quoted column; a type other than JSON is cast to JSON."""
        json = column if type_ == "JSON" else f"CAST({column} AS JSON)"
        operand = cls(has_value="", json=json, path=path)

        # `has_value` needs the SQL of the value's type, which is made from the other two fields.
        return replace(operand, has_value=f"coalesce({operand._type}, 'NULL') <> 'NULL'")

    def inside(self, path: Sequence[str]) -> JsonOperand:
        """The value to which names lead from here."""
        return JsonOperand.of(self.json, "JSON", (*self.path, *path))

    @property
    def text(self) -> str:
        """SQL of a text, or of a number as written."""
        return f"json_extract_string({self.json}, {self._pointer})"

    def of_kind(self, kind: str) -> str | None:
        """SQL of the values of a kind: truths are numbers, and moments and times are texts."""
        if kind == "number":
            number = f"TRY_CAST({self.text} AS DOUBLE)"
            truth = f"CAST(TRY_CAST({self.text} AS BOOLEAN) AS DOUBLE)"
            return (
                f"CASE WHEN {self._type} = 'BOOLEAN' THEN {truth} "
                f"WHEN {self._type} IN ({JSON_NUMBERS}) THEN {number} END"
            )
        text = f"CASE WHEN {self._type} = 'VARCHAR' THEN {self.text} END"
        return as_moment(text) if kind == "moment" else text

    def list_has(self, spellings: Sequence[str]) -> str:
        """SQL: the value is a list with an item that is one of these texts of JSON."""
        items = f"TRY_CAST(json_extract({self.json}, {self._pointer}) AS JSON[])"
        wanted = ", ".join(f"CAST({literal(each)} AS JSON)" for each in spellings)
        return f"coalesce(list_has_any({items}, [{wanted}]), false)"

    def equal_parts(self, value: Any, holds: Callable[[Operand, str, Any], str]) -> str:
        """SQL: the value equals a list or dict, whose parts are compared by `holds`."""
        # There must be as many parts, each equal to the one of this number or name.
        if isinstance(value, dict):
            parts = value
            type_ = "OBJECT"
            count = f"len(json_keys({self.json}, {self._pointer}))"
        else:
            parts = dict(enumerate(value))
            type_ = "ARRAY"
            count = f"json_array_length({self.json}, {self._pointer})"
        sql = [f"{self._type} = '{type_}'", f"{count} = {len(value)}"]
        for name, part in parts.items():
            sql.append(holds(self.inside([str(name)]), "=", part))
        return f"({' AND '.join(sql)})"

    @property
    def _type(self) -> str:
        return f"json_type({self.json}, {self._pointer})"

    @property
    def _pointer(self) -> str:
        """SQL of the path as JSON Pointer (RFC 6901) writes it; "$" for the JSON itself."""
        pointer = ""
        for name in self.path:
            pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        return literal(pointer or "$")


def scalar_operand(column: str, type_: str) -> Operand | None:
    """The operand of a quoted column; None for lists, structs and JSON."""
    if any(part in type_ for part in NESTED):
        return None
    has_value = f"{column} IS NOT NULL"

    # The values of one kind may also be compared as another: texts as moments, for example.
    if type_ == "BOOLEAN":
        return Operand(has_value, {"number": f"CAST({column} AS TINYINT)"})
    if type_.startswith("DECIMAL"):  # JSON has its values as texts
        return Operand(has_value, {"number": column, "text": column}, type_)
    if type_.removeprefix("U") in NUMBERS:
        return Operand(has_value, {"number": column})
    if type_ == "VARCHAR":
        return Operand(has_value, {"text": column, "moment": as_moment(column)})
    if type_ in MOMENTS:
        return Operand(has_value, {"text": column, "moment": column}, "TIMESTAMP")
    if type_ in ("TIME", "UUID", "INTERVAL"):
        return Operand(has_value, {"text": column, "time": column}, type_)
    return Operand(has_value, {"text": f"CAST({column} AS VARCHAR)"})


def as_moment(text: str) -> str:
    """SQL: the moment in UTC that a text states, as ISO 8601 writes it; NULL for other texts."""
    zoned = f"timezone('UTC', TRY_CAST({text} AS TIMESTAMPTZ))"
    is_zoned = f"regexp_matches({text}, {literal(ZONE)})"
    is_moment = rf"regexp_matches({text}, '^\d{{4}}-\d\d-\d\d')"
    moment = f"CASE WHEN {is_zoned} THEN {zoned} ELSE TRY_CAST({text} AS TIMESTAMP) END"
    return f"CASE WHEN {is_moment} THEN {moment} END"
