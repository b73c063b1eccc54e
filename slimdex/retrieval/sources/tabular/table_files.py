"""SQL for reading table files with DuckDB, and the place of errors in them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal, one_file
from slimdex.system.json_text import TooDeepError, parse_json

from ...documents import MOST_COLUMNS, check_columns
from ..files.input_files import (
    LARGEST_OBJECT,
    PIECE,
    UNREADABLE,
    InputFile,
    open_bytes,
    open_text,
    remove_later,
    temporary,
    unreadable,
)

SQL = "sql:"
"""Prefix of a source that is a query."""
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
DELIMITERS = ",\t;|"
BLANK = f'{DELIMITERS}" \r\n'
"""Characters of a CSV file's line without values."""
ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape in JSON; the group is half of a pair of surrogates, without the other half."""
ROLE_COLUMNS = 4
"""Columns that may be the id, the text, the title and the vectors."""
ANSWER = ".answer"
TABLE = "answer"
"""Ending of the result of a query, and the table in it."""
MOST_KEYS = 1_000_000
"""Keys of a JSON file that are counted at most."""


def read_json(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a JSON file; DuckDB infers types if none are given."""
    layout = "auto" if file.ending == ".json" else "newline_delimited"
    options = f"format='{layout}', sample_size=-1, maximum_object_size={LARGEST_OBJECT}"
    # Rare keys are columns too, and objects are not read as maps.
    options += ", map_inference_threshold=-1, field_appearance_threshold=0"
    if types:  # read_json requires all types or none
        options += f", columns={_types_sql(types, names)}"
    return f"read_json({one_file(str(file.path))}, {options})"


def json_objects(file: InputFile) -> str:
    """SQL to read the objects of a JSON file, each as a column "json"."""
    objects = read_json(file, {}, []).replace("read_json(", "read_json_objects(", 1)
    # Remove the options that only `read_json` has.
    return re.sub(r", (sample_size|map_\w+|field_\w+)=[-\d]+", "", objects)


def check_keys(connection: duckdb.DuckDBPyConnection, file: InputFile) -> None:
    """Raise `InputError` for columns that DuckDB can't read well.

    It takes minutes to describe far too many columns. Of JSON keys that differ only in case, it
    reads one and leaves the others empty.
    """
    reader = READERS.get(file.ending)
    count: int | None = 0
    alike: list[str] | None = None
    if reader is read_csv:
        count = len(header(file.path))
    elif reader is read_json:
        # Count the different keys, and find some that differ only in case.
        keys = (
            f"SELECT DISTINCT unnest(json_keys(json)) FROM {json_objects(file)} LIMIT {MOST_KEYS}"
        )
        groups = f"SELECT count(*) AS n, list(k) AS l FROM ({keys}) t(k) GROUP BY lower(k)"
        with suppress(duckdb.Error):  # reported when the file is read
            sql = f"SELECT sum(n), any_value(l) FILTER (WHERE n > 1) FROM ({groups})"
            ((count, alike),) = connection.execute(sql).fetchall()
    if count is not None and count > MOST_COLUMNS + ROLE_COLUMNS:
        check_columns(count, file.name)
    if alike:
        shown = ", ".join(map(repr, sorted(alike)[:5]))
        raise InputError(f"{file.name}: keys {shown}; expected keys that differ in more than case")


def describe_json(connection: duckdb.DuckDBPyConnection, file: InputFile) -> dict[str, str]:
    """Types of the columns of a JSON file; those with keys that DuckDB can't tell apart are JSON.

    DuckDB reads objects as structs, whose names have no case, and refuses `{"Host": 1, "host": 2}`.
    """
    try:
        return describe(connection, read_json(file, {}, []))
    except duckdb.NotImplementedException:
        rows = connection.execute(
            f"SELECT json_group_structure(json)::VARCHAR FROM {json_objects(file)}"
        ).fetchall()
        structure = json.loads(rows[0][0])
        alike = [column for column, inner in structure.items() if _has_alike_keys(inner)]
        if not alike:
            raise

    # Find the other columns' types in a copy without these, with one object per line.
    copy = replace(file, path=temporary(), ending=".jsonl")
    remove_later(copy)
    patch = literal(json.dumps(dict.fromkeys(alike)))
    connection.execute(
        f"COPY (SELECT json_merge_patch(json, {patch}) FROM {json_objects(file)}) "
        f"TO {literal(str(copy.path))} (FORMAT csv, HEADER false, QUOTE '', DELIMITER '\x01')"
    )
    types = describe(connection, read_json(copy, {}, []))
    return {column: types.get(column, "JSON") for column in structure}


