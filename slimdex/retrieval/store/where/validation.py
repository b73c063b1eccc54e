"""Validation of conditions on documents, on the tree of DuckDB's parser.

A condition may come from anyone who may search. It must be an expression over the documents'
columns, made of the nodes, functions and types that `allowed` lists. Time and memory are
limited as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from threading import TIMEOUT_MAX, Event, Thread
from typing import Any

from slimdex.errors import InputError, short_repr, shorten
from slimdex.system.duckdb_library import connect, duckdb
from slimdex.system.json_text import TooDeepError, parse_json
from slimdex.system.unicode_text import check_unicode

from ...documents import visible_columns
from . import allowed_nodes as allowed

LONGEST_CONDITION = 1 << 18
"""Characters of a condition: enough for twenty thousand ids. DuckDB takes up to a kilobyte for
each, which its memory limit does not count."""
MENTIONS = 500
"""References to columns in a condition: DuckDB's planner compares ANDs and ORs with each other, in
quadratic time and memory, and can't be interrupted."""
DEEPEST = 100
"""Nesting depth of brackets: DuckDB's parser takes minutes over thousands of unclosed ones."""
DEEPEST_TREE = 900
"""Nesting depth of DuckDB's tree as JSON."""
LONGEST_PATTERN = 1000
"""Characters of a pattern, which has to be a constant: LIKE and regular expressions take time
proportional to the length of the text times that of the pattern."""
REPEATED = 8_000
"""Characters of a regular expression times the sum of the numbers in its braces: beyond, its
automaton no longer fits into memory, and it takes forty times as long."""
DESCENTS = 1
"""Recursive steps ("..") of a JSON path: each multiplies the time by the number of nodes below."""
TEXT_CASTS = 3
"""Nested casts to text: each doubles the quotes in lists and structs."""
CALLS = 200
"""Calls of functions with non-constant arguments: each may take a second over 2,048 long texts."""
BUILT_FROM = 100
"""Columns in texts and lists built by a condition, which DuckDB's memory limit does not count."""
SECONDS = "SLIMDEX_WHERE_SECONDS"
"""Environment variable: time limit of a condition."""
_WITHIN = ContextVar("within", default=TIMEOUT_MAX)
CHECKED = 32
"""Number of allowed conditions that are remembered, and not parsed again."""
INTERRUPTION_SECONDS = 0.1
"""Seconds from one interruption to the next."""
SHOWN = 200
"""Columns listed in a message."""
SHOWN_NAME = 100
"""Characters of an unknown column's name in a message."""
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def check(where: str, columns: Sequence[str]) -> str:
    """Return the condition unchanged if it is one expression over the columns.

    Put in brackets on lines of its own, it is valid wherever SQL takes an expression.

    `columns` are the allowed column names, in any case. Raises `InputError` if the condition is
    invalid, too long or too deeply nested.

    >>> check("year > 1990 AND lower(author) LIKE 'k%'", ["year", "author"])
    "year > 1990 AND lower(author) LIKE 'k%'"
    >>> check("year > (SELECT 1990)", ["year"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: where 'year > (SELECT 1990)': SUBQUERY is not allowed; ...
    """
    reads_clock(where, columns)
    return where


def reads_clock(where: str, columns: Sequence[str]) -> bool:
    """True if a condition may hold for other documents a moment later; raises as `check` does.

    >>> reads_clock("day < today()", ["day"]), reads_clock("age > 40", ["age"])
    (True, False)
    """
    if not isinstance(where, str):
        expected = "expected a condition as text, such as 'year > 2000'"
        raise InputError(f"where={short_repr(where)}; {expected}")
    check_unicode(where, "where")
    try:
        return _check(where, frozenset(column.lower() for column in columns))
    except _Refusal as error:
        raise refusal(where, str(error), columns) from error


def refusal(where: str, reason: str, columns: Sequence[str]) -> InputError:
    """The error for an invalid condition, shortened to a readable length."""
    columns = visible_columns(columns)
    named = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
    shown = shorten(where)
    return InputError(f"where {shown}: {reason}; expected a condition on the columns {named}")


