"""Hints for conditions that compare a column with a constant of another kind.

DuckDB refuses them in the words of its parser, such as "Cannot compare values of type DATE and type
INTEGER_LITERAL". A hint says what the column holds and how to write the comparison. DuckDB would
compare dates in text columns, such as 5/28/2016, letter by letter; that is refused, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from slimdex.system.duckdb_library import identifier, literal

from ...column_types import WRITTEN_DATE

NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*)")
"""DuckDB types of numbers."""
SIGNS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_IN": "IN",
    "COMPARE_BETWEEN": "BETWEEN",
    "~~": "LIKE",
    "!~~": "NOT LIKE",
    "~~*": "ILIKE",
    "!~~*": "NOT ILIKE",
}
"""Node type, or name of an operator's function -> what is written."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
ORDERS = frozenset(["<", "<=", ">", ">=", "BETWEEN", "NOT BETWEEN"])
"""Operators that depend on the order of values."""
ORDERING = re.compile(r"[<>]|between", re.IGNORECASE)
QUOTED = re.compile(r"'([^']*)'")
DATE = re.compile(r"\d{4}(-\d\d?){0,2}([ T].*)?|" + WRITTEN_DATE)
PARTS = re.compile(r"(\d+)([/.-])(\d+)[/.-](\d+)")
"""Numeric parts of a date, and their separator."""
TRUTHS = frozenset(["true", "false", "yes", "no", "y", "n", "t", "f", "1", "0"])
"""Texts that DuckDB reads as a boolean."""
NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
EXAMPLE = "7"
"""A number, where a column has none to show."""
Samples = Callable[[str], Sequence[str]]
"""Function from a column to some of its values, as text."""


def may_order_dates(where: str, types: Mapping[str, str]) -> bool:
    """Return whether a condition may compare a text column with a date by `<` or the like.

    `types` are those of the columns. This is quick; `hint` then parses the condition.

    >>> types = {"at": "VARCHAR", "day": "DATE"}
    >>> [may_order_dates(f"{each} > '2016-01-01'", types) for each in types]
    [True, False]
    """
    if not ORDERING.search(where) or not any(map(DATE.fullmatch, QUOTED.findall(where))):
        return False
    for name, type_ in types.items():
        if type_ == "VARCHAR" and name.lower() in where.lower():
            return True
    return False


@dataclass(frozen=True)
class Comparison:
    """A comparison of a column with constants: several for IN and BETWEEN, otherwise one.

    Attributes
    ----------
    column : as written in SQL.
    sign : such as "=", "LIKE" or "NOT IN": see `SIGNS`.
    constants : the constants as texts, without quotes.
    are_texts : whether any is written in quotes.
    """

    column: str
    sign: str
    constants: Sequence[str]
    are_texts: bool

    def of(self, value: str, constants: Sequence[str] | None = None) -> str:
        """Return SQL that compares another value with the same sign.

        `constants`, as written in SQL, are by default those of this comparison.
        """
        written = [*(constants or map(self.as_sql, self.constants))]
        if self.is_list:
            return f"{value} {self.sign} ({', '.join(written)})"
        return f"{value} {self.sign} {' AND '.join(written)}"

    def as_sql(self, constant: str) -> str:
        """Return a constant in SQL."""
        return literal(constant) if self.are_texts or self.is_pattern else constant

    @property
    def is_list(self) -> bool:
        """Whether the constants stand in brackets."""
        return self.sign.endswith("IN")

    @property
    def is_pattern(self) -> bool:
        """Whether the constant is a pattern."""
        return "LIKE" in self.sign


