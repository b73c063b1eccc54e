"""Experiments: what reports make of each one's rows. Adding one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from slimdex.indexes.errors import InputError

from ..rows import MEASURED, Row, read_rows
from .codes_tables import codes
from .hybrid_tables import hybrid
from .milvus_tables import served
from .passage_tables import chance, passages
from .ray_tables import builds
from .search_tables import (
    beside_peers,
    cold,
    encoders,
    filters,
    headline,
    search,
    stored,
    updates,
)
from .serve_tables import loads
from .similarity_tables import entailment_tables, reduction_tables, study_tables
from .tables import Table
from .tuning_tables import tuning
from .verdict import cold_line, encode_line, filters_line, search_line, sts_line

ENCODING = ("openvino", "torch", "sentence-transformers", "onnxruntime")
VECTORS = ("openvino", "torch", "numpy")
INDEXES = ("duckdb", "faiss-cpu", "numpy")
DOCUMENTS = ("openvino", *INDEXES)


@dataclass(frozen=True)
class Experiment:
    """What a command of `slimdex bench` leaves rows of.

    Attributes
    ----------
    name : how its files of rows begin; of the command, unless that is said.
    tables : rows -> tables.
    libraries : whose versions are said beneath the tables in README and docs.
    section : in the marks of README and docs; "" where no page has marks for it alone.
    title : before those of its tables in the page; "" where the page and the docs have more to say
        of its rows, together with others'.
    line : the rows of one table -> what they come to, in a sentence.
    by : columns that the title of a table says.
    command : that measures it, among others.
    """

    name: str
    tables: Callable[[Sequence[Row]], list[Table]]
    libraries: Sequence[str]
    section: str = ""
    title: str = ""
    line: Callable[[Sequence[Row]], str] | None = None
    by: Sequence[str] = ()
    command: str = ""

    def in_page(self, rows: Sequence[Row]) -> list[Table]:
        """Tables with what they are of, and what their rows come to before what they say."""
        found = []
        for table in self.tables(rows) if rows else []:
            said = "" if self.line is None else self.line(self._of(table, rows))
            note = "; ".join(filter(None, [said, table.note]))
            found.append(replace(table, title=f"{self.title}: {table.title}", note=note))
        return found

    def _of(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if ", ".join(row[name] for name in self.by) == table.title]


EXPERIMENTS = (
    Experiment("retrieval", headline, VECTORS),
    Experiment("peers", beside_peers, VECTORS),
    Experiment("filters", filters, INDEXES, "filters", "Filters", filters_line, ("set", "model")),
    Experiment("codes", codes, ("faiss-cpu", "numpy"), "codes", "Codes"),
    Experiment("stored", stored, ("faiss-cpu", "numpy"), "stored", "Stored"),
    Experiment("tune", tuning, ("faiss-cpu", "numpy"), "tune", "Tuning"),
    Experiment("search", search, DOCUMENTS, "search", "Search", search_line, ("set", "model")),
    Experiment("cold", cold, DOCUMENTS, "cold", "Cold", cold_line, ("set", "model")),
    Experiment("passages", passages, ("faiss-cpu",), "passages", "Passages"),
    Experiment("chance", chance, ("faiss-cpu", "numpy"), "chance", "Chance"),
    Experiment("hybrid", hybrid, ("tantivy", "faiss-cpu", "numpy"), "hybrid", "Hybrid"),
    Experiment("encode", encoders, ENCODING, "encoding", "Encoding", encode_line, ("model",)),
    Experiment(
        "sts", study_tables, VECTORS, "similarity", "Similarity", sts_line, ("model", "language")
    ),
    Experiment("entailment", entailment_tables, VECTORS, "entailment", "Entailment", command="sts"),
    Experiment("reduction", reduction_tables, VECTORS, "reduction", "Reduction"),
    Experiment("updates", updates, INDEXES, "updates", "Updates"),
    Experiment("ray", builds, ("ray", "faiss-cpu", "numpy"), title="Ray"),
    Experiment("serve", loads, ("fastapi", "uvicorn", "faiss-cpu"), "serve", "Service"),
    Experiment("milvus", served, ("milvus", "faiss-cpu", "numpy"), title="Milvus"),
)


def read_all(folder: Path) -> dict[str, list[Row]]:
    """The rows of every experiment that a folder has.

    Raises
    ------
    InputError
        If it has none at all.
    """
    names = [experiment.name for experiment in EXPERIMENTS]
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
