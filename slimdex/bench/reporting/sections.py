"""Tables between marks of README and docs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from statistics import fmean

from slimdex.errors import InputError

from ..options import MEASURED
from ..rows import Row, read_rows
from .choices import is_default
from .table_columns import Table, TableDeclaration, rows_where, values_of
from .tables import EXPERIMENTS, TABLES, of_default_encoder, without_identifiers

BENCHMARKS = "docs/research/benchmarks.md"


def read_all(folder: Path) -> dict[str, list[Row]]:
    """Read the rows of every experiment in a folder; raises `InputError` if there are none."""
    rows = {name: read_rows(folder, name, needed=False) for name in EXPERIMENTS}
    if not any(rows.values()):
        out = "" if folder == MEASURED else f" --out {quote(str(folder))}"
        raise InputError(
            f"{folder}: no rows of results; `slimdex bench retrieval --quick{out}` writes some"
        )
    return rows


def _format(tables: Sequence[Table]) -> Iterator[str]:
    """Format tables, each below its title, without the first words: the section states them."""
    for table in tables:
        _, _, title = table.title.partition(": ")
        if title:
            yield f"**{title}**" + (f" ({table.note})" if table.note else "")
        yield table.markdown()


def _default(folder: Path) -> list[str]:
    """Describe the default index in three rounded numbers, each with a link to its rows."""
    # Take memory from one row, and quality from the mean over the sets.
    row = next(row for row in read_rows(folder, "search") if is_default(row))
    of_encoder = of_default_encoder(read_rows(folder, "hybrid"))
    sets = without_identifiers(rows_where(of_encoder, what="queries"))
    gains = values_of(rows_where(sets, way="rule"), "ndcg@10_delta")
    losses = values_of(rows_where(sets, way="rule codes"), "ndcg@10_delta")
    search = f"{BENCHMARKS}#from-a-text-to-its-documents"
    quality = f"{BENCHMARKS}#quality"
    return [
        f"- **[{row['code_bytes'] / row['rows']:.0f} bytes a vector]({search})** in memory; "
        f"float32 takes {4 * row['dim']:,}. Full vectors stay on disk.\n"
        f"- **[{fmean(losses):+z.2f} points]({quality})** of nDCG@10 compared with the same search "
        f"over float32 vectors (mean of {len(losses)} sets; largest difference on a set: "
        f"{max(map(abs, losses)):.2f}).\n"
        f"- **[{fmean(gains):+.0f} points]({quality})** of nDCG@10 compared with semantic search "
        "alone over float32 vectors, since the default search includes BM25.",
        f"Default settings; memory with {row['model']} on {row['set']}, {row['documents']:,} "
        "documents.",
    ]


def _of_tables(tables: Sequence[TableDeclaration], folder: Path) -> list[str]:
    """Format tables of a folder's rows, and where these were measured."""
    # All are of one experiment, whose rows and libraries the first one declares.
    first = tables[0]
    rows = first.chosen(read_rows(folder, first.experiment))
    paragraphs = list[str]()
    for table in tables:
        paragraphs += _format(table(rows))
    return [*paragraphs, _machines_and_versions(rows, first.libraries)]


def _tables_by_marks() -> dict[str, list[TableDeclaration]]:
    """Group the tables that pages show by the name in their marks."""
    tables = dict[str, list[TableDeclaration]]()
    for table in TABLES:
        if table.marks:
            tables.setdefault(table.marks, []).append(table)
    return tables


DEFAULT = "default"
MARKS = _tables_by_marks()
SECTIONS = {name: partial(_of_tables, tables) for name, tables in MARKS.items()} | {
    DEFAULT: _default
}
"""Name in the marks -> folder -> paragraphs."""


def pages_with_marks(folder: Path) -> dict[Path, list[str]]:
    """README and pages of docs in a folder, with the sections they have marks for."""
    sections = dict[Path, list[str]]()
    for page in (folder / "README.md", *sorted((folder / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        names = []
        for name in SECTIONS:
            begin, _ = _marks(name)
            if begin in text:
                names.append(name)
        if names:
            sections[page] = names
    return sections


def sections_with_rows(folder: Path) -> list[str]:
    """Sections for which a folder has rows."""
    measured = {path.name.partition("-")[0] for path in folder.glob("*.jsonl")}
    names = []
    for name, tables in MARKS.items():
        if tables[0].experiment in measured:
            names.append(name)
    if measured >= {"search", "hybrid"}:
        names.append(DEFAULT)
    return names


def section(name: str, folder: Path) -> str:
    """Format a section with its marks around it."""
    begin, end = _marks(name)
    return "\n\n".join([begin, *SECTIONS[name](folder), end])


def write_section(path: Path, name: str, text: str) -> bool:
    """Write a section between its marks; returns whether that changed anything.

    Raises `InputError` if the file has no marks of that name.
    """
    begin, end = _marks(name)
    old = path.read_text(encoding="utf-8")
    head, begin_mark, rest = old.partition(begin)
    _, end_mark, tail = rest.partition(end)
    if not begin_mark or not end_mark:
        raise InputError(f"{path}: expected {begin} and {end} around the results")
    new = head + text + tail
    if new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def _short_name(processor: str, flags: str) -> str:
    """Name a processor and the last of its flags, which is the fastest of its instructions.

    >>> _short_name("Intel(R) Xeon(R) Processor (family 6, model 207, stepping 2)", "avx2 amx_int8")
    'Intel Xeon (family 6, model 207) with amx_int8'
    """
    name = re.sub(r"\((?:R|TM)\)| Processor|, stepping \d+", "", processor)
    fastest = flags.split()[-1:]
    return " with ".join([name, *fastest])


def _machines_and_versions(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    """Describe the distinct machines, versions and commits of some rows in a sentence."""

    def machine_of(row: Row) -> str:
        versions = []
        for name in libraries:
            number = row["versions"].get(name)
            if number:
                versions.append(f"{name} {number}")
        processor = _short_name(row["processor"], row.get("flags") or "")
        return f"{row['threads']} threads of {processor}, {', '.join(versions)}"

    # Dictionaries keep each commit once, in the order of the rows.
    commits = dict[str, dict[str, None]]()
    for row in rows:
        commit = f"`{row['commit'][:7]}`" if row.get("clean") else "code that no commit holds"
        commits.setdefault(machine_of(row), {})[commit] = None
    parts = (f"{machine}, at {', '.join(names)}" for machine, names in commits.items())
    return f"Measured on {'; and on '.join(parts)}."