@contextmanager
def limiting(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt the connection if it takes too long.

    DuckDB reacts after each 2,048 rows, but not while planning.

    Raises `SlowConditionError` if it was interrupted, and `InputError` if the environment variable
    `SECONDS` is not a number of seconds.
    """
    seconds = seconds_allowed()
    over = Event()

    def interrupt() -> None:
        wait = seconds
        while not over.wait(wait):
            connection.interrupt()
            wait = INTERRUPTION_SECONDS  # a query that starts later would miss the first one

    watch = Thread(target=interrupt, daemon=True)
    try:
        watch.start()
        yield
    except duckdb.InterruptException as error:
        raise SlowConditionError(
            f"it took more than {seconds:g} s, which {SECONDS} sets"
        ) from error
    finally:
        over.set()
        if watch.ident is not None:  # it has started
            watch.join()  # otherwise it could interrupt a later query


class SlowConditionError(InputError):
    """A condition was interrupted because it took too long."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the time of conditions evaluated by this thread."""
    before = _WITHIN.set(seconds)
    try:
        yield
    finally:
        _WITHIN.reset(before)


def seconds_allowed() -> float:
    """Time limit of a condition in seconds."""
    configured = os.environ.get(SECONDS, "60")
    with suppress(ValueError):
        if 0 < float(configured) <= TIMEOUT_MAX:
            return min(float(configured), _WITHIN.get())
    raise InputError(f"{SECONDS}={configured!r}; expected a number of seconds, more than 0")


class _Refusal(Exception):
    """Reason for the refusal."""


def _no_column(name: str) -> _Refusal:
    return _Refusal(f'column "{name[:SHOWN_NAME]}" not found')


@lru_cache(1)
def _scratch(process: int) -> duckdb.DuckDBPyConnection:
    """A separate database of a process, so that nothing in an untrusted catalog affects the check.

    All threads share it.
    """
    connection = connect(CONFIG)
    connection.execute("SET lock_configuration = true")
    return connection


@lru_cache(CHECKED)
def _check(where: str, names: frozenset[str]) -> bool:
    """Raise `_Refusal` unless a text is an allowed expression over columns of these names.

    Returns whether it reads the clock.
    """
    _check_text(where)
    return _check_tree(parse_condition(where), names)


def _check_text(where: str) -> None:
    """Raise `_Refusal` for faults visible without parsing, which may take minutes for some."""
    if not where.strip():
        raise _Refusal("it is empty")
    if len(where) > LONGEST_CONDITION:
        raise _Refusal(f"{len(where)} characters; at most {LONGEST_CONDITION} are read")
    text = where.encode()
    if 0 in text:
        raise _Refusal("it has a NUL character")

    # Brackets and semicolons, but not those in texts.
    depth = 0
    for offset, kind in duckdb.tokenize(where):
        symbol = text[offset : offset + 1]
        if kind != duckdb.token_type.operator:
            continue
        if symbol == b";":
            raise _Refusal("it has a semicolon")
        depth += (symbol in b"([{") - (symbol in b")]}")
        if depth > DEEPEST:
            raise _Refusal(f"more than {DEEPEST} brackets inside each other")


def parse_condition(where: str) -> dict[str, Any]:
    """Parse a text as one expression; raises `_Refusal` if it is anything else.

    It is not put in brackets, since the text could close them.
    """
    try:
        sql = "SELECT json_serialize_sql(?::VARCHAR)"
        ((text,),) = _scratch(os.getpid()).cursor().execute(sql, [f"SELECT\n{where}\n"]).fetchall()
        tree = parse_json(text, DEEPEST_TREE)
    except TooDeepError as error:
        raise _Refusal("it is nested too deeply") from error
    except duckdb.Error as error:
        raise _Refusal(" ".join(str(error).split())) from error

    # It must be the only expression of a SELECT without anything else.
    if tree["error"]:
        raise _Refusal(" ".join(tree["error_message"].split("\n")[0].split()))
    (statement,) = tree["statements"]
    node = statement["node"]
    expression = _expression_of(node) if node["type"] == "SELECT_NODE" else None
    if expression is None:
        raise _Refusal("more than one expression")
    return expression


def _expression_of(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return the only expression of a SELECT; None if it has any other clause."""
    extras = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample")
    if node["qualify"] or node["aggregate_handling"] != "STANDARD_HANDLING":
        return None
    if any(node.get(name) for name in extras) or node["cte_map"]["map"]:
        return None
    if node["from_table"]["type"] != "EMPTY" or len(node["select_list"]) != 1:
        return None
    expression: dict[str, Any] = node["select_list"][0]
    return None if expression["alias"] else expression


def _check_tree(root: dict[str, Any], names: frozenset[str]) -> bool:
    """Raise `_Refusal` if a node is not allowed, or too many nodes are expensive.

    Returns whether any node reads the clock.
    """
    # Parts of the tree, the number of casts to text around each, and whether it is inside a
    # function that builds texts or lists.
    waiting: list[tuple[Any, int, bool]] = [(root, 0, False)]
    clock = False
    built_from = 0
    mentions = 0
    calls = 0
    while waiting:
        value, casts, building = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, casts, building) for item in value]
        if not isinstance(value, dict):
            continue
        if "class" in value:
            _check_node(value, names)
            casts += _is_text_cast(value)
            mentions += value["class"] == "COLUMN_REF"
            calls += _is_call(value)
            clock |= _is_clock(value)
            built_from += building and value["class"] == "COLUMN_REF"
            building |= value.get("function_name") in allowed.BUILDERS
            building |= value["type"] == "ARRAY_CONSTRUCTOR"

        # Bounds of work that one condition may cause.
        if casts > TEXT_CASTS:
            raise _Refusal(f"more than {TEXT_CASTS} casts to text inside each other")
        if mentions > MENTIONS:
            raise _Refusal(f"it names columns more than {MENTIONS} times (IN takes many values)")
        if calls > CALLS:
            raise _Refusal(f"it calls functions more than {CALLS} times")
        if built_from > BUILT_FROM:
            raise _Refusal(f"more than {BUILT_FROM} columns in texts or lists")
        waiting += [(item, casts, building) for item in value.values()]
    return clock


def _is_clock(node: dict[str, Any]) -> bool:
    """True if a node reads the clock, or may do so: a column can have the name of a clock."""
    if node["class"] == "COLUMN_REF":
        return node["column_names"][0].lower() in allowed.CLOCKS
    return node["class"] == "FUNCTION" and node["function_name"].lower() in allowed.CLOCK_FUNCTIONS


def _is_call(node: dict[str, Any]) -> bool:
    """True for a function that is called for each row: not all of its arguments are constants."""
    if node["class"] != "FUNCTION":
        return False
    classes = {argument["expression"]["class"] for argument in node["arguments"]}
    return not classes <= {"CONSTANT"}


def _is_text_cast(node: dict[str, Any]) -> bool:
    return node["class"] == "CAST" and node["type_expr"]["type_name"].lower() in allowed.TEXT_TYPES


def _check_node(node: dict[str, Any], names: frozenset[str]) -> None:
    """Raise `_Refusal` unless a node, without those inside it, is allowed over these columns."""
    kind = node["class"]
    is_other_operator = kind == "OPERATOR" and node["type"] not in allowed.OPERATORS
    if kind not in allowed.CLASSES or is_other_operator:
        raise _Refusal(f"{node['type']} is not allowed")
    if kind == "LAMBDA":
        if node["syntax_type"] != "SINGLE_ARROW":  # which is JSON's
            raise _Refusal("LAMBDA is not allowed")
        _check_paths([node["expr"]])
    if kind == "COLLATE" and not set(node["collation"].lower().split(".")) <= allowed.COLLATIONS:
        raise _Refusal(f"no collation {node['collation']!r}")
    if kind == "COLUMN_REF":
        first, *fields = node["column_names"]
        is_clock = first.lower() in allowed.CLOCKS and not fields
        if first.lower() not in names and not is_clock:
            raise _no_column(first)
    elif kind == "TYPE":
        name = node["type_name"]
        if node["catalog"] or node["schema"] or name.lower() not in allowed.TYPES:
            raise _Refusal(f"no type {name!r}")
    elif kind == "FUNCTION":
        _check_function(node, names)


def _check_function(node: dict[str, Any], names: frozenset[str]) -> None:
    """Raise `_Refusal` unless a call of a function is allowed, with these arguments."""
    name = node["function_name"].lower()
    if name not in allowed.FUNCTIONS:
        raise _Refusal(f"function {name!r} is not allowed")

    # The parser takes the column of a call like column.lower() for a schema.
    first = node["catalog"] or node["schema"]
    if first and first.lower() not in names:
        raise _no_column(first)
    if node["filter"] or node["distinct"] or node["order_bys"]["orders"] or node["export_state"]:
        raise _Refusal(f"function {name!r} is called with DISTINCT, ORDER BY or FILTER")
    if name != allowed.TAKES_NAMES and any(argument["name"] for argument in node["arguments"]):
        raise _Refusal(f"function {name!r} with the name of an argument")

    # A text in double quotes is a column: this is reported before any fault of a pattern or path.
    arguments = [argument["expression"] for argument in node["arguments"]]
    for argument in arguments:
        if argument["class"] == "COLUMN_REF":
            _check_node(argument, names)

    # In column.regexp_matches('a'), the pattern is the first argument. If DuckDB has a schema of
    # the column's name, it takes the column for that schema, and the pattern is the second
    # argument.
    if name in allowed.REGEXES | allowed.LIKES:
        _check_pattern(arguments[:2] if first else arguments[1:2], name in allowed.REGEXES)
    if name.startswith("json") or name == "->>":
        _check_paths(arguments if first else arguments[1:])
    if name == allowed.SHRINKING and not _shrinks(arguments):
        raise _Refusal("replace with anything but a constant that is no longer than the one before")


def _check_pattern(places: Sequence[dict[str, Any]], is_regex: bool) -> None:
    """Raise unless these arguments are constants: patterns of limited length and repetition."""
    for argument in places:
        constant = argument.get("literal")
        if constant is None or len(constant["text"]) > LONGEST_PATTERN:
            raise _Refusal(f"a pattern is a constant of at most {LONGEST_PATTERN} characters")
        if is_regex and len(constant["text"]) * _repeats(constant["text"]) > REPEATED:
            raise _Refusal("a pattern with too many repetitions in braces")


def _repeats(pattern: str) -> int:
    """Sum of the larger numbers in the braces of a regular expression: 3 + 5 of a{2,3}b{5}."""
    total = 0
    for least, most in re.findall(r"\{([0-9]+)(?:,([0-9]*))?\}", pattern):
        total += max(int(least), int(most or 0))
    return total


def _check_paths(paths: Sequence[dict[str, Any]]) -> None:
    """Raise unless JSON paths are constants, columns, lists or arrows between these; only constants
    may have wildcards."""
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        name = path.get("function_name")
        if path["class"] == "LAMBDA":
            waiting += [path["lhs"], path["expr"]]
        elif name == "->>":
            waiting += [argument["expression"] for argument in path["arguments"]]
        elif path["class"] == "CONSTANT":
            if path["literal"]["text"].count("..") > DESCENTS:
                raise _Refusal(f'more than {DESCENTS} ".." in a path in JSON')
        elif path["class"] != "COLUMN_REF" and not {name, path["type"]} & allowed.LISTS:
            raise _Refusal(
                "a JSON path that is not a constant, column or list (are there brackets around the "
                "arrow and what is before and after it?)"
            )


def _shrinks(arguments: Sequence[dict[str, Any]]) -> bool:
    """True if a call of replace(text, old, new) can't make a text longer.

    In text.replace(old, new), `text` is not an argument, so the constants are the last two.
    """
    if len(arguments) < 2:
        return True  # DuckDB refuses it, and names the arguments that it takes
    old = arguments[-2].get("literal")
    new = arguments[-1].get("literal")
    if old is None or new is None:
        return False
    return len(new["text"].encode()) <= len(old["text"].encode())
