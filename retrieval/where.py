"""Where: what a condition on documents may be, checked on the tree that DuckDB's parser makes.

A condition may come from anybody who may search. It is an expression over the documents' columns
and nothing else: what kinds of nodes, functions, types and names it may have is listed here, and
whatever is not listed is refused. So a later DuckDB's new functions are refused, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import TIMEOUT_MAX, Event, Thread
from typing import Any

import duckdb

from indexes.errors import InputError
from indexes.json_text import TooDeepError, parsed

LONGEST = 1 << 20
"""Characters of a condition: enough for tens of thousands of ids in a list."""
DEEPEST = 100
"""Brackets inside brackets: DuckDB's parser takes minutes over thousands that are never closed."""
DEEPEST_TREE = 500
"""Brackets inside each other in the tree that DuckDB's parser makes, as JSON."""
TEXT_CASTS = 3
"""Casts to text inside each other: each doubles the quotes in lists and structs."""
BUILT_FROM = 100
"""Columns that go into texts and lists that a condition builds: DuckDB's limit on memory does
not count them."""
SECONDS = "SLIMDEX_WHERE_SECONDS"
"""A variable of the environment: how long a condition may take."""
AGAIN = 0.1
"""Seconds from one interruption to the next."""
SHOWN = 200
"""Characters of a condition, and columns, that a message repeats."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
}
CLASSES = _words(
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR "
    "TYPE"
)
"""Classes of nodes; not among them: subqueries, windows, stars, parameters, positions, defaults."""
OPERATORS = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF "
    "OPERATOR_TRY COMPARE_IN COMPARE_NOT_IN ARRAY_EXTRACT ARRAY_SLICE ARRAY_CONSTRUCTOR "
    "STRUCT_EXTRACT"
)
CLOCKS = _words("current_date current_time current_timestamp localtime localtimestamp")
"""Names without brackets that DuckDB takes for functions; others tell who asks, and where."""
TYPES = _words(
    "bigint binary bit blob bool boolean bpchar bytea char date datetime dec decimal double float "
    "float4 float8 hugeint int int1 int2 int4 int8 integer interval json list long map numeric "
    "real short signed smallint string struct text time timestamp timestamp_ms timestamp_ns "
    "timestamp_s timestamptz timetz tinyint ubigint uhugeint uinteger usmallint utinyint uuid "
    "varbinary varchar"
) | {"time with time zone", "timestamp with time zone"}
FUNCTIONS = _words(
    # operators
    "!~~ !~~* % & && * ** + - ->> / // << <@ <-> >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~ !__postfix "
    # numbers
    "abs acos add asin atan atan2 bit_count cbrt ceil ceiling cos cot degrees divide even exp "
    "factorial fdiv floor fmod gcd greatest greatest_common_divisor isfinite isinf isnan lcm "
    "least least_common_multiple ln log log10 log2 mod multiply nextafter pi pow power "
    "radians round round_even roundbankers sign signbit sin sqrt subtract tan trunc xor "
    # texts
    "ascii bit_length char_length character_length concat concat_ws contains "
    "ends_with hamming hash "
    "ilike_escape instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme "
    "len length length_grapheme like_escape lower ltrim md5 mismatches nfc_normalize "
    "not_ilike_escape not_like_escape octet_length ord overlay parse_dirname parse_dirpath "
    "parse_filename parse_path position prefix regexp_extract regexp_extract_all "
    "regexp_full_match regexp_matches regexp_split_to_array replace reverse right "
    "right_grapheme rtrim sha1 sha256 split split_part starts_with str_split str_split_regex "
    "string_split string_split_regex string_to_array strip_accents strlen strpos substr substring "
    "substring_grapheme suffix translate trim ucase unicode upper "
    # dates and times
    "ago age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub "
    "datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms "
    "epoch_ns epoch_us era hour isodow isoyear julian last_day make_date make_time make_timestamp "
    "make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium millisecond "
    "minute month monthname nanosecond now quarter second strftime strptime time_bucket timezone "
    "timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds "
    "to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp "
    "to_weeks to_years today transaction_timestamp try_strptime week weekday weekofyear year "
    "yearweek "
    # choices and kinds
    "constant_or_null enum_code get_type if nullif typeof "
    # lists, structs, maps and JSON
    "array_append array_cat array_concat array_contains array_cosine_distance "
    "array_cosine_similarity array_distance array_distinct array_dot_product "
    "array_extract array_has array_has_all array_has_any array_indexof "
    "array_inner_product array_intersect array_length array_pop_back array_pop_front "
    "array_position array_prepend array_push_back array_push_front array_reverse "
    "array_reverse_sort array_select array_slice array_sort array_to_string "
    "array_unique array_value array_where array_zip cardinality element_at "
    "grade_up json json_array_length json_exists json_extract "
    "json_extract_path json_extract_path_text json_extract_string json_keys "
    "json_structure json_type json_valid json_value list_any_value list_append list_avg "
    "list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance "
    "list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element "
    "list_extract list_first list_grade_up list_has list_has_all list_has_any "
    "list_indexof list_inner_product list_intersect list_last list_max list_median list_min "
    "list_mode list_pack list_position list_prepend list_product list_reverse list_reverse_sort "
    "list_select list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum "
    "list_unique list_value list_var_pop list_var_samp list_where list_zip map "
    "map_contains map_contains_entry map_contains_value map_entries map_extract map_extract_value "
    "map_from_entries map_keys map_values row struct_extract struct_extract_at struct_has "
    "struct_keys struct_pack struct_values union_extract union_tag union_value"
)
"""Functions of their arguments and the clock.

