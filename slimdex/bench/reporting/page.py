"""Pages of pictures and tables, each one file that loads nothing; and `slimdex bench report`."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from ..rows import Row
from .charts import TITLES, pictures
from .table_columns import Table
from .tables import EXPERIMENTS, every_row, tables_of

Measured = Mapping[str, Sequence[Row]]
"""Experiment -> its rows."""
TEMPLATE = Path(__file__).parent / "page.html"
MANY = 30
"""Rows of a table that has a field to filter them by words."""
LEAD = "Time, quality and memory of searches, as measured. Click a column's head to sort."


def write_page(path: Path, title: str, body: str) -> None:
    """Write a page with a body of HTML."""
    text = Template(TEMPLATE.read_text("utf-8")).substitute(title=escape(title), body=body)
    path.write_text(text, encoding="utf-8")


def html_table(table: Table, label: str) -> str:
    """Format a table, whose columns a click sorts; a long one has a field to filter it."""
    kinds = [' class="text"' if is_text else "" for is_text in table.text]
    heads = zip(kinds, table.heads, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for kind, name in heads)
    lines = []
    for row in table.rows:
        # The first cell names the row, for screen readers.
        cells = ""
        for number, (kind, cell) in enumerate(zip(kinds, row, strict=True)):
            is_name = number == 0
            tag = "th" if is_name else "td"
            scope = ' scope="row"' if is_name else ""
            value = escape(str(cell.value))
            cells += f'<{tag}{scope}{kind} data-value="{value}">{with_code(cell.shown)}</{tag}>'
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    name = escape(label)
    field = ""
    if len(lines) > MANY:
        field = (
            f'<input type="search" placeholder="only rows with these words" aria-label="{name}">'
        )
    return (
        f'{field}<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{name}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}\n</tbody>'
        "</table></div>"
    )


def with_code(line: str) -> str:
    """Convert a line of Markdown whose only markup is code.

    >>> with_code("Run `a < b`.")
    'Run <code>a &lt; b</code>.'
    """
    # The parts with odd numbers were between backticks.
    parts = escape(line).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def soft(text: str) -> str:
    """Format a paragraph of small print."""
    return f'<p class="soft">{escape(text)}</p>'


def write_report(out: Path, rows: Measured) -> list[Path]:
    """Write `index.html`, and an SVG for each picture, into a folder; returns their paths."""
    # The page also contains the pictures, so that it loads nothing.
    paths = write_pictures(out, rows)
    parts = dict[str, tuple[str, str]]()  # anchor -> title and HTML
    for path in paths:
        title = escape(TITLES[path.stem])
        data = b64encode(path.read_bytes()).decode()
        image = f'<img alt="{title}" src="data:image/svg+xml;base64,{data}">'
        parts[path.stem] = title, image
    for table in _tables(rows):
        anchor = re.sub(r"\W+", "-", table.title.lower()).strip("-")
        anchor += f"-{len(parts)}" if anchor in parts else ""  # tables may share a title
        note = soft(table.note) if table.note else ""
        parts[anchor] = escape(table.title), note + html_table(table, table.title)

    # Write the contents, with a link to each part, and then the parts.
    contents = ""
    sections = []
    for anchor, (title, part) in parts.items():
        contents += f'<li><a href="#{anchor}">{title}</a></li>'
        sections.append(f'<h2 id="{anchor}">{title}</h2>\n{part}')
    body = (
        f'{soft(LEAD)}\n<nav aria-label="Contents"><h2>Contents</h2>'
        f"<ul>{contents}</ul></nav>\n" + "\n".join(sections)
    )
    page = out / "index.html"
    write_page(page, "slimdex: what less memory costs", body)
    return [page, *paths]


def write_pictures(out: Path, rows: Measured) -> list[Path]:
    """Write the pictures for which there are rows into a folder; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in pictures(rows.get("retrieval", ()), rows.get("peers", ())).items():
        paths.append(out / f"{name}.svg")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def _tables(rows: Measured) -> Iterator[Table]:
    """Yield the tables of all experiments, and finally one of all rows about vectors."""
    for experiment in EXPERIMENTS:
        yield from tables_of(experiment, rows.get(experiment, ()))
    retrieval = rows.get("retrieval", ())
    peers = rows.get("peers", ())
    if retrieval or peers:
        yield every_row([*retrieval, *peers])
