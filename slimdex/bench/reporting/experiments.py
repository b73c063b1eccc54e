"""Experiments and their tables; a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from slimdex.indexes.errors import InputError

from ..options import MEASURED
from ..rows import Row, read_rows
from .tables import brief
from .tables.retrieval import beside_peers, headline
from .tables.studies import (
    encoders,
    hybrid,
    indexes,
    loads,
    processes,
    search,
    start,
    study_tables,
    tuning,
)
from .tables.table import Table

VECTORS = ("openvino", "torch", "numpy")
FAISS = ("faiss-cpu", "numpy")


@dataclass(frozen=True)
class Experiment:
    """An experiment, and the report of its rows.

    Attributes
    ----------
    name : start of the names of its files of rows.
    tables : rows -> tables.
    libraries : packages whose versions are given below the tables in README and docs.
    section : name in the marks of README and docs; "" if no page has marks for it alone.
    title : start of the titles of its tables in the page; "" if its rows are shown with others'.
    brief : rows -> tables of README and docs, if these are not all tables.
    """

    name: str
    tables: Callable[[Sequence[Row]], list[Table]]
    libraries: Sequence[str]
    section: str = ""
    title: str = ""
    brief: Callable[[Sequence[Row]], list[Table]] | None = None


EXPERIMENTS = (
    Experiment("retrieval", headline, VECTORS),
    Experiment("peers", beside_peers, VECTORS),
    Experiment("search", search, ("openvino", "duckdb", *FAISS), "search", "Search", brief.search),
    Experiment("index", indexes, ("duckdb", *FAISS), "index", "Index", brief.indexes),
    Experiment(
        "start",
        start,
        ("openvino", "sentence-transformers", "txtai", "chromadb"),
        "start",
        "Start",
    ),
    Experiment(
        "encode",
        encoders,
        ("openvino", "torch", "sentence-transformers", "onnxruntime"),
        "encoding",
        "Encoding",
    ),
    Experiment("serve", loads, ("fastapi", "uvicorn", "faiss-cpu"), "serve", "Service"),
    Experiment(
        "processes",
        processes,
        ("duckdb", "sqlite-vec", "lancedb", "chromadb"),
        "processes",
        "Several processes",
        brief.processes,
    ),
    Experiment("tune", tuning, FAISS, "tune", "Tuning", brief.tuning),
    Experiment("hybrid", hybrid, ("tantivy", *FAISS), "hybrid", "Hybrid", brief.hybrid),
    Experiment("sts", study_tables, VECTORS, "similarity", "Similarity", brief.similarity),
)


def experiment(name: str) -> Experiment:
    """Find an experiment by its name."""
    return next(each for each in EXPERIMENTS if each.name == name)


def tables_of(name: str, rows: Sequence[Row]) -> Iterator[Table]:
    """Tables of an experiment's rows that have lines."""
    return (table for table in experiment(name).tables(rows) if table.rows)


def read_all(folder: Path) -> dict[str, list[Row]]:
    """Read the rows of every experiment in a folder; raises `InputError` if there are none."""
    names = [experiment.name for experiment in EXPERIMENTS]
    rows = {name: read_rows(folder, name, needed=False) for name in names}
    if not any(rows.values()):
        there = "" if folder == MEASURED else f" --out {quote(str(folder))}"
        raise InputError(
            f"{folder}: no rows of results; `slimdex bench {names[0]} --quick{there}` writes some"
        )
    return rows