def describe(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Types of the columns of a table in SQL."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    return {column: type_ for column, type_, *_ in described}


def _has_alike_keys(structure: Any) -> bool:
    """True if objects of a structure as DuckDB describes it have keys that differ only in case."""
    if isinstance(structure, list):
        return any(map(_has_alike_keys, structure))
    if not isinstance(structure, dict):
        return False
    keys = {*map(str.lower, structure)}
    return len(keys) < len(structure) or any(map(_has_alike_keys, structure.values()))


def narrow_integers(
    connection: duckdb.DuckDBPyConnection, file: InputFile, types: dict[str, str]
) -> dict[str, str]:
    """Read whole numbers of a JSON file as BIGINT if all fit: DuckDB infers HUGEINT of 0 and -1."""
    for column, wide in types.items():
        narrow = types | {column: re.sub(r"\bHUGEINT\b", "BIGINT", wide)}
        if narrow != types:
            # Reading fails if a number does not fit.
            table = read_json(file, narrow, list(narrow))
            sql = f"SELECT max({identifier(column)}::VARCHAR) FROM {table}"
            with suppress(duckdb.Error):
                connection.execute(sql).fetchall()
                types = narrow
    return types


def read_csv(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a CSV or TSV file; DuckDB infers types if none are given."""
    # DuckDB would guess another separator, skip lines or treat rows that begin with "#" as comments
    # rather than report a malformed file.
    options = f"sample_size=-1, header=true, comment='', max_line_size={LARGEST_OBJECT}"
    quotes = "" if file.ending == ".tsv" else ", quote='\"', escape='\"'"
    try:
        skipped, delimiter = layout(file.path)
        options += f", skip={skipped}, delim={literal(delimiter)}{quotes}"
    except UNREADABLE as error:
        raise InputError(f"{file.name}{unreadable(error, file.path)}") from error
    if types:
        options += f", types={_types_sql(types, names)}"
    return f"read_csv({one_file(str(file.path))}, {options})"


def _types_sql(types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL of a struct with the columns' types."""
    fields = ", ".join(f"{literal(name)}: {literal(types[name])}" for name in names)
    return f"{{{fields}}}"


def read_parquet(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a Parquet file, with its own types."""
    return f"read_parquet({one_file(str(file.path))})"


def read_answer(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read the result of a query, with its own types, from a file of DuckDB's."""
    return f"read_duckdb({one_file(str(file.path))}, table_name={literal(TABLE)})"


TYPED = (read_parquet, read_answer)
"""Readers of files that state the types of their columns."""
READERS = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}
"""Ending of a file that users name -> its reader."""


def layout(path: Path) -> tuple[int, str]:
    """Detect the number of lines before a CSV file's header, and its separator.

    The separator is a tab, comma, semicolon or bar. Excel may state it in a first line "sep=;".
    Lines without a name are skipped.
    """
    with open_text(path) as lines:
        header = lines.readline(LARGEST_OBJECT)
        skipped = 0
        stated = re.fullmatch(r"sep=(.)\s*", header, re.IGNORECASE)

        # Skip lines without values, and the first line if it states the separator.
        while header and (not header.strip(BLANK) or (stated and not skipped)):
            header = lines.readline(LARGEST_OBJECT)
            skipped = skipped + 1
    return skipped, stated[1] if stated else max(DELIMITERS, key=header.count)


def header(path: Path) -> list[str]:
    """The names of a CSV file's columns as written; [] if they can't be read."""
    try:
        skipped, delimiter = layout(path)
        with open_text(path) as lines:
            for _ in range(skipped):
                lines.readline(LARGEST_OBJECT)
            return next(csv.reader(_bounded_lines(lines), delimiter=delimiter), [])
    except (csv.Error, *UNREADABLE):
        return []


def has_mixed_line_endings(path: Path) -> bool:
    """Return whether only some lines end with a carriage return, which DuckDB can't read."""
    try:
        with open_bytes(path) as lines:
            ends = set[bool]()  # whether a line ends with "\r\n"
            last_byte = b""  # of the previous piece: a long line is read in several
            while piece := lines.readline(PIECE):
                if piece.endswith(b"\n"):
                    ends.add((last_byte + piece)[-2:] == b"\r\n")
                last_byte = piece[-1:]
    except UNREADABLE:
        return False
    return len(ends) > 1


def first_error(file: InputFile) -> str | None:
    """Describe the first error of a CSV or JSON file, with its line; None if none is found."""
    by_ending = {".csv": _broken_record, ".tsv": _broken_record, ".json": _broken_json}
    find_error = by_ending.get(file.ending, _broken_line)
    return find_error(file.path)


def _broken_json(path: Path) -> str | None:
    """Describe the first error of a JSON file of any layout: DuckDB counts values, not lines."""
    with open_text(path, newline="\n") as lines:
        text = lines.read(LARGEST_OBJECT)
        while lines.read(PIECE):  # to its end: it may be cut off, or not UTF-8
            text = ""  # too large to be parsed here
    error = _json_error(text, 1)
    has_several_values = error is not None and " (Extra data" in error
    return _broken_line(path) if has_several_values else error


def _broken_line(path: Path) -> str | None:
    """Describe the first line that is not JSON; DuckDB's own line numbers are per buffer."""
    with open_text(path, newline="\n") as lines:
        pieces = iter(partial(lines.readline, LARGEST_OBJECT + 1), "")
        for number, line in enumerate(pieces, start=1):
            if len(line) > LARGEST_OBJECT:
                return f"line {number}: over {LARGEST_OBJECT:,} characters; expected one document"
            if error := _json_error(line.rstrip("\r\n"), number) or _no_fields(line, number):
                return error
    return None


def _no_fields(line: str, number: int) -> str | None:
    """Describe a line of valid JSON that is no object of named fields."""
    value = parse_json(line) if line.strip() else {}
    if not isinstance(value, dict):
        return f"line {number}: {shorten(line.strip(), 40)}; expected a JSON object"
    return f"line {number}: a field without a name; expected one" if "" in value else None


def _json_error(text: str, number: int) -> str | None:
    """Describe the first error of a JSON text that begins in a line of this number."""
    try:
        if text.strip():
            parse_json(text)
    except json.JSONDecodeError as error:
        line = number + error.lineno - 1
        return f"line {line}: broken JSON ({error.msg} at column {error.colno})"
    except TooDeepError as error:
        return f"line {number}: JSON {error}"
    except ValueError as error:  # a key twice, or an integer of thousands of digits
        return f"line {number}: {error}"
    half = next((escape for escape in ESCAPE.finditer(text) if escape[1]), None)
    if half is None:
        return None
    line = number + text.count("\n", 0, half.start())
    return f"line {line}: {half[0]} is half of a character; expected both halves"


def _broken_record(path: Path) -> str | None:
    """Describe the first CSV record with another number of columns, which DuckDB does not report.

    It is named by its first line.
    """
    largest = csv.field_size_limit(LARGEST_OBJECT)  # of the whole process, so it is restored
    try:
        skipped, delimiter = layout(path)
        with open_text(path, newline="") as lines:
            records = csv.reader(_bounded_lines(lines), delimiter=delimiter, strict=True)
            for _ in range(skipped):
                next(records)
            return _uneven_record(records)
    finally:
        csv.field_size_limit(largest)


def _bounded_lines(lines: IO[str]) -> Iterator[str]:
    """Yield lines; raises `csv.Error` for one that is too long, before it is read whole."""
    for line in iter(partial(lines.readline, LARGEST_OBJECT + 1), ""):
        if len(line) > LARGEST_OBJECT:
            raise csv.Error(f"over {LARGEST_OBJECT:,} characters")
        yield line


def _uneven_record(records: Any) -> str | None:
    """Describe the first record that is broken, or differs from the first in its number of columns.

    Empty lines are not records.
    """
    width = None
    while True:
        line = records.line_num + 1
        try:
            record = next(records, None)
        except csv.Error as error:
            return f"line {line}: broken CSV ({error})"
        if record is None:
            return None
        width = len(record) if width is None else width
        if record and len(record) != width:
            return f"line {line}: {len(record)} columns; expected {width}"


def query_file(spec: str) -> InputFile:
    """Run a DuckDB query over files: ``sql:SELECT * FROM 'notes/*.parquet'``.

    Raises `InputError` if the query fails.
    """
    query = spec.removeprefix(SQL).strip().rstrip(";")
    path = temporary()
    file = InputFile(
        name=shorten(query, 60),
        path=path,
        ending=ANSWER,
        id_prefix="sql",
        place=f"sql {query}",
        facts=[query],
    )
    remove_later(file)
    path.unlink()  # DuckDB makes its files itself
    try:
        with connect(OFFLINE) as connection:
            connection.execute(f"ATTACH {literal(str(path))} AS made")
            connection.execute(f"CREATE TABLE made.{TABLE} AS (\n{query}\n)")
            file.facts.append(_digest(connection))
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        raise InputError(f"sql {shorten(query)}: {reason}") from error
    return file


def _digest(connection: duckdb.DuckDBPyConnection) -> str:
    """Convert HUGEINT columns of a result to BIGINT if all values fit, and return its digest.

    DuckDB's sums of integers are HUGEINT.
    """
    types = connection.execute(f"DESCRIBE made.{TABLE}").fetchall()
    for name, type_, *_ in types:
        if type_ != "HUGEINT":
            continue
        with suppress(duckdb.Error):  # a number is larger
            connection.execute(f"ALTER TABLE made.{TABLE} ALTER {identifier(name)} TYPE BIGINT")
    rows = f"SELECT count(*), sum(hash(t, rowid)) FROM made.{TABLE} t"
    return str([types, *connection.execute(rows).fetchall()])
