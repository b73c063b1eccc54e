"""Nodes, functions and types that a condition may contain; all others are refused.

New functions of a later DuckDB are therefore refused too.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLASSES = _words(
    "BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR TYPE"
)
"""Allowed nodes: no subqueries, windows, stars, parameters, positions or defaults."""
OPERATORS = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE COMPARE_IN "
    "COMPARE_NOT_IN ARRAY_EXTRACT STRUCT_EXTRACT"
)
CLOCKS = _words("current_date current_timestamp now today")
"""Functions that read the clock, some of them without brackets."""
TYPES = _words(
    "bigint bool boolean date decimal double float hugeint int integer interval json list real "
    "smallint text time timestamp timestamptz tinyint uuid varchar"
) | {"timestamp with time zone"}
REGEXES = _words("regexp_extract regexp_full_match regexp_matches")
PATTERNS = REGEXES | _words(
    "~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape strptime "
    "try_strptime"
)
"""Functions whose second argument is a pattern; the signs are those of LIKE, ILIKE and GLOB."""
PATHS = _words(
    "->> json_array_length json_exists json_extract json_extract_string json_keys json_type"
)
"""Functions whose second argument is a path in JSON."""
COMPARISONS = _words("contains ends_with starts_with")
"""Functions that take constants of any length."""
OTHERS = _words(
    # numbers
    "% * + - / abs ceil floor greatest least round trunc "
    # texts
    "left length lower ltrim right rtrim strip_accents strpos "
    "substr substring trim upper "
    # dates and times; to_... are those of INTERVAL
    "date_diff date_part date_trunc day dayofweek hour make_date minute month quarter second "
    "timezone to_days to_hours to_microseconds to_milliseconds to_minutes to_months to_quarters "
    "to_seconds to_weeks to_years week year "
    # lists, choices and kinds; list_value is that of [...]
    "if len list_contains list_has_all list_has_any list_value nullif typeof"
)
FUNCTIONS = PATTERNS | PATHS | CLOCKS | COMPARISONS | OTHERS
"""Functions that people filter by, which depend only on their arguments and the clock.

None reads files or settings, waits, or takes time quadratic in a text's length; and none makes a
value that is larger than its arguments: nested, such calls fill any memory.
"""