Left out are those that read files, settings, variables, sequences and the catalog, that wait,
write, draw at random or raise what they are told; those that make much out of little: range,
repeat, lpad, format, hex, regexp_replace, list_resize, all that take lambdas, and their like; and
those whose time grows with the square of a text's length: levenshtein, json_contains.
"""
BUILDERS = _words(
    "|| array_append array_cat array_concat array_prepend array_push_back array_push_front "
    "array_value concat concat_ws list_append list_cat list_concat list_pack list_prepend "
    "list_value map row struct_pack"
)
REGEXES = _words(
    "regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_split_to_array "
    "str_split_regex string_split_regex ~"
)
"""Their time grows with the length of the text times that of the second argument, the pattern."""
LONGEST_PATTERN = 1000
"""Characters of a pattern, which has to be a constant."""
SHRINKING = "replace"
"""Its third argument may not be longer than its second: nested, it would grow exponentially."""
TEXT_TYPES = _words(
    "bit blob bpchar bytea binary char json list map string struct text varbinary varchar"
)


def checked(where: str, columns: Sequence[str]) -> str:
    """The condition as it is, if it is one expression over the columns.

    In brackets on lines of its own it may stand wherever SQL takes an expression.

    Parameters
    ----------
    columns : the names that it may use, in any case.

    Raises
    ------
    InputError
        If it is anything else, too long, or nested too deeply.

    >>> checked("year > 1990 AND lower(author) LIKE 'k%'", ["year", "author"])
    "year > 1990 AND lower(author) LIKE 'k%'"
    >>> checked("year > (SELECT 1990)", ["year"])
    Traceback (most recent call last):
    ...
    indexes.errors.InputError: where 'year > (SELECT 1990)': SUBQUERY is not allowed; expected a \
