"""Conditions: invalid ones are refused in one line; valid ones hold for the same rows as in SQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.store.document_store import DocumentStore
from slimdex.retrieval.store.where.allowed_nodes import CLOCKS, FUNCTIONS
from slimdex.retrieval.store.where.validation import (
    CLOCK,
    check,
    seconds_allowed,
)
from tests.chance import CHANCE, sweep
from tests.slow import slow

from .stores import add, created

COLUMNS = ("id", "title", "text", "n", "f", "d", "l", "j", "s", "odd name", "ünï")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentStore]:
    with created(tmp_path_factory.mktemp("where") / "x.index") as index:
        fill(index)
        yield index.store


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Index]:
    with created(tmp_path / "x.index") as index:
        yield index


def fill(index: Index) -> None:
    documents = [
        Document(
            f"id{i}",
            f"Text {i} of café",
            title="" if i % 3 else "Title",
            metadata={
                "n": i,
                "f": i / 2,
                "d": date(2020, 1 + i, 5),
                "l": ["a", str(i)],
                "j": {"x": {"y": i}, "z": [i, 1]},
                "s": {"a": i, "b": "x"},
                "odd name": None if i == 3 else "v",
                "ünï": "É",
            },
        )
        for i in range(8)
    ]
    add(index, *documents)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("n > 5", [6, 7]),
        ("N >= 6 -- a comment", [6, 7]),
        ("/* one */ n = 6 /* two", None),
        ("n BETWEEN 2 AND 3 OR n IN (7, 100)", [2, 3, 7]),
        ("title LIKE 'T%' AND text NOT LIKE '%3%'", [0, 6]),
        ("id ILIKE 'ID_' ESCAPE '\\' AND n < 1", [0]),
        ('"odd name" IS NULL', [3]),
        ("\"odd name\" IS NOT NULL AND ünï = 'É'", [0, 1, 2, 4, 5, 6, 7]),
        ("CASE WHEN n > 4 THEN f ELSE 0 END > 3", [7]),
        ("d + INTERVAL 1 MONTH > DATE '2020-08-01'", [6, 7]),
        ("d > '2020-06-01' AND d < current_date", [5, 6, 7]),
        ("date_trunc('quarter', d) = DATE '2020-04-01'", [3, 4, 5]),
        ("j->>'$.x.y' = '4' OR (j->'$.z[0]')::INT = 5", [4, 5]),
        ("list_contains(l, '6') OR '7' IN l OR l[2] = '5'", [5, 6, 7]),
        ("regexp_matches(text, '[2-3] of') AND text ~ '.*3.*'", [3]),
        ("id SIMILAR TO 'id(1|2)' AND lower(title) = ''", [1, 2]),
        ("regexp_matches(text, 't 5') OR regexp_extract(text, '[0-9]') = '6'", [5, 6]),
        (f"text ~ '{'x?' * 497}Text 5'", [5]),
        (" AND ".join(f"n <> {i}" for i in range(3, 503)), [0, 1, 2]),
        ("text ~ '^[A-Z][a-z]{1,9} \\d{1,4} of .{0,100}$' AND n = 2", [2]),
        ("(j->'x'->>'y') = '3' OR (j->'z'->>0) = '4' OR json_array_length(j, '$.z') = 3", [3, 4]),
        ("strip_accents(lower(ünï)) = 'e' AND id IN ['id2', 'x']", [2]),
        (" OR ".join(f"id LIKE 'x{i}_'" for i in range(199)) + " OR id LIKE '__7'", [7]),
        (f"{'lower(' * 99}title{')' * 99} = 'title'", [0, 3, 6]),
        ("upper(substring(text FROM 1 FOR 4)) = 'TEXT' AND n = 1", [1]),
        ("coalesce(\"odd name\", 'none') = 'none' OR nullif(n, 2) IS NULL", [2, 3]),
        ("n IS DISTINCT FROM 3 AND n * n < 9", [0, 1, 2]),
        ("id = '1) OR (1=1; DROP TABLE documents --'", []),
        (f"contains(text, '{'x' * 9_000}') OR id = '{'x' * 9_000}' OR n = 2", [2]),
        ("true", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("id IN (" + ", ".join(f"'id{i}'" for i in range(1, 20_000)) + ")", [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_conditions(store: DocumentStore, where: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(InputError, match="unterminated"):
            store.rows_where(where)
    else:
        assert store.rows_where(where).tolist() == rows


@pytest.mark.parametrize(
    "where",
    [
        "d < current_date",
        "NOW()::DATE > d",
        "n = 1 OR (d + INTERVAL 1 DAY)::TIMESTAMP < Current_Timestamp::TIMESTAMP",
        "CASE WHEN n > 1 THEN d < today() ELSE false END",
    ],
)
def test_conditions_that_read_the_clock(where: str) -> None:
    assert CLOCK.search(where)
    assert not CLOCK.search("d = '2020-01-01' AND n = age AND known > 1")


def test_every_function_that_reads_the_clock_is_known() -> None:
    """Other functions whose result is not constant take a time, and depend on the time zone."""
    with duckdb.connect() as connection:
        unsteady = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE macro_definition LIKE "
            "'%current_%' OR len(parameters) = 0 AND stability <> 'CONSISTENT'"
        ).fetchall()
    named = {name for (name,) in unsteady} & FUNCTIONS
    assert {"now"} <= named <= CLOCKS  # a release of DuckDB may define some otherwise


ATTACKS = [
    "",
    "n = 1; DROP TABLE documents",
    "1=1) OR (1=1",
    "n = 'x",
    'n = "x',
    "n = 1 \0 OR 1=1",
    "n = '\ud800'",
    "n = 1, n = 2",
    "n = 1 AS x",
    "1 UNION SELECT 1",
    "n IN (SELECT 1)",
    "id IN (SELECT content FROM read_text('/etc/hostname'))",
    "read_text('/etc/hostname') = ''",
    "getenv('HOME') = 'x'",
    "current_user = 'duckdb'",
    "sum(n) > 0",
    "sum(n) OVER () > 0",
    "row_number() OVER () = 1",
    "lower(DISTINCT id) = 'x'",
    "lower(id) FILTER (WHERE true) = 'x'",
    "grouping(n) = 1",
    "*",
    "*COLUMNS(*)",
    "#1 = 1",
    "DEFAULT",
    "n = ?",
    '"row" = 1',
    "rowid = 1",
    "current_date.x = 1",
    "main.lower(id) = 'x'",
    "n::mood IS NULL",
    "[x FOR x IN l IF x = 'a'] = []",
    "list_reduce(l, (x, y) -> x || y) = ''",
    "replace(text, 'a', 'aa') = ''",
    "list_has_any(l, [id, text])",
    "text.lower() = ''",
    "s" + ".a" * 10_000 + " = 1",
    "text ~ '(a?b? ?){300}z'",
    " OR ".join(f"text ~ '(a?b? ?){{{i}}}z'" for i in range(40, 140)),
    "text ~ '((a?b? ?){20}c?){20}'",
    "text ~ '" + r"\pL* ?" * 100 + "'",
    "lower(CASE WHEN n > 1 THEN '" + "x" * 2_000 + "' END) = ''",
    "try_strptime(text, [" + "'%Y', " * 10_000 + "'%m']) IS NULL",
    "text LIKE NULL::VARCHAR",
    "json_extract(j, lower('$.A')) = '1'",
    "id || id = ''",
    "(" * 100_000,
    "(" * 300 + "true" + ")" * 300,
    "NOT " * 900 + "true",
    "1" + " + 1" * 900 + " > 0",
    "NOT " * 50_000 + "true",
    "case when " * 5_000,
    "id = '" + "x" * (1 << 18) + "'",
    " OR ".join(["n = 0"] * 600_000),
    "regexp_matches(text, '" + "(a{0,100})" * 3 + "{0,1000}')",
    "regexp_matches(text, '(')",
    "regexp_matches(text, text)",
    "text.regexp_matches(text)",
    "'x'.regexp_matches(text)",
    "text ~ id",
    "text NOT SIMILAR TO id || 'x'",
    f"text ~ '{'x' * 1001}'",
    "text LIKE '%' || id",
    "regexp_matches(regex := text, string := 'h')",
    "replace(target := id, string := 'aaa', source := 'a') = ''",
    "text ~ '" + "([ab]{0,900}c|)" * 3 + "'",
    "text ~ '(a?b? ?){3,900}z'",
    "len(json_extract(j, '$..*..*..z')) > 1",
    "(j->'$..*'->>'$..*..z') = ''",
    "j.json_exists('$..*..z')",
    " OR ".join(f"(n = {i} AND f = {i})" for i in range(251)),
    " OR ".join(f"md5(id) = '{i}'" for i in range(201)),
    "n / 0 > 'a'",
    "id = 'x' \u2028; DROP TABLE state",
    "ATTACH 'x'",
]


@pytest.mark.parametrize(
    "where", [*ATTACKS[:9], *slow(ATTACKS[9:])], ids=lambda where: repr(where)[:40]
)
def test_invalid_conditions_are_refused(store: DocumentStore, where: str) -> None:
    begin = time.process_time()
    with pytest.raises(InputError) as raised:
        store.rows_where(where)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 1200
    if "\ud800" not in where:
        assert message.endswith(", ".join(COLUMNS))  # the names that it may have
    assert time.process_time() - begin < 10  # of work, however busy the machine
    assert store.rows_where("n = 4").tolist() == [4]  # nothing has changed


@pytest.mark.slow
def test_slow_conditions_are_interrupted(empty: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred functions of each text."""
    add(empty, *(Document(str(i), f"{i} " + "ab " * 500) for i in range(3000)))
    where = " OR ".join(f"strip_accents(substr(text, {i})) = ''" for i in range(100))
    monkeypatch.setenv("SLIMDEX_WHERE_SECONDS", "0.05")
    with pytest.raises(InputError, match=r"took more than 0.05 s, which SLIMDEX_WHERE_SECONDS set"):
        empty.store.rows_where(where)
    monkeypatch.setenv("SLIMDEX_WHERE_SECONDS", "60")
    assert empty.store.rows_where("id = '7'").tolist() == [7]
    monkeypatch.delenv("SLIMDEX_WHERE_SECONDS")
    assert seconds_allowed() == 60
    assert empty.store.rows_where("id = '8'").tolist() == [8]
    for seconds in ("", "0", "nan", "inf", "-1", "a minute", "1e300"):
        monkeypatch.setenv("SLIMDEX_WHERE_SECONDS", seconds)
        with pytest.raises(InputError, match="expected a number of seconds, more than 0"):
            empty.store.rows_where("id = '7'")


