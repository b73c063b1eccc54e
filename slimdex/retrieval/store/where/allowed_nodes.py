"""Nodes, functions and types that a condition may contain; all others are refused.

New functions of a later DuckDB are therefore refused too.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLASSES = _words(
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR "
    "TYPE"
)
"""Allowed nodes: no subqueries, windows, stars, parameters, positions or defaults."""
OPERATORS = _words(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF "
    "OPERATOR_TRY COMPARE_IN COMPARE_NOT_IN ARRAY_EXTRACT ARRAY_SLICE ARRAY_CONSTRUCTOR "
    "STRUCT_EXTRACT"
)
CLOCKS = _words("current_date current_time current_timestamp localtime localtimestamp")
"""Names that DuckDB treats as functions without brackets; others reveal the user or the machine."""
CLOCK_FUNCTIONS = _words("age ago now today transaction_timestamp")
"""The allowed functions that read the clock."""
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
    "len length length_grapheme like_escape lower ltrim md5 mismatches "
    "not_ilike_escape not_like_escape octet_length ord parse_dirname parse_dirpath "
    "parse_filename parse_path position prefix regexp_extract "
    "regexp_full_match regexp_matches replace reverse right "
    "right_grapheme rtrim sha1 sha256 split split_part starts_with str_split "
    "string_split string_to_array strip_accents strlen strpos substr substring "
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
"""Functions that depend only on their arguments and the clock.

Excluded: functions that read files, settings, variables, sequences or the catalog; that wait,
write, draw random numbers or raise given errors; that build large values from small ones (range,
repeat, lpad, format, hex, regexp_replace, list_resize, all that take lambdas, and similar); and
those with time quadratic in a text's length (levenshtein, regexp_extract_all, nfc_normalize,
json_contains).
"""
BUILDERS = _words(
    "|| array_append array_cat array_concat array_prepend array_push_back array_push_front "
    "array_value concat concat_ws list_append list_cat list_concat list_pack list_prepend "
    "list_value map row struct_pack"
)
SHRINKING = "replace"
"""Its third argument may not be longer than its second: nested, it would grow exponentially."""
REGEXES = _words("regexp_extract regexp_full_match regexp_matches ~")
LIKES = _words("~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape")
"""Functions whose second argument is a pattern, as are those of regular expressions."""
LISTS = _words("list_value ARRAY_CONSTRUCTOR")
"""Nodes for [...]."""
TAKES_NAMES = "struct_pack"
"""The only function with named arguments; in others, names could change the order."""
COLLATIONS = _words("binary c nocase noaccent posix")
TEXT_TYPES = _words(
    "bit blob bpchar bytea binary char json list map string struct text varbinary varchar"
)