def hint(tree: Mapping[str, Any], types: Mapping[str, str], samples: Samples) -> str:
    """Return what to write in place of the first comparison of two kinds; "" without one.

    Parameters
    ----------
    tree : the condition, as DuckDB's parser returns it.
    types : types of the columns that it may name.
    samples : returns some values of a column.
    """
    by_lower = {name.lower(): (name, type_) for name, type_ in types.items()}
    for node in _nodes(tree):
        comparison = _comparison(node)
        name, type_ = by_lower.get(_column_of(node).lower(), ("", ""))
        if comparison is None or not name:
            continue
        advice = _advice(comparison, type_, partial(samples, name))
        if advice:
            return f"{comparison.column} {advice}"
    return ""


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a tree in the order of the text."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            if "class" in value:
                yield value
            waiting += reversed(value.values())


def _sides(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a comparison compares; an empty list for other nodes."""
    node = _without_not(node)
    if node["class"] == "COMPARISON":
        return [node["left"], node["right"]]
    if node["class"] == "BETWEEN":
        return [node["input"], node["lower"], node["upper"]]
    if node["type"] == "COMPARE_IN":
        return [*node["children"]]
    if node.get("function_name") in SIGNS:
        return [argument["expression"] for argument in node["arguments"]]
    return []


def _without_not(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the node of IN or BETWEEN inside that of NOT IN or NOT BETWEEN."""
    is_not = node["type"] == "OPERATOR_NOT"
    inner: Mapping[str, Any] = node["children"][0] if is_not else node
    return inner if inner["type"] in ("COMPARE_IN", "COMPARE_BETWEEN") else node


def _column_of(node: Mapping[str, Any]) -> str:
    """Return the first column of a comparison; "" for other nodes."""
    for side in _sides(node):
        if side["class"] == "COLUMN_REF" and len(side["column_names"]) == 1:
            return str(side["column_names"][0])
    return ""


def _comparison(node: Mapping[str, Any]) -> Comparison | None:
    """Return the comparison of a node, if it is one of a column with constants."""
    # One side must be the column, and all others constants.
    sides = _sides(node)
    constants = [each["literal"] for each in sides if each.get("literal")]
    inner = _without_not(node)
    sign = SIGNS.get(inner.get("function_name") or inner["type"])
    if sign is None or not constants or len(constants) != len(sides) - 1:
        return None

    # Write the sign as if the column came first.
    if inner is not node:
        sign = f"NOT {sign}"
    if sides[0].get("literal"):
        sign = MIRRORED.get(sign, sign)
    kinds = {constant["kind"] for constant in constants}
    if not kinds <= {"STRING", "INTEGER", "NUMERIC"}:
        return None
    name = _column_of(node)
    column = name if re.fullmatch(r"[A-Za-z_]\w*", name) else identifier(name)
    return Comparison(column, sign, [each["text"] for each in constants], "STRING" in kinds)


def _advice(comparison: Comparison, type_: str, samples: Callable[[], Sequence[str]]) -> str:
    """Say what a column holds and what to write; "" if the constants are of its kind.

    `samples` runs a query for some of its values, so it is called only if they are needed.
    """
    if type_.endswith("[]"):
        return f"is a list: write {_of_list(comparison, type_)}"
    if type_ == "DATE" or type_.startswith("TIMESTAMP"):
        written = _of_date(comparison, samples)
        return f"is a date: write {written}" if written else ""
    if type_ == "TIME" and not all(re.match(r"\d\d?:\d\d", each) for each in comparison.constants):
        return "is a time of day: write '18:30' or the like in quotes"
    if type_ == "VARCHAR" and comparison.are_texts:
        return _of_written_date(comparison, samples)
    if type_ == "VARCHAR":
        return _of_text(comparison, samples())
    if NUMBERS.fullmatch(type_) and comparison.are_texts:
        return _of_number(comparison, samples)
    if type_ == "BOOLEAN" and not {each.lower() for each in comparison.constants} <= TRUTHS:
        return f"is true or false: write {comparison.column} or NOT {comparison.column}"
    if type_ == "JSON":
        value = f"{comparison.column}->>'$.NAME'"
        if not comparison.are_texts:
            value = f"TRY_CAST({value} AS DOUBLE)"
        return f"is JSON: write the NAME of a value in it, ({comparison.of(value)})"
    return ""


def _of_list(comparison: Comparison, type_: str) -> str:
    """Return SQL that compares the items of a list, which is what the user may have meant."""
    column = comparison.column
    items = [*map(comparison.as_sql, comparison.constants)]
    if comparison.is_pattern:
        return comparison.of(f"array_to_string({column}, ' ')")

    # Write the constants like the items.
    if type_ == "VARCHAR[]":
        items = [*map(literal, comparison.constants)]
    elif NUMBERS.fullmatch(type_.removesuffix("[]")):
        items = _numbers(comparison.constants)

    # A list has an item below a constant if its least item is below it, and so on.
    if comparison.sign in ("<", "<="):
        return comparison.of(f"list_min({column})", items)
    if comparison.sign in (">", ">=", "BETWEEN", "NOT BETWEEN"):
        return comparison.of(f"list_max({column})", items)
    negated = "NOT " if comparison.sign in ("<>", "NOT IN") else ""
    if comparison.is_list:
        return f"{negated}list_has_any({column}, [{', '.join(items)}])"
    return f"{negated}list_contains({column}, {items[0]})"


def _of_date(comparison: Comparison, samples: Callable[[], Sequence[str]]) -> str:
    """Return SQL that compares a date; "" if the constants are dates already."""
    # The pattern '2016-%' also asks for a year.
    column = comparison.column
    dates = [*comparison.constants]
    if comparison.is_pattern:
        dates = [pattern.rstrip("%-") for pattern in dates]

    # Years, beginnings of dates, and months are compared with a part of the date.
    if all(re.fullmatch(r"\d{4}", each) for each in dates):
        sign = re.sub("I?LIKE", "=", comparison.sign).replace("NOT =", "<>")
        return Comparison(column, sign, dates, False).of(f"year({column})")
    if comparison.is_pattern:
        return comparison.of(f"CAST({column} AS VARCHAR)")
    if all(re.fullmatch(r"\d{4}-\d\d", each) for each in dates):
        return comparison.of(f"strftime({column}, '%Y-%m')")

    # Days; if the constants are not days, an example shows how to write one.
    days = [re.sub(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", each) for each in dates]
    are_days = all(re.match(r"\d{4}-\d\d?-\d\d?", each) for each in days)
    if are_days and comparison.are_texts:
        return ""
    if not are_days:
        example = next(iter(samples()), "2024-12-31")[:10]
        days = [example] * len(days)
    return comparison.of(column, [*map(literal, days)])


def _of_written_date(comparison: Comparison, samples: Callable[[], Sequence[str]]) -> str:
    """Explain how to compare dates that are stored as text; "" for other comparisons."""
    if comparison.sign not in ORDERS or not all(map(DATE.fullmatch, comparison.constants)):
        return ""
    values = [*filter(None, map(str.strip, samples()))]
    if not values or not all(re.fullmatch(WRITTEN_DATE, value) for value in values):
        return ""
    fact = f"is text, such as {literal(values[0])}, which would be compared letter by letter"

    # Say how to read such dates and compare them.
    formats = _date_formats(values)
    if not formats:
        return f"{fact}: read it with try_strptime({comparison.column}, FORMAT)"
    are_dates = all(re.match(r"\d{4}-\d\d?-\d", each) for each in comparison.constants)
    days = comparison.constants if are_dates else ["2024-12-31"] * len(comparison.constants)
    date = f"regexp_extract({comparison.column}, '[0-9./-]+')"
    written = comparison.of(f"try_strptime({date}, {literal(formats[0])})", [*map(literal, days)])
    other = f" (or {formats[1]} if days come first)" if formats[1:] else ""
    return f"{fact}: write {written}{other}"


def _date_formats(values: Sequence[str]) -> list[str]:
    """Formats that read all dates, months first; [] if they differ or contain words.

    >>> _date_formats(["5/28/2016", "1/7/2016 23:41"]), _date_formats(["1/2/16", "7/2/16"])
    (['%m/%d/%Y'], ['%m/%d/%y', '%d/%m/%y'])
    """
    # Find the sign between the parts, where the year is, and which other part may be a month.
    layouts = set()
    may_begin_with_month = True
    may_begin_with_day = True
    for value in values:
        match = PARTS.match(value)
        if match is None:
            return []
        first, sign, second, last = match.groups()
        layouts.add((sign, len(first) == 4, len(last) == 4))
        may_begin_with_month = may_begin_with_month and int(first) <= 12
        may_begin_with_day = may_begin_with_day and int(second) <= 12
    if len(layouts) != 1:
        return []

    ((sign, starts_with_year, ends_with_year),) = layouts
    if starts_with_year:
        return [f"%Y{sign}%m{sign}%d"]
    year = "%Y" if ends_with_year else "%y"
    formats = []
    if may_begin_with_month:
        formats.append(f"%m{sign}%d{sign}{year}")
    if may_begin_with_day:
        formats.append(f"%d{sign}%m{sign}{year}")
    return formats


def _of_text(comparison: Comparison, samples: Sequence[str]) -> str:
    """Say what texts a column holds, and how to compare them, or the numbers in them."""
    # An example, if possible one with a number.
    number = next((sample for sample in samples if re.search("[0-9]", sample)), None)
    example = number or next(iter(samples), "")
    fact = f"is text, such as {literal(example[:40])}" if samples else "is text"

    # Texts are compared as such if they have no numbers, or are codes such as '0042'.
    is_equality = comparison.is_list or comparison.sign in ("=", "<>")
    are_codes = bool(samples) and all(map(str.isdecimal, samples))
    if number is None or comparison.is_pattern or (is_equality and are_codes):
        in_quotes = comparison.of(comparison.column, [*map(literal, comparison.constants)])
        return f"{fact}: write {in_quotes}"
    return f"{fact}: write {comparison.of(_number_in(comparison.column, samples))}"


def _number_in(column: str, samples: Sequence[str]) -> str:
    """Return SQL of the number in the texts of a column: in '$1,058.00', or in '58,00 EUR'."""
    if all(NUMBER.fullmatch(each) for each in samples):
        return f"TRY_CAST({column} AS DOUBLE)"

    # A comma before one or two digits is a decimal comma; others separate thousands.
    has_comma = any("," in each for each in samples)
    is_decimal = has_comma and any(re.search(r"\d,(\d|\d\d)(?!\d)", each) for each in samples)
    text = column
    if is_decimal:
        text = f"replace(replace({column}, '.', ''), ',', '.')"
    elif has_comma:
        text = f"replace({column}, ',', '')"
    return f"TRY_CAST(regexp_extract({text}, '-?[0-9.]+') AS DOUBLE)"


def _of_number(comparison: Comparison, samples: Callable[[], Sequence[str]]) -> str:
    """Say how to compare a number with what the quotes hold; "" if these are numbers."""
    if comparison.is_pattern:
        return f"is a number: write {comparison.of(f'CAST({comparison.column} AS VARCHAR)')}"
    with suppress(ValueError):
        for constant in comparison.constants:
            float(constant)
        return ""
    numbers = _numbers(comparison.constants, next(iter(samples()), EXAMPLE))
    return f"is a number: write {comparison.of(comparison.column, numbers)}"


def _numbers(constants: Sequence[str], example: str = EXAMPLE) -> list[str]:
    """Return the number in each constant, or an example.

    >>> _numbers(["$1,200", "many"])
    ['1200', '7']
    """
    numbers = []
    for constant in constants:
        match = NUMBER.search(constant.replace(",", ""))
        numbers.append(match[0] if match else example)
    return numbers
