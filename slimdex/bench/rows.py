"""Rows of results as lines of JSON, appended as they are measured; unknown columns are refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any

from slimdex.errors import InputError
from slimdex.system.atomic_files import publish
from slimdex.system.json_text import parse_json

Row = dict[str, Any]
FOLDER = Path("slimdex/bench/results")
"""Rows of this repository, from which README is made; not part of wheels."""
NUMBER = (int, float)
COLUMNS: dict[str, tuple[tuple[type, ...], str]] = {
    # what was measured
    "key": ((str,), "short name of everything that identifies a row"),
    "set": ((str,), "set of documents and queries"),
    "model": ((str,), "encoder"),
    "sha256": ((str,), "of the encoder's weights"),
    "vectors": ((str,), "short name of the vectors"),
    "dim|d|width": ((int,), "dimensions of the encoder's vectors, or of its hidden states"),
    "documents|queries": ((int,), "how many"),
    "rows": ((int,), "of an index"),
    "method|encoder|way|what": ((str,), "what does it"),
    "effort": ((int,), "rows rescored, or what a library calls its effort"),
    "error": ((str,), "why there is no result"),
    "seed": ((int,), "of what is random"),
    # settings
    "k|candidates": ((int, NoneType), "as in `Settings`"),
    "beta|gamma": ((*NUMBER, NoneType), "as in `Settings`"),
    "kind|reducer": ((str,), "as in `Settings`; none: no reducer"),
    "max_length": ((int, NoneType), "tokens read of a text"),
    "mode|pooling": ((str,), "how tokens become a vector"),
    "layers": ((list,), "whose vectors are averaged"),
    "fit": ((str,), "what the reducer is fitted on: target, NLI, or nothing"),
    "language": ((str,), "of the sets"),
    "sets": ((list,), "names of the sets that are averaged"),
    "precision|runtime": ((str, NoneType), "of encoding, and what runs it"),
    "texts": ((str,), "short name of the texts"),
    # quality
    r"(ndcg|mrr|recall)@\d+(_delta|_low|_high)?": (
        NUMBER,
        "points of 100: the mean, its difference from float32 (of rule codes: from float32 rule),"
        " and that one's 95% interval",
    ),
    r"agreement@10(_low|_high)?": (NUMBER, "share of the exact search's ten, and interval"),
    "(STS-B|SICK-R|STS1[2-6]|(sts_)?average)( w?mean)?": (
        NUMBER,
        "Spearman's correlation x 100 with human scores: over all pairs, or by subtasks",
    ),
    # time
    "fit_s|index_s|build_s|write_s|load_s": (NUMBER, "seconds to fit, code, both, write, load"),
    "words_s": (NUMBER, "seconds to index the words"),
    "seconds": (NUMBER, "seconds of a run"),
    "builds": ((int,), "of which build_s is the median"),
    r"(p50|p95|p99|batch)_ms(_\w+)?": (
        NUMBER,
        "milliseconds of a query or text: percentiles, in a batch, of a part, on one thread or all",
    ),
    "queries_per_s|searches_per_s(_one|_all)?": (NUMBER, "with all threads, or with one"),
    "(short|long)_(texts|tokens)_per_s": (NUMBER, "encoded"),
    "(short|long)_(texts|tokens)": ((int,), "that were encoded"),
    # memory
    "(ram|disk|process|mapped|process_files)_row_bytes": (
        (*NUMBER, NoneType),
        "bytes a vector: as the index reports, on disk, private growth of the process, growth of"
        " its pages of files; the last in older rows, with pages of the index's input",
    ),
    "code_bytes": ((int,), "of all codes in memory, the part that a search scans"),
    "ram_fixed_bytes|peak_bytes|cap_bytes": (
        (*NUMBER, NoneType),
        "bytes once, of the process at most, allowed to it while times are `capped`",
    ),
    "read_(pages_)?query_bytes": (NUMBER, "bytes read from disk by a query"),
    "memory(_files)?_bytes": ((int,), "of the process: its own, and pages of files"),
    "store(_files)?_bytes": ((int,), "the part that its library and index added"),
    "words(_memory)?_row_bytes": (NUMBER, "bytes a vector of the lexical index: on disk, read"),
    "compression": (NUMBER, "float32's bytes a vector in ours"),
    # conditions and traffic
    "condition": ((str,), "on the documents' columns"),
    "allowed_share": (NUMBER, "of the rows, by a condition"),
    "fusion": ((str,), "of words and meaning: off, rrf or the words' weight"),
    "first_share": (NUMBER, "of queries whose first answer is right"),
    "callers": ((int,), "threads"),
    "searches|changes|kills|faults|power_losses|flips": (
        (int,),
        "of a run: what it did, and calls that failed or bits that flipped on purpose",
    ),
    "longest_(search|change)_s": (NUMBER, "seconds of the longest call of a run, with waits"),
    # where and when
    "versions": ((dict,), "of Python and libraries"),
    "processor|flags|system": (
        (str,),
        "where: the processor with its family, model and stepping, and what it can do",
    ),
    "date|time": ((str,), "when the row was written, UTC"),
    "load": (NUMBER, "load of the last minute before the run"),
    "commit": ((str, NoneType), "of slimdex, where it is a checkout"),
    "clean": ((bool, NoneType), "whether the checkout's code was that commit's"),
    "threads": ((int,), "of the machine"),
}
"""Pattern of a whole name -> types of its values, and the meaning with the unit."""


def key_of(facts: Mapping[str, Any]) -> str:
    """Return a short key for the facts that identify a measurement."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResultsFile:
    """Rows by key; each row is on disk before the next one is measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            whole_lines = text[: text.rfind("\n") + 1]  # a kill may have cut the last line short
            if whole_lines != text:
                path.write_text(whole_lines, encoding="utf-8")
            self.rows = {row["key"]: row for row in _parse(path, whole_lines)}

    def append(self, row: Row) -> None:
        """Add a row, which has a `key`, with the time; numbers are rounded to six digits."""
        row = row | _moment()
        check_row(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())
        self.rows[row["key"]] = row

    def replace(self, rows: Sequence[Row]) -> None:
        """Replace all rows; new ones get the time, as in `append`."""
        rows = [row if "date" in row else row | _moment() for row in rows]
        for row in rows:
            check_row(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        publish(self.path, lambda path: _write(path, rows))
        self.rows = {row["key"]: row for row in rows}


def read_rows(folder: Path, experiment: str, *, needed: bool = True) -> list[Row]:
    """Read all rows of an experiment, `retrieval` or `peers`, from the files of a folder.

    Raises `InputError` if there are none and `needed` is true.
    """
    files = sorted(folder.glob(f"{experiment}*.jsonl"), key=lambda file: file.stem)
    rows = list[Row]()
    for file in files:
        rows += ResultsFile(file).rows.values()
    if needed and not rows:
        raise InputError(
            f"{folder}: no rows of {experiment}; expected {experiment}*.jsonl from `slimdex bench`"
        )
    return rows


def _moment() -> dict[str, Any]:
    """Date and time (UTC)."""
    now = datetime.now(UTC)
    return {"date": now.strftime("%Y-%m-%d"), "time": now.strftime("%H:%M")}


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(map(_line, rows)), encoding="utf-8")


def _line(row: Row) -> str:
    return json.dumps(_round(row), ensure_ascii=False) + "\n"


def _parse(path: Path, text: str) -> Iterable[Row]:
    """Yield the rows of a file's text; raises `InputError` for a line that is no row."""
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = parse_json(line)
            row["key"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number}: no row of results ({error})") from error
        yield row


