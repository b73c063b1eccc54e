"""Tables in README and docs: written from rows of results between marks, a section at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from slimdex.indexes.errors import InputError

from ..rows import Row, read_rows
from .search_tables import Table, beside_peers, codes_alone, encoders, filters, headline, updates
from .similarity_tables import reduction_tables, study_tables

MOST_LINES = 20
"""Lines of a table that is shown unfolded, at most."""


def search_section(folder: Path) -> list[str]:
    """Quality, memory and peers."""
    retrieval, peers = read_rows(folder, "retrieval"), read_rows(folder, "peers")
    parts = [table.markdown() for table in headline(retrieval)]
    for table in codes_alone(retrieval):
        parts += [f"**{table.title}** (mean and worst of {table.note})", table.markdown()]
    for table in beside_peers(peers):
        parts += [f"**{table.title}** ({table.note})", table.markdown()]
    return [*parts, _measured_on([*retrieval, *peers], ("faiss-cpu", "torch", "numpy"))]


def headline_section(folder: Path) -> list[str]:
    """Quality at 1/64 and 1/128 of the memory, and nothing else."""
    return [table.markdown() for table in headline(read_rows(folder, "retrieval"))]


def encoding_section(folder: Path) -> list[str]:
    """Encoders beside each other."""
    rows = read_rows(folder, "encode")
    parts = []
    for table in encoders(rows):
        parts += [f"**{table.title}** ({table.note})", table.markdown()]
    libraries = ("openvino", "torch", "sentence-transformers", "onnxruntime")
    return [*parts, _measured_on(rows, libraries)]


def _plain_section(
    experiment: str,
    tables: Callable[[Sequence[Row]], list[Table]],
    folder: Path,
    libraries: Sequence[str] = ("openvino", "torch", "numpy"),
) -> list[str]:
    """An experiment's tables, each with its title."""
    rows = read_rows(folder, experiment)
    parts = [text for table in tables(rows) for text in _titled(table)]
    return [*parts, _measured_on(rows, libraries)]


def _titled(table: Table) -> list[str]:
    """A table below its title; a long one opens when its title is clicked."""
    if len(table.rows) <= MOST_LINES:
        return [f"**{table.title}**", table.markdown()]
    title = f"<details><summary><b>{table.title}</b></summary>"
    return [title, table.markdown(), "</details>"]


EXPERIMENTS = {
    "headline": {"retrieval"},
    "results": {"retrieval", "peers"},
    "encoding": {"encode"},
    "similarity": {"sts"},
    "reduction": {"reduction"},
    "filters": {"filters"},
    "updates": {"updates"},
}
"""Section -> what its rows come from, as their files are named."""
SECTIONS: dict[str, Callable[[Path], list[str]]] = {
    "headline": headline_section,
    "results": search_section,
    "encoding": encoding_section,
    "similarity": partial(_plain_section, "sts", study_tables),
    "reduction": partial(_plain_section, "reduction", reduction_tables),
    "filters": partial(
        _plain_section, "filters", filters, libraries=("duckdb", "faiss-cpu", "numpy")
    ),
    "updates": partial(
        _plain_section, "updates", updates, libraries=("duckdb", "faiss-cpu", "numpy")
    ),
}
"""Name in the marks -> paragraphs from a folder of rows."""


def marked(folder: Path) -> dict[Path, list[str]]:
    """README and pages of docs in a folder, with the sections that each has marks for."""
    found = dict[Path, list[str]]()
    for page in (folder / "README.md", *sorted((folder / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        if names := [name for name in SECTIONS if _marks(name)[0] in text]:
            found[page] = names
    return found


def sections_with_rows(folder: Path) -> list[str]:
    """The sections that can be written from a folder of rows."""
    measured = {path.name.partition("-")[0] for path in folder.glob("*.jsonl")}
    return [name for name, experiments in EXPERIMENTS.items() if experiments <= measured]


def section(name: str, folder: Path) -> str:
    """A section with its marks around it."""
    begin, end = _marks(name)
    return "\n\n".join([begin, *SECTIONS[name](folder), end])


def write_section(path: Path, name: str, text: str) -> bool:
    """Put a section between its marks; returns whether that changed anything.

    Raises
    ------
    InputError
        If the file has no marks of that name.
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
    """What the rows were measured on, each machine and set of versions once."""

    def said(row: Row) -> str:
        versions = ", ".join(f"{name} {row['versions'][name]}" for name in libraries)
        python = row["versions"]["python"]
        return f"{row['threads']} threads of {row['processor']}, Python {python}, {versions}"

    return f"Measured on {' and '.join(dict.fromkeys(map(said, rows)))}."
