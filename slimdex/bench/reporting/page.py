"""`slimdex bench report`: one self-contained page of pictures and tables, and the pictures."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from ..rows import Row
from .charts import TITLES, pictures
from .retrieval_tables import every_row
from .sections import EXPERIMENTS, tables_of
from .table import Table

Measured = Mapping[str, Sequence[Row]]
"""Experiment -> its rows."""
TEMPLATE = Path(__file__).parent / "page.html"
MANY = 30
"""Rows of a table that has a field to filter them by words."""


@dataclass(frozen=True)
class Entry:
    """A picture (the text of an SVG in base64) or a table, and its anchor in the contents."""

    anchor: str
    title: str
    picture: str = ""
    table: Table | None = None


def write_report(out: Path, rows: Measured) -> list[Path]:
    """Write `index.html` and an SVG for each picture into a folder; returns their paths.

    The page contains its pictures, and loads nothing from a network.
    """
    paths = write_pictures(out, rows)
    parts = [
        Entry(path.stem, TITLES[path.stem], picture=b64encode(path.read_bytes()).decode())
        for path in paths
    ]
    for table in _tables(rows):
        anchor = re.sub(r"\W+", "-", table.title.lower()).strip("-")
        anchor += f"-{len(parts)}" if anchor in {part.anchor for part in parts} else ""
        parts.append(Entry(anchor, table.title, table=table))
    contents = (f'<li><a href="#{part.anchor}">{escape(part.title)}</a></li>' for part in parts)
    page = out / "index.html"
    text = Template(TEMPLATE.read_text("utf-8")).substitute(
        contents="\n".join(contents), parts="\n".join(map(_section, parts))
    )
    page.write_text(text, encoding="utf-8")
    return [page, *paths]


def _section(entry: Entry) -> str:
    """A heading and what is below it, as HTML."""
    title = escape(entry.title)
    lines = [f'<h2 id="{entry.anchor}">{title}</h2>']
    if entry.picture:
        lines.append(f'<img alt="{title}" src="data:image/svg+xml;base64,{entry.picture}">')
    if (table := entry.table) is not None:
        if table.note:
            lines.append(f'<p class="lead">{escape(table.note)}</p>')
        if len(table.rows) > MANY:
            lines.append(
                '<input type="search" placeholder="only rows with these words" aria-label="filter">'
            )
        lines.append(f'<div class="scroll">{_table(table)}</div>')
    return "\n".join(lines)


def _table(table: Table) -> str:
    """A table whose columns a click sorts, as HTML."""
    kinds = [' class="text"' if is_text else "" for is_text in table.text]
    heads = zip(kinds, table.heads, strict=True)
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in heads)
    rows = []
    for row in table.rows:
        cells = (
            f'<td{kind} data-value="{escape(str(cell.value))}">'
            f"{escape(cell.shown.replace('`', ''))}</td>"
            for kind, cell in zip(kinds, row, strict=True)
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}\n</tbody></table>"


def write_pictures(out: Path, rows: Measured) -> list[Path]:
    """Write the pictures for which there are rows into a folder; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in pictures(rows.get("retrieval", ()), rows.get("peers", ())).items():
        paths.append(out / f"{name}.svg")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def _tables(rows: Measured) -> Iterator[Table]:
    for experiment in EXPERIMENTS:
        yield from tables_of(experiment, rows.get(experiment, ()))
    retrieval = rows.get("retrieval", ())
    peers = rows.get("peers", ())
    if retrieval or peers:
        yield every_row([*retrieval, *peers])