condition on the columns year
    """
    try:
        _check_text(where)
        _check_tree(_expression(where), frozenset(column.lower() for column in columns))
    except _Refused as error:
        raise refusal(where, str(error), columns) from error
    return where


def refusal(where: str, reason: str, columns: Sequence[str]) -> InputError:
    """The error for a condition that is none, of a length that can be read."""
    named = ", ".join(columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
    shown = repr(where) if len(where) <= SHOWN else f"{where[:SHOWN]!r}..."
    return InputError(f"where {shown}: {reason}; expected a condition on the columns {named}")


@contextmanager
def limited(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt what the connection does when it takes too long: DuckDB raises then.

    It looks at the clock after each 2,048 rows.

    Raises
    ------
    InputError
        If the environment's `SECONDS` are no number of seconds.
    """
    seconds, over = seconds_allowed(), Event()

    def interrupt() -> None:
        wait = seconds
        while not over.wait(wait):
            connection.interrupt()
            wait = AGAIN  # a query that has not begun yet forgets it as it begins

    watch = Thread(target=interrupt, daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()  # or it could still interrupt what the connection does next


def seconds_allowed() -> float:
    """How long a condition may be looked for in the documents."""
    said = os.environ.get(SECONDS, "60")
    with suppress(ValueError):
        if 0 < float(said) <= TIMEOUT_MAX:
            return float(said)
    raise InputError(f"{SECONDS}={said!r}; expected a number of seconds, more than 0")


class _Refused(Exception):
    """Why."""


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """A database of its own: nothing in a stranger's catalog has a part in the check."""
    return duckdb.connect(config=CONFIG)


def _check_text(where: str) -> None:
    """What can be seen without a parser, and should be before it has any work."""
    if not where.strip():
        raise _Refused("it is empty")
    if len(where) > LONGEST:
        raise _Refused(f"{len(where)} characters; at most {LONGEST} are read")
    try:
        text = where.encode()
    except UnicodeEncodeError as error:
        raise _Refused(f"no Unicode text ({error.reason})") from error
    if 0 in text:
        raise _Refused("it has a NUL character")
    depth = 0
    for offset, kind in duckdb.tokenize(where):
        symbol = text[offset : offset + 1]
        if kind != duckdb.token_type.operator:
            continue
        if symbol == b";":
            raise _Refused("it has a semicolon")
        depth += (symbol in b"([{") - (symbol in b")]}")
        if depth > DEEPEST:
            raise _Refused(f"more than {DEEPEST} brackets inside each other")


def _expression(where: str) -> dict[str, Any]:
    """The tree of the one expression that the text is.

    It is parsed without brackets around it, so that it can't close them.
    """
    try:
        found = (
            _parser()
            .cursor()
            .execute("SELECT json_serialize_sql(?::VARCHAR)", [f"SELECT\n{where}\n"])
        )
        tree = parsed(found.fetchall()[0][0], DEEPEST_TREE)
    except TooDeepError as error:
        raise _Refused("it is nested too deeply") from error
    except duckdb.Error as error:
        raise _Refused(" ".join(str(error).split())) from error
    if tree["error"]:
        raise _Refused(" ".join(tree["error_message"].split("\n")[0].split()))
    (statement,) = tree["statements"]
    node = statement["node"]
    plain = _expression_of(node) if node["type"] == "SELECT_NODE" else None
    if plain is None:
        raise _Refused("more than one expression")
    return plain


def _expression_of(node: dict[str, Any]) -> dict[str, Any] | None:
    """A SELECT's only expression; None if it has anything else."""
    extras = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample")
    if node["qualify"] or node["aggregate_handling"] != "STANDARD_HANDLING":
        return None
    if any(node.get(name) for name in extras) or node["cte_map"]["map"]:
        return None
    if node["from_table"]["type"] != "EMPTY" or len(node["select_list"]) != 1:
        return None
    expression: dict[str, Any] = node["select_list"][0]
    return None if expression["alias"] else expression


def _check_tree(root: dict[str, Any], names: frozenset[str]) -> None:
    """Check every node; with each goes how many casts to text it is in, and whether it is built
    into something."""
    waiting: list[tuple[Any, int, bool]] = [(root, 0, False)]
    built_from = 0
    while waiting:
        value, casts, building = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, casts, building) for item in value]
        if not isinstance(value, dict):
            continue
        if "class" in value:
            _check_node(value, names)
            casts += _is_text_cast(value)
            built_from += building and value["class"] == "COLUMN_REF"
            building |= value.get("function_name") in BUILDERS
            building |= value["type"] == "ARRAY_CONSTRUCTOR"
        if casts > TEXT_CASTS:
            raise _Refused(f"more than {TEXT_CASTS} casts to text inside each other")
        if built_from > BUILT_FROM:
            raise _Refused(f"more than {BUILT_FROM} columns in texts or lists")
        waiting += [(item, casts, building) for item in value.values()]


def _is_text_cast(node: dict[str, Any]) -> bool:
    return node["class"] == "CAST" and node["type_expr"]["type_name"].lower() in TEXT_TYPES


def _check_node(node: dict[str, Any], names: frozenset[str]) -> None:
    kind = node["class"]
    if kind not in CLASSES or (kind == "OPERATOR" and node["type"] not in OPERATORS):
        raise _Refused(f"{node['type']} is not allowed")
    if kind == "LAMBDA" and node["syntax_type"] != "SINGLE_ARROW":  # which is JSON's
        raise _Refused("LAMBDA is not allowed")
    if kind == "COLUMN_REF":
        first, *rest = node["column_names"]
        if first.lower() not in names and (rest or first.lower() not in CLOCKS):
            raise _Refused(f'column "{first}" not found')
    elif kind == "TYPE":
        name = node["type_name"]
        if node["catalog"] or node["schema"] or name.lower() not in TYPES:
            raise _Refused(f"no type {name!r}")
    elif kind == "FUNCTION":
        _check_function(node, names)


def _check_function(node: dict[str, Any], names: frozenset[str]) -> None:
    name = node["function_name"].lower()
    if name not in FUNCTIONS:
        raise _Refused(f"function {name!r} is not allowed")
    # The parser takes the column of a call like column.lower() for a schema.
    first = node["catalog"] or node["schema"]
    if first and first.lower() not in names:
        raise _Refused(f'column "{first}" not found')
    if node["filter"] or node["distinct"] or node["order_bys"]["orders"] or node["export_state"]:
        raise _Refused(f"function {name!r} is not called plainly")
    if name in REGEXES and not _is_pattern(node["arguments"][0 if first else 1 :]):
        raise _Refused(f"a pattern is a constant of at most {LONGEST_PATTERN} characters")
    if name == SHRINKING and not _shrinks(node):
        raise _Refused("replace with anything but a constant that is no longer than the one before")


def _is_pattern(arguments: Sequence[dict[str, Any]]) -> bool:
    constant = arguments[0]["expression"].get("literal") if arguments else None
    return constant is not None and len(constant["text"]) <= LONGEST_PATTERN


def _shrinks(node: dict[str, Any]) -> bool:
    constants = [argument["expression"].get("literal") for argument in node["arguments"][-2:]]
    old, new = ("" if constant is None else constant["text"] for constant in constants)
    return all(constants) and len(new.encode()) <= len(old.encode())
