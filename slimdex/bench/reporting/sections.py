"""Experiments with their tables, and the sections of README and docs that are made of them.

A new experiment is a line in `EXPERIMENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote

from slimdex.indexes.errors import InputError

from ..experiments.start_study import PACKAGES, SEARCH
from ..options import MEASURED
from ..rows import Row, read_rows
from .retrieval_tables import SLIMDEX, beside_peers, codes_alone, headline
from .study_tables import (
    answers,
    encoders,
    hybrid,
    indexes,
    loads,
    processes,
    search,
    start,
    study_tables,
    sweep,
    tuning,
)
from .table import Table

VECTORS = ("openvino", "torch", "numpy")
FAISS = ("faiss-cpu", "numpy")
LONGEST_SHOWN = 20
"""Maximum number of lines of a table that is shown unfolded."""
HELD_BACK = (
    "On four collections held back, the default gains 3.0 nDCG@10 on average over meaning alone "
    "(-.5, +2.4, +4.8, +5.5; at most 1.6 wide; before words that match by chance counted less)."
)
"""Measured by others on sets that the project does not have, so that nothing is chosen on them."""


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
    """

    name: str
    tables: Callable[[Sequence[Row]], list[Table]]
    libraries: Sequence[str]
    section: str = ""
    title: str = ""


EXPERIMENTS = (
    Experiment("retrieval", headline, VECTORS),
    Experiment("peers", beside_peers, VECTORS),
    Experiment("search", search, ("openvino", "duckdb", *FAISS), "search", "Search"),
    Experiment("index", indexes, ("duckdb", *FAISS), "index", "Index"),
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
    ),
    Experiment("tune", tuning, FAISS, "tune", "Tuning"),
    Experiment("hybrid", hybrid, ("tantivy", *FAISS), "hybrid", "Hybrid"),
    Experiment("sts", study_tables, VECTORS, "similarity", "Similarity"),
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


def _search(folder: Path) -> list[str]:
    """Tables of quality, memory and peers."""
    retrieval, peers = read_rows(folder, "retrieval"), read_rows(folder, "peers")
    parts = [table.markdown() for table in headline(retrieval)]
    for table in codes_alone(retrieval):
        parts += [f"**{table.title}** (mean and worst of {table.note})", table.markdown()]
    for table in beside_peers(peers):
        parts += [f"**{table.title}** ({table.note})", table.markdown()]
    return [*parts, _measured_on([*retrieval, *peers], ("faiss-cpu", "torch", "numpy"))]


def _answers(folder: Path) -> list[str]:
    """Table of the quality of exact search and of slimdex, each with and without words."""
    rows = read_rows(folder, "hybrid")
    parts = [table.markdown() for table in answers(rows)]
    return [*parts, HELD_BACK, _measured_on(rows, ("tantivy", "faiss-cpu", "numpy"))]


def _tables(experiment: Experiment, folder: Path) -> list[str]:
    """Tables of an experiment, each with its title."""
    rows = read_rows(folder, experiment.name)
    parts = [text for table in experiment.tables(rows) for text in _titled(table)]
    return [*parts, _measured_on(rows, experiment.libraries)]


def _titled(table: Table) -> list[str]:
    """Format a table below its title; a long one is folded."""
    if len(table.rows) <= LONGEST_SHOWN:
        note = f" ({table.note})" if table.note else ""
        return [f"**{table.title}**{note}", table.markdown()]
    title = f"<details><summary><b>{table.title}</b></summary>"
    return [title, table.markdown(), "</details>"]


def _default(folder: Path) -> list[str]:
    """Default index by each encoder: time from a text to documents, memory and disk."""
    lines = [line for row in read_rows(folder, "search") if (line := default_line(row))]
    return ["The default settings, with words and passages, give:", *lines] if lines else []


def default_line(row: Row) -> str:
    """Summary of a row of `bench search` for the default index; "" for others.

    Older rows, which have no `code_bytes`, were measured without words and passages.
    """
    if row["method"] != SLIMDEX or row["effort"] or not row.get("code_bytes"):
        return ""
    columns = ("memory", "memory_files", "store", "store_files")
    whole, files, grown, grown_files = (f"{row[f'{name}_bytes'] / 1e6:,.0f}" for name in columns)
    return (
        f"With {row['model']}, a search of the {row['documents']:,} documents of {row['set']} "
        f"takes **{row['p50_ms_total_one']:.2f} ms from the text to its documents**, "
        f"{row['p50_ms_encode_one']:.2f} ms of it for encoding (medians, one thread of "
        f"{row['processor']}, load {row['load']:.1f} before). The codes of its {row['rows']:,} "
        f"passages take **{row['code_bytes'] / 1e6:.1f} MB** "
        f"({row['code_bytes'] / row['rows']:.0f} bytes each instead of float32's "
        f"{4 * row['dim']:,}), all that the index and its libraries hold in memory is **{grown} "
        f"MB**, and **{grown_files} MB** are pages of their files, which the system may drop. The "
        f"process, with Python and the encoder, holds {whole} MB and {files} MB of pages of files. "
        f"On disk a document takes {row['disk_row_bytes']:,.0f} bytes, with its text and words."
    )


def _new_process(folder: Path) -> list[str]:
    """Seconds from the start of a process to its answer."""
    rows = read_rows(folder, "start")
    return [f"{start_line(rows)}.", _measured_on(rows, experiment("start").libraries)]


def start_line(rows: Sequence[Row]) -> str:
    """Seconds of a search in a new process, by slimdex and by other libraries."""
    seconds = {row["method"]: row["start_s"] for row in rows if "error" not in row}
    documents = rows[0]["documents"]
    ours = f"{SEARCH} in a new process, {documents:,} documents: {seconds[SEARCH]:.2f} s"
    others = [f"{name} {seconds[name]:.2f} s" for name in PACKAGES if name in seconds]
    return "; ".join([ours, *others])


def _sweep(folder: Path) -> list[str]:
    """Table of the cases of `make sweep`."""
    rows = read_rows(folder, "sweep")
    return [sweep(rows).markdown(), _measured_on(rows, ("duckdb", "faiss-cpu", "numpy"))]


SECTIONS = {
    "sweep": Section(["sweep"], _sweep),
    "answers": Section(["hybrid"], _answers),
    "default": Section(["search"], _default),
    "new-process": Section(["start"], _new_process),
    "results": Section(["retrieval", "peers"], _search),
} | {
    study.section: Section([study.name], partial(_tables, study))
    for study in EXPERIMENTS
    if study.section
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
        versions = ", ".join(f"{name} {row['versions'][name]}" for name in libraries)
        python = row["versions"]["python"]
        flags = f" ({row['flags']})" if row.get("flags") else ""
        return f"{row['threads']} threads of {row['processor']}{flags}, Python {python}, {versions}"

    commits = dict[str, dict[str, None]]()
    for row in rows:
        commit = f"`{row['commit'][:7]}`" if row.get("clean") else "code that no commit holds"
        commits.setdefault(of(row), {})[commit] = None
    parts = (f"{machine}, at {', '.join(found)}" for machine, found in commits.items())
    return f"Measured on {'; and on '.join(parts)}."
