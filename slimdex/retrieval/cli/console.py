"""Output for people: notes on stderr, answers and tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents import json_of
from .errors import in_options
from .progress_display import progress as progress
from .safe_text import json_escaped, visible
from .terminal import terminal

if TYPE_CHECKING:
    from rich.text import Text

LEAST_WIDTH = 10
"""Minimum width at which text is wrapped here instead of by the terminal."""


def note(text: str) -> None:
    """Print one line on stderr."""
    from rich.text import Text

    terminal(stderr=True).print(Text(f"note: {visible(in_options(text))}"), soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """Print one line of the answer, made safe; a terminal wraps it. Tabs stay."""
    from rich.segment import Segment, Segments
    from rich.style import Style

    shown = "\t".join(map(visible, text.split("\t")))
    own = Segment(shown, Style.parse(style))  # rich makes a `Text`'s tabs spaces
    terminal().print(Segments([own, Segment.line()]), soft_wrap=True)


def prose(text: str) -> None:
    """Print sentences, wrapped between words."""
    from rich.text import Text

    terminal().print(Text(text))


def hanging(lead: Text, body: Text) -> None:
    """Print a lead and a text beside it, with a hanging indent."""
    from rich.text import Text

    out = terminal()
    lines: Iterable[Text] = [body]
    if out.is_terminal and (width := out.width - lead.cell_len) >= LEAST_WIDTH:
        lines = body.wrap(out, width)
    for text in lines:
        text.rstrip()
        out.print(Text.assemble(lead, text), soft_wrap=True)
        lead = Text(" " * lead.cell_len)


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line."""
    from rich.text import Text

    room = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        hanging(Text(name.ljust(room), style="cyan"), Text(visible(shown)))


def show_measures(
    columns: Mapping[str, Mapping[str, float | None]], labels: Mapping[str, str] | None = None
) -> None:
    """Print a row for each measure and a column for each thing measured; None is blank.

    `labels` maps measures to their labels in the table.
    """
    from rich.table import Table

    table = Table(box=None)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for measure in next(iter(columns.values())):
        values = (_number(measure, column[measure]) for column in columns.values())
        table.add_row((labels or {}).get(measure, measure), *values)
    terminal().print(table)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: numbers to the right, the first column and one without a head to the left."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i and head else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(word)) for word in row))
    terminal().print(table)


def _number(measure: str, value: float | None) -> str:
    if value is None:
        return ""
    if "bytes" in measure:
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure.endswith("ms") else f"{value:.4f}"


def show_index(facts: dict[str, Any], as_json: bool) -> None:
    """Print contents and costs of an index after a change.

    `facts` come from `Collection.info` or, after an addition, from `commands.with_addition`.
    """
    if as_json:
        print_json(facts)
        return
    cut = facts["passages"]["rows"] if facts["passages"]["documents_cut"] else 0
    passages = f" ({cut:,} passages)" if cut else ""
    said = f"{facts['documents']:,} documents{passages} in {_from_here(Path(facts['path']))}"
    for name in ("replaced", "unchanged"):
        if facts.get(name):
            said += f", {facts[name]:,} {name}"
    memory = facts["memory"]
    line(
        f"{said}: {memory['ram_bytes_per_vector']:.0f} bytes a vector in RAM "
        f"(float32: {4 * facts['dimensions']})"
    )


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    text = json_escaped(json_of(value))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # `backslashreplace` would write invalid JSON
        text = json_of(value, ensure_ascii=True)
    print(text)