VALUES = ("text", "n", "f", "l", "s", "j", "'a'", "3", "NULL", "d")
"""Arguments of several types."""


@sweep
def test_any_number_of_arguments_gives_rows_or_one_line(store: DocumentStore) -> None:
    """Of any function."""
    tried = [*enumerate(product(range(5), sorted(FUNCTIONS)))]
    for number, (count, name) in CHANCE.sample(tried, 150):
        given = [VALUES[(number + i) % len(VALUES)] for i in range(count)]
        call = f'"{name}"({", ".join(given)})'
        rows, message = set[int](), ""
        try:
            rows = set(store.rows_where(f"{call} IS NOT NULL").tolist())
        except InputError as error:
            message = str(error)
        assert rows <= {*range(8)}, call
        assert "\n" not in message, call


def test_only_listed_functions(store: DocumentStore) -> None:
    """Every function of this DuckDB that is not on the list is refused, by any call."""
    with duckdb.connect() as connection:
        functions = connection.execute(
            "SELECT DISTINCT function_name, function_type FROM duckdb_functions()"
        ).fetchall()
    callable_ = {name for name, type_ in functions if type_ in ("scalar", "macro")}
    assert callable_ | CLOCKS >= FUNCTIONS
    others = sorted({name for name, _ in functions if name.isidentifier()} - FUNCTIONS)
    assert len(others) > 400
    for name in others:
        with pytest.raises(InputError, match=r"not allowed|syntax error|at or near"):
            check(f'"{name}"(n) IS NULL', COLUMNS)


WORDS = """n id text l j s x SELECT FROM state blocks documents WHERE UNION IN AND OR NOT NULL
CASE WHEN THEN END CAST AS INT LIKE BETWEEN IS EXISTS OVER FILTER lambda lower count unnest range
read_text COLUMNS row deleted -- /* */ :: -> ->> $$ 1 0 'a' e'\\'' é"""
PIECES = [*"()[]{};,.?$#*'\"-+/|&!~^=<>:@% \n\ud800\u2028\0", *WORDS.split()]


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", " "]))
def test_random_conditions_end_in_rows_or_in_one_line(
    store: DocumentStore, pieces: list[str], between: str
) -> None:
    where = between.join(pieces)
    message = ""
    try:
        rows = set(store.rows_where(where).tolist())
    except InputError as error:
        rows, message = set(), str(error)
    assert rows <= set(range(8))
    assert "\n" not in message
