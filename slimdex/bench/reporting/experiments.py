"""Experiments and their tables; a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from slimdex.indexes.errors import InputError

from ..rows import MEASURED, Row, read_rows
from .tables import settled
from .tables.code import functions
from .tables.lists import lists
from .tables.migration import migration, moving
from .tables.retrieval import beside_peers, headline
from .tables.similarity import study_tables
from .tables.studies import encoders, hybrid, loads, processes, search, start, tuning
from .tables.table import Table
from .verdict import (
    cold_line,
    encode_line,
    lists_line,
    migrate_line,
    search_line,
    start_line,
    sts_line,
)

ENCODING = ("openvino", "torch", "sentence-transformers", "onnxruntime")
VECTORS = ("openvino", "torch", "numpy")
INDEXES = ("duckdb", "faiss-cpu", "numpy")
DOCUMENTS = ("openvino", *INDEXES)
WRITTEN = ("duckdb", "sqlite-vec", "lancedb", "chromadb")
STARTED = ("openvino", "sentence-transformers", "txtai", "chromadb")


@dataclass(frozen=True)
class Experiment:
    """An experiment, and the report of its rows.

    Attributes
    ----------
    name : start of the names of its files of rows; also its command's, unless `command` is given.
    tables : rows -> tables.
    libraries : packages whose versions are given below the tables in README and docs.
    section : name in the marks of README and docs; "" if no page has marks for it alone.
    title : start of the titles of its tables in the page; "" if its rows are shown with others'.
    line : the rows of one table -> a summary in a sentence.
    command : name of the command that measures it, if different.
    """

    name: str
    tables: Callable[[Sequence[Row]], list[Table]]
    libraries: Sequence[str]
    section: str = ""
    title: str = ""
    line: Callable[[Sequence[Row]], str] | None = None
    command: str = ""

    def in_page(self, rows: Sequence[Row]) -> list[Table]:
        """Tables with the experiment in their titles and its verdict in their notes."""
        found = []
        for table in self.tables(rows) if rows else []:
            said = "" if self.line is None else self.line(table.source)
            note = "; ".join(filter(None, [said, table.note]))
            found.append(replace(table, title=f"{self.title}: {table.title}", note=note))
        return found


FAISS = ("faiss-cpu", "numpy")
EXPERIMENTS = (
    Experiment("retrieval", headline, VECTORS),
    Experiment("peers", beside_peers, VECTORS),
    Experiment("lists", lists, ("faiss-cpu", "numpy"), "lists", "Lists", lists_line),
    Experiment("search", search, DOCUMENTS, "search", "Search", search_line),
    Experiment("cold", settled.cold, DOCUMENTS, "cold", "Cold", cold_line, "search"),
    Experiment("start", start, STARTED, "start", "Start", start_line),
    Experiment("encode", encoders, ENCODING, "encoding", "Encoding", encode_line),
    Experiment("serve", loads, ("fastapi", "uvicorn", "faiss-cpu"), "serve", "Service"),
    Experiment(
        "processes", processes, WRITTEN, "processes", "Several processes", command="updates"
    ),
    Experiment("tune", tuning, FAISS, "tune", "Tuning"),
    Experiment("hybrid", hybrid, ("tantivy", *FAISS), "hybrid", "Hybrid"),
    Experiment(
        "functions", functions, ("tree-sitter", "openvino", "faiss-cpu"), "functions", "Functions"
    ),
    Experiment("migrate", migration, ("numpy", "aecp"), "migrate", "Migration", migrate_line),
    Experiment("moving", moving, ("numpy",), "moving", "While documents move", command="migrate"),
    Experiment("sts", study_tables, VECTORS, "similarity", "Similarity", sts_line),
)
"""Experiments measured by commands of `slimdex bench`."""
SETTLED = (
    Experiment("entailment", settled.entailment, VECTORS, "entailment", "Entailment"),
    Experiment("reduction", settled.reduction, VECTORS, "reduction", "Reduction"),
)
"""Finished experiments: the papers' tables need their rows; the code is in the history."""


def read_all(folder: Path) -> dict[str, list[Row]]:
    """Read the rows of every experiment in a folder; raises `InputError` if there are none."""
    names = [experiment.name for experiment in (*EXPERIMENTS, *SETTLED)]
    rows = {name: read_rows(folder, name, needed=False) for name in names}
    if not any(rows.values()):
        commands = list(dict.fromkeys(e.command or e.name for e in EXPERIMENTS))
        others = f"{', '.join(commands[1:-1])} and {commands[-1]}"
        there = "" if folder == MEASURED else f" --out {quote(str(folder))}"
        raise InputError(
            f"{folder}: no rows of results; `slimdex bench {names[0]} --quick{there}` "
            f"writes some there, as {others} do"
        )
    return rows
