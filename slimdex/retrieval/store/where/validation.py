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
"""Columns, and fields of them, in a condition: DuckDB binds fields of fields in quadratic time, and
compares ANDs and ORs with each other, in quadratic time and memory, and can't be interrupted."""
CALLED = ("FUNCTION", "LAMBDA", "CAST")
CALLS = 250
"""Functions and casts of anything but constants: each may take a second and its results' memory
over 2,048 long texts."""
DEEPEST = 100
"""Nesting depth of brackets: DuckDB's parser takes minutes over thousands of unclosed ones."""
DEEPEST_TREE = 900
"""Nesting depth of DuckDB's tree as JSON."""
LONGEST_TEXT = 1000
"""Characters of constants that are not just compared. LIKE and regular expressions take time
proportional to the length of the text times that of the pattern, which has to be a constant; and as
a result of CASE, a constant would be copied for each row."""
LARGEST_REGEX = 2000
"""Size of a regular expression's automaton, in characters: from 2900 it no longer fits into its
memory, and takes a hundred times as long."""
ALL_REGEXES = 5000
"""Sizes of a condition's regular expressions together, which nothing interrupts in 2,048 rows."""
PROPERTY = 400
"""Size of a class such as \\pL, which has hundreds of ranges, in characters."""
SECONDS = "SLIMDEX_WHERE_SECONDS"
"""Environment variable: time limit of a condition."""
_WITHIN = ContextVar("within", default=TIMEOUT_MAX)
CHECKED = 32
"""Number of allowed conditions that are remembered, and not parsed again."""
INTERRUPTION_SECONDS = 0.1
"""Seconds from one interruption to the next."""
SHOWN = 200
"""Columns listed in a message."""
CLOCK = re.compile(rf"\b({'|'.join(allowed.CLOCKS)})\b", re.IGNORECASE)
"""Found in conditions that may hold for other documents a moment later."""


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
    if not isinstance(where, str):
        expected = "expected a condition as text, such as 'year > 2000'"
        raise InputError(f"where={short_repr(where)}; {expected}")
    check_unicode(where, "where")
    try:
        _check(where, frozenset(column.lower() for column in columns))
    except _Refusal as error:
        raise refusal(where, str(error), columns) from error
    return where


def refusal(where: str, reason: str, columns: Sequence[str]) -> InputError:
    """The error for an invalid condition, shortened to a readable length."""
    columns = visible_columns(columns)
    named = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
    shown = shorten(where)
    return InputError(f"where {shown}: {reason}; expected a condition on the columns {named}")


@contextmanager
def limiting(connection: duckdb.DuckDBPyConnection, where: str) -> Iterator[None]:
    """Interrupt the connection if a condition takes too long.

    DuckDB reacts after each 2,048 rows, but not while planning.

    Raises `InputError` if it was interrupted, or if the environment variable `SECONDS` is not a
    number of seconds.
    """
    seconds = seconds_allowed()
    over = Event()

    def interrupt() -> None:
        wait = seconds
        while not over.wait(wait):
            with suppress(duckdb.Error):  # closed meanwhile
                connection.interrupt()
            wait = INTERRUPTION_SECONDS  # a query that starts later would miss the first one

    watch = Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    except duckdb.InterruptException as error:
        raise InputError(
            f"where {shorten(where)}: it took more than {seconds:g} s, which {SECONDS} sets"
        ) from error
    finally:
        over.set()
        watch.join()  # otherwise it could interrupt a later query


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


@lru_cache(1)
def _scratch(process: int) -> duckdb.DuckDBPyConnection:
    """A separate database of a process, so that nothing in an untrusted catalog affects the check.

    All threads share it.
    """
    return connect({"enable_external_access": False})


@lru_cache(CHECKED)
def _check(where: str, names: frozenset[str]) -> None:
    """Raise `_Refusal` unless a text is an allowed expression over columns of these names."""
    _check_text(where)
    nodes = _nodes(_parse(where))

    # Nodes inside a node are checked before it: in text LIKE "a%", no column "a%" is the reason.
    for node, outer in reversed(nodes):
        _check_node(node, names)
        is_compared = outer.startswith("COMPARE") or outer in allowed.COMPARISONS
        if len(_text_of(node) or "") > LONGEST_TEXT and not is_compared:
            raise _Refusal(f"a pattern or argument of more than {LONGEST_TEXT} characters")
    if sum(len(node.get("column_names", ())) for node, _ in nodes) > MENTIONS:
        raise _Refusal(f"it names columns more than {MENTIONS} times (IN takes many values)")
    if sum(node["class"] in CALLED and not _is_constant(node) for node, _ in nodes) > CALLS:
        raise _Refusal(f"it calls functions more than {CALLS} times")
    sizes = [*map(_size, _regexes(nodes))]
    if max(sizes, default=0) > LARGEST_REGEX or sum(sizes) > ALL_REGEXES:
        raise _Refusal("too many repetitions or classes such as \\pL in regular expressions")


def _check_text(where: str) -> None:
    """Raise `_Refusal` for faults visible without parsing, which may take minutes for some."""
    if len(where) > LONGEST_CONDITION:
        raise _Refusal(f"{len(where)} characters; at most {LONGEST_CONDITION} are read")

    # Brackets and semicolons, but not those in texts.
    text = where.encode()
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