def _round(value: Any) -> Any:
    """Round a number, or all numbers of an object, to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _round(item) for name, item in value.items()}
    return value


def check_row(row: Mapping[str, Any]) -> None:
    """Raise `TypeError` unless every column is one of `COLUMNS` and has a value of its type.

    Each of the row's `sets` may also have a column, with Spearman's correlation.

    >>> check_row({"key": "a", "ndcg@10": 79.2, "ndcg@10_low": -0.1})
    >>> check_row({"ndgc@10": 79.2})
    Traceback (most recent call last):
    TypeError: ndgc@10=79.2; expected a column of slimdex/bench/rows.py
    """
    for name, value in row.items():
        # The column of a set has the type of the average; a suffix states how it is computed.
        is_set = re.sub(" w?mean$", "", name) in row.get("sets", ())
        column = column_of("average" if is_set else name)
        if column is None:
            raise TypeError(f"{name}={value!r}; expected a column of slimdex/bench/rows.py")
        types, meaning = COLUMNS[column]
        if type(value) not in types:
            expected = " or ".join(type_.__name__ for type_ in types)
            raise TypeError(f"{name}={value!r}; expected {expected}: {meaning}")


@cache
def column_of(name: str) -> str | None:
    """Find the pattern in `COLUMNS` of a name, if there is one."""
    return next((pattern for pattern in COLUMNS if re.fullmatch(pattern, name)), None)
