"""Experiments with their tables, and the sections of README and docs that are made of them.

A new experiment is a line in `EXPERIMENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from statistics import fmean

from slimdex.indexes.errors import InputError

from ..options import MEASURED
from ..rows import Row, read_rows
from . import docs_tables
from .retrieval_tables import beside_peers, headline, is_default
from .study_tables import (
    code,
    encoders,
    hybrid,
    indexes,
    loads,
    memory,
    processes,
    search,
    start,
    study_tables,
    sweep,
    weight,
)
from .table import Table, together

VECTORS = ("openvino", "torch", "numpy")
FAISS = ("faiss-cpu",)
BENCHMARKS = "docs/research/benchmarks.md"


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
    Experiment(
        "search", search, ("openvino", "duckdb", *FAISS), "search", "Search", docs_tables.search
    ),
    Experiment("index", indexes, ("duckdb", *FAISS), "index", "Index", docs_tables.indexes),
    Experiment(
        "start",
        start,
        ("openvino", "sentence-transformers", "txtai", "chromadb"),
        title="Start",
    ),
    Experiment(
        "encode",
        encoders,
        ("openvino", "torch", "sentence-transformers", "onnxruntime"),
        "encoding",
        "Encoding",
        docs_tables.encoders,
    ),
    Experiment(
        "serve",
        together(loads, memory),
        ("fastapi", "uvicorn", "faiss-cpu"),
        title="Service",
    ),
    Experiment(
        "processes",
        processes,
        ("duckdb", "sqlite-vec", "lancedb", "chromadb"),
        title="Several processes",
    ),
    Experiment("hybrid", hybrid, ("tantivy", *FAISS), "hybrid", "Hybrid", docs_tables.hybrid),
    Experiment("weight", weight, ("tantivy", "numpy"), "weight", "Weight", docs_tables.weights),
    Experiment("code", code, ("tantivy", "openvino"), "code", "Code", docs_tables.code),
    Experiment("sts", study_tables, VECTORS, "similarity", "Similarity", docs_tables.similarity),
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


@dataclass(frozen=True)
class Section:
    """Paragraphs between two marks, made from the rows of some experiments."""

    experiments: Sequence[str]
    paragraphs: Callable[[Path], list[str]]


def _peers(folder: Path) -> list[str]:
    """Table of the set with the most peers."""
    rows = docs_tables.most_compared(read_rows(folder, "peers"))
    return [*_shown(docs_tables.peers(rows)), _measured_on(rows, FAISS)]


def _fusion(folder: Path) -> list[str]:
    """Tables of ways to fuse, for each encoder."""
    rows = read_rows(folder, "hybrid")
    machine = _measured_on(rows, experiment("hybrid").libraries)
    return [*_shown(docs_tables.fusion(rows)), machine]


def _gammas(folder: Path) -> list[str]:
    """Table of what whitening changes for each set and encoder."""
    rows = read_rows(folder, "weight")
    machine = _measured_on(rows, experiment("weight").libraries)
    return [*_shown(docs_tables.gammas(rows)), machine]


def _tables(experiment: Experiment, folder: Path) -> list[str]:
    """Tables of an experiment, each with its title."""
    rows = read_rows(folder, experiment.name)
    tables = (experiment.brief or experiment.tables)(rows)
    return [*_shown(tables), _measured_on(rows, experiment.libraries)]


def _shown(tables: Sequence[Table]) -> Iterator[str]:
    """Format tables, each below its title."""
    for table in tables:
        if table.title:
            yield f"**{table.title}**" + (f" ({table.note})" if table.note else "")
        yield table.markdown()


def _default(folder: Path) -> list[str]:
    """Default index in three rounded numbers, each with a link to its rows."""
    row = next(row for row in read_rows(folder, "search") if is_default(row))
    every = docs_tables.of_default_encoder(read_rows(folder, "hybrid"))
    sets = docs_tables.without_identifiers([row for row in every if row["what"] == "queries"])
    gains, losses = (
        [row["ndcg@10_delta"] for row in sets if row["way"] == way]
        for way in ("rule", "rule codes")
    )
    search, quality = f"{BENCHMARKS}#from-a-text-to-its-documents", f"{BENCHMARKS}#quality"
    return [
        f"- **[{row['code_bytes'] / row['rows']:.0f} bytes a vector]({search})** in memory; "
        f"float32 takes {4 * row['dim']:,}. Full vectors stay on disk.\n"
        f"- **[{fmean(losses):+.2f} points]({quality})** of nDCG@10 compared with the same search "
        f"over float32 vectors (mean of {len(losses)} sets; largest difference on a set: "
        f"{max(map(abs, losses)):.2f}).\n"
        f"- **[{fmean(gains):+.0f} points]({quality})** of nDCG@10 compared with semantic search "
        "alone over float32 vectors, since the default search includes BM25.",
        f"Default settings; memory with {row['model']} on {row['set']}, {row['documents']:,} "
        "documents.",
    ]


def _sweep(folder: Path) -> list[str]:
    """Table of the cases of `make sweep`."""
    rows = read_rows(folder, "sweep")
    return [sweep(rows).markdown(), _measured_on(rows, ("duckdb", "faiss-cpu", "numpy"))]


SECTIONS = {
    study.section: Section([study.name], partial(_tables, study))
    for study in EXPERIMENTS
    if study.section
} | {
    "sweep": Section(["sweep"], _sweep),
    "default": Section(["search", "hybrid"], _default),
    "peers": Section(["peers"], _peers),
    "fusion": Section(["hybrid"], _fusion),
    "gammas": Section(["weight"], _gammas),
}
"""Name in the marks -> section."""


def marked(folder: Path) -> dict[Path, list[str]]:
    """README and pages of docs in a folder, with the sections they have marks for."""
    found = dict[Path, list[str]]()
    for page in (folder / "README.md", *sorted((folder / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        if names := [name for name in SECTIONS if _marks(name)[0] in text]:
            found[page] = names
    return found


def sections_with_rows(folder: Path) -> list[str]:
    """Sections for which a folder has rows."""
    measured = {path.name.partition("-")[0] for path in folder.glob("*.jsonl")}
    return [name for name, section in SECTIONS.items() if measured.issuperset(section.experiments)]


def section(name: str, folder: Path) -> str:
    """Format a section with its marks around it."""
    begin, end = _marks(name)
    return "\n\n".join([begin, *SECTIONS[name].paragraphs(folder), end])


def write_section(path: Path, name: str, text: str) -> bool:
    """Write a section between its marks; returns whether that changed anything.

    Raises `InputError` if the file has no marks of that name.
    """
    begin, end = _marks(name)
    old = path.read_text(encoding="utf-8")
    head, found, rest = old.partition(begin)
    _, ended, tail = rest.partition(end)
    if not found or not ended:
        raise InputError(f"{path}: expected {begin} and {end} around the results")
    new = head + text + tail
    if new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def _measured_on(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    """Distinct machines, versions and commits of some rows."""

    def of(row: Row) -> str:
        found = {name: row["versions"].get(name) for name in libraries}
        versions = ", ".join(f"{name} {number}" for name, number in found.items() if number)
        python = row["versions"]["python"]
        flags = f" ({row['flags']})" if row.get("flags") else ""
        return f"{row['threads']} threads of {row['processor']}{flags}, Python {python}, {versions}"

    commits = dict[str, dict[str, None]]()
    for row in rows:
        commit = f"`{row['commit'][:7]}`" if row.get("clean") else "code that no commit holds"
        commits.setdefault(of(row), {})[commit] = None
    parts = (f"{machine}, at {', '.join(found)}" for machine, found in commits.items())
    return f"Measured on {'; and on '.join(parts)}."
