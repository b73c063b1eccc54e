"""Columns of rows of results with their types and units; others are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any

NUMBER = (int, float)


@dataclass(frozen=True)
class Column:
    """One column, or several whose names match one pattern.

    Attributes
    ----------
    name : a regular expression for the whole name.
    types : of its values.
    meaning : its description, with the unit.
    """

    name: str
    types: tuple[type, ...]
    meaning: str


COLUMNS = (
    # what was measured
    Column("key", (str,), "short name of everything that identifies a row"),
    Column("set", (str,), "set of documents and queries"),
    Column("model", (str,), "encoder"),
    Column("sha256", (str,), "of the encoder's weights"),
    Column("vectors", (str,), "short name of the vectors"),
    Column("dim|d|width", (int,), "dimensions of the encoder's vectors, or of its hidden states"),
    Column("documents|queries", (int,), "how many"),
    Column("rows|changed", (int,), "of an index, and how many a change touches"),
    Column("method|encoder|way|what", (str,), "what does it"),
    Column("effort", (int,), "rows rescored, or what a library calls its effort"),
    Column("error", (str,), "why there is no result"),
    Column("seed", (int,), "of what is random"),
    # settings
    Column("k|candidates", (int, NoneType), "as in `Settings`"),
    Column("beta|gamma", (*NUMBER, NoneType), "as in `Settings`"),
    Column("kind|reducer", (str,), "as in `Settings`; none: no reducer"),
    Column("max_length", (int, NoneType), "tokens read of a text"),
    Column("mode|pooling", (str,), "how tokens become a vector"),
    Column("layers", (list,), "whose vectors are averaged"),
    Column("fit", (str,), "what the reducer is fitted on: target, NLI, or nothing"),
    Column("language", (str,), "of the sets"),
    Column("sets", (list,), "names of the sets that are averaged"),
    Column("precision|runtime", (str, NoneType), "of encoding, and what runs it"),
    Column("texts", (str,), "short name of the texts"),
    # quality
    Column(
        r"(ndcg|mrr|recall)@\d+(_delta|_low|_high)?",
        NUMBER,
        "points of 100: the mean, its difference from float32 (of tune:"
        " from the default metric or a fresh index), and that"
        " one's 95% interval",
    ),
    Column(r"agreement@10(_low|_high)?", NUMBER, "share of the exact search's ten, and interval"),
    Column(
        "estimate|bound", NUMBER, "agreement@10 by queries made of documents, and its lower bound"
    ),
    Column("trials|too_high", (int,), "of a bound, and in how many real queries find less"),
    Column("recall@10_total", NUMBER, "share of the exact ten"),
    Column(
        "(STS-B|SICK-R|STS1[2-6]|(sts_)?average)( w?mean)?",
        NUMBER,
        "Spearman's correlation x 100 with human scores: over all pairs, or by subtasks",
    ),
    # time
    Column(
        "fit_s|index_s|build_s|write_s|load_s", NUMBER, "seconds to fit, code, both, write, load"
    ),
    Column("words_s", NUMBER, "seconds to index the words"),
    Column("seconds", NUMBER, "seconds of a run"),
    Column("builds", (int,), "of which build_s is the least"),
    Column(
        r"(p50|p95|p99|batch)_ms(_\w+)?",
        NUMBER,
        "milliseconds of a query or text: percentiles, in a batch, of a part, on one thread or all",
    ),
    Column("queries_per_s|searches_per_s(_one|_all)?", NUMBER, "with all threads, or with one"),
    Column("commits_per_s", NUMBER, "of all processes that write"),
    Column("start_s(_least|_most)?", NUMBER, "seconds of a new process: median, least, most"),
    Column("first_s", NUMBER, "seconds of the first of all, with an empty cache of models"),
    Column("processes", (int,), "that were started, one after another, or that write at once"),
    Column("install_s|install_bytes", NUMBER, "seconds to install, bytes of the packages"),
    Column("(short|long)_(texts|tokens)_per_s", NUMBER, "encoded"),
    Column("(short|long)_(texts|tokens)", (int,), "that were encoded"),
    Column("(short|long)_share", NUMBER, "of the processor's rate of products that is reached"),
    Column("flops_per_token|product_flops", (*NUMBER, NoneType), "of the model, of the processor"),
    # memory
    Column("(ram|disk|process|process_files)_row_bytes", (*NUMBER, NoneType), "bytes a vector"),
    Column("ram_bytes", (int,), "of an index in memory"),
    Column("code_bytes", (int,), "of all codes in memory, the part that a search scans"),
    Column("ram_fixed_bytes|peak_bytes", (*NUMBER, NoneType), "bytes once, of the process at most"),
    Column("read_(pages_)?query_bytes", NUMBER, "bytes read from disk by a query"),
    Column("memory(_files)?_bytes", (int,), "of the process: its own, and pages of files"),
    Column("store(_files)?_bytes", (int,), "what of these its library and index have added"),
    Column(
        "words(_memory)?_row_bytes", NUMBER, "bytes a vector of the lexical index: on disk, read"
    ),
    Column("compression", NUMBER, "float32's bytes a vector in ours"),
    # conditions and traffic
    Column("condition", (str,), "on the documents' columns"),
    Column("allowed_share", NUMBER, "of the rows, by a condition"),
    Column("fusion", (str,), "of words and meaning: off, rrf or the words' weight"),
    Column("first_share", NUMBER, "of queries whose first answer is right"),
    Column("callers", (int,), "threads"),
    Column(
        "searches|changes|kills|faults|power_losses|flips",
        (int,),
        "of a run: what it did, and calls that failed or bits that flipped on purpose",
    ),
    Column("acknowledged|lost|refused", (int,), "documents committed, missing later; failed calls"),
    Column("refusal", (str, NoneType), "message of a failed call"),
    Column(
        "(unseen|unfound)_share",
        NUMBER,
        "of committed documents that searches miss: of a process open before them, of a new one",
    ),
    Column("longest_(search|change)_s", NUMBER, "seconds of the longest call of a run, with waits"),
    # where and when
    Column("versions", (dict,), "of Python and libraries"),
    Column(
        "processor|flags|system",
        (str,),
        "where: the processor with its family, model and stepping, and what it can do",
    ),
    Column("date|time", (str,), "when the row was written, UTC"),
    Column("load", NUMBER, "load of the last minute before the run"),
    Column("commit", (str, NoneType), "of slimdex, where it is a checkout"),
    Column("clean", (bool, NoneType), "whether the checkout's code was that commit's"),
    Column("threads", (int,), "of the machine"),
)


def check_row(row: Mapping[str, Any]) -> None:
    """Raise `TypeError` unless every column is one of `COLUMNS` and has a value of its type.

    Each of the row's `sets` may also have a column, with Spearman's correlation.

    >>> check_row({"key": "a", "ndcg@10": 79.2, "ndcg@10_low": -0.1})
    >>> check_row({"ndgc@10": 79.2})
    Traceback (most recent call last):
    TypeError: ndgc@10=79.2; expected a column of slimdex/bench/columns.py
    """
    for name, value in row.items():
        of_set = re.sub(" w?mean$", "", name) in row.get("sets", ())
        column = column_of("average" if of_set else name)
        if column is None:
            raise TypeError(f"{name}={value!r}; expected a column of slimdex/bench/columns.py")
        if type(value) not in column.types:
            expected = " or ".join(type_.__name__ for type_ in column.types)
            raise TypeError(f"{name}={value!r}; expected {expected}: {column.meaning}")


@cache
def column_of(name: str) -> Column | None:
    """Find the column of a name, if there is one."""
    return next((column for column in COLUMNS if re.fullmatch(column.name, name)), None)