def _parse(where: str) -> dict[str, Any]:
    """Parse a text as one expression; raises `_Refusal` if it is anything else.

    It is not put in brackets, since the text could close them.
    """
    sql = "SELECT json_serialize_sql(?::VARCHAR), json_serialize_sql('SELECT true')"
    cursor = _scratch(os.getpid()).cursor()
    try:
        ((text, plain_text),) = cursor.execute(sql, [f"SELECT\n{where}\n"]).fetchall()
        tree = parse_json(text, DEEPEST_TREE)
    except TooDeepError as error:
        raise _Refusal("it is nested too deeply") from error
    except duckdb.Error as error:
        raise _Refusal(" ".join(str(error).split())) from error
    if tree["error"]:
        raise _Refusal(" ".join(tree["error_message"].split("\n")[0].split()))

    # It must be the only expression of a SELECT without anything else.
    node = tree["statements"][0]["node"]
    plain = parse_json(plain_text)["statements"][0]["node"]
    expressions = node.pop("select_list", [])
    del plain["select_list"]
    if node != plain or len(expressions) != 1 or expressions[0]["alias"]:
        raise _Refusal("more than one expression")
    expression: dict[str, Any] = expressions[0]
    return expression


def _nodes(root: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """All nodes of a tree, each before those inside it, and the function or type around each."""
    nodes = []
    waiting: list[tuple[Any, str]] = [(root, "")]
    while waiting:
        value, outer = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, outer) for item in value]
        elif isinstance(value, dict):
            if "class" in value:
                nodes.append((value, outer))
                outer = str(value.get("function_name", value["type"]))
            waiting += [(item, outer) for item in value.values()]
    return nodes


def _name_of(node: dict[str, Any]) -> str:
    """The name of a function or type, with its schema; text.lower() has the schema "text"."""
    name = node["function_name" if node["class"] == "FUNCTION" else "type_name"]
    return ".".join(filter(None, (node["catalog"], node["schema"], name))).lower()


def _check_node(node: dict[str, Any], names: frozenset[str]) -> None:
    """Raise `_Refusal` unless a node, without those inside it, is allowed over these columns."""
    kind = node["class"]
    is_other_operator = kind == "OPERATOR" and node["type"] not in allowed.OPERATORS
    if kind not in allowed.CLASSES or is_other_operator:
        raise _Refusal(f"{node['type']} is not allowed")
    if kind == "COLUMN_REF":
        name = node["column_names"][0]
        if name.lower() not in names | allowed.CLOCKS:
            raise _Refusal(f"column {shorten(name)} not found")
    elif kind == "TYPE" and _name_of(node) not in allowed.TYPES:
        raise _Refusal(f"no type {_name_of(node)!r}")
    elif kind == "LAMBDA":
        if node["syntax_type"] != "SINGLE_ARROW":  # which is JSON's
            raise _Refusal("LAMBDA is not allowed")
        _check_path(node["expr"])
    elif kind == "FUNCTION":
        _check_function(node)


def _check_function(node: dict[str, Any]) -> None:
    """Raise `_Refusal` unless a call of a function is allowed, with these arguments."""
    name = _name_of(node)
    if name not in allowed.FUNCTIONS:
        raise _Refusal(f"function {name!r} is not allowed")
    if any(argument["name"] for argument in node["arguments"]):  # they could change the order
        raise _Refusal(f"function {name!r} with the name of an argument")

    arguments = [argument["expression"] for argument in node["arguments"]]
    if name == "list_value" and not all(map(_is_constant, arguments)):
        raise _Refusal("a list of anything but constants")
    for second in arguments[1:2]:
        if name in allowed.PATTERNS and _text_of(second) is None:
            raise _Refusal("a pattern that is not a constant")
        if name in allowed.PATHS:
            _check_path(second)


def _text_of(node: dict[str, Any]) -> str | None:
    """The text of a constant; None for other nodes."""
    text: str | None = node.get("literal", {}).get("text")
    return text


def _is_constant(node: dict[str, Any]) -> bool:
    """True for constants, also of types: DATE '2020-01-01'."""
    return "literal" in node or (node["class"] == "CAST" and "literal" in node["child"])


def _regexes(nodes: Sequence[tuple[dict[str, Any], str]]) -> list[str]:
    """The patterns of regular expressions, which are constants."""
    patterns = []
    for node, _ in nodes:
        if node["class"] == "FUNCTION" and _name_of(node) in allowed.REGEXES:
            patterns += [_text_of(each["expression"]) or "" for each in node["arguments"][1:2]]
    return patterns


def _size(pattern: str) -> int:
    """Size of a regular expression whose braces are written out, at most.

    >>> _size("[0-9]{4}"), _size("(ab?){2,30}")
    (40, 330)
    """
    properties = len(re.findall(r"\\[pP]", pattern))
    size = len(pattern) + PROPERTY * properties
    groups = 1
    for before, least, most in re.findall(r"(.)\{([0-9]+)(?:,([0-9]*))?\}", pattern, re.DOTALL):
        times = max(int(least), int(most or 0), 1)
        if before == ")":
            groups *= times  # they may be inside each other
        else:
            size += times * (PROPERTY // 4 if properties else 8)
    return size * groups


def _check_path(path: dict[str, Any]) -> None:
    """Raise unless an argument is a constant: a path in JSON without recursive steps.

    Each such step ("..") multiplies the time by the number of nodes below.
    """
    text = _text_of(path)
    if text is None or (text.startswith("$") and ".." in text):
        raise _Refusal('a path in JSON is a constant without ".."')
