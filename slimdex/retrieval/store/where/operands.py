"""Operands: the SQL of a column's values of one kind, or of those inside a column of JSON."""

from __future__ import annotations

from dataclasses import dataclass

from slimdex.system.duckdb_library import literal


@dataclass(frozen=True)
class Operand:
    """SQL of the values of each kind, NULL for those of others.

    Attributes
    ----------
    has_value : there is a value of any kind.
    number, long, text, moment : values to compare with constants of this kind; for a long number,
        with all digits.
    json, path : of JSON, and the names and numbers that lead to the value inside it.
    """

    has_value: str
    number: str = "NULL"
    long: str = "NULL"
    text: str = "NULL"
    moment: str = "NULL"
    json: str = ""
    path: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """SQL of two arguments: the JSON, and the path as JSON Pointer (RFC 6901) writes it."""
        pointer = ""
        for name in self.path:
            pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        return f"{self.json}, {literal(pointer or '$')}"


NO_VALUE = Operand(has_value="false")


def operand_of(column: str, type_: str, path: tuple[str, ...]) -> Operand:
    """The operand of a quoted column, or of the value at a path inside it."""
    if type_ == "JSON":
        return json_operand(column, path)
    if type_.endswith("[]"):
        return json_operand(f"CAST({column} AS JSON)", path)
    if path:  # there is nothing inside a scalar
        return NO_VALUE
    has_value = f"{column} IS NOT NULL"
    if type_ == "VARCHAR":
        return Operand(has_value, text=column, moment=_as_moment(column))
    if type_ in ("DATE", "TIMESTAMP"):
        return Operand(has_value, moment=column)
    number = f"CAST({column} AS TINYINT)" if type_ == "BOOLEAN" else column
    return Operand(has_value, number=number, long=number)


def json_operand(json: str, path: tuple[str, ...]) -> Operand:
    """The operand of a value in JSON: truths are numbers, and moments are texts."""
    place = Operand("", json=json, path=path).place
    type_ = f"json_type({place})"
    written = f"json_extract_string({place})"
    truth = f"CAST(TRY_CAST({written} AS BOOLEAN) AS DOUBLE)"
    text = f"CASE WHEN {type_} = 'VARCHAR' THEN {written} END"
    no_text = f"CASE WHEN {type_} <> 'VARCHAR' THEN"
    return Operand(
        has_value=f"coalesce({type_}, 'NULL') <> 'NULL'",
        number=f"{no_text} coalesce(TRY_CAST({written} AS DOUBLE), {truth}) END",
        long=f"{no_text} TRY_CAST({written} AS HUGEINT) END",
        text=text,
        moment=_as_moment(text),
        json=json,
        path=path,
    )


def _as_moment(text: str) -> str:
    """SQL: the moment in UTC that a text states, as ISO 8601 writes it; NULL for other texts."""
    is_moment = rf"regexp_matches({text}, '^\d{{4}}-\d\d-\d\d')"
    return f"CASE WHEN {is_moment} THEN timezone('UTC', TRY_CAST({text} AS TIMESTAMPTZ)) END"
