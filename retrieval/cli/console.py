"""What people see: progress on stderr, tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from slimdex.indexes.progress import listening

from ..as_json import json_of
from .errors import in_options
from .safe_text import json_escaped, visible

UNLIMITED = 1 << 20
"""Columns of what is no terminal: nothing is cut or wrapped in a file."""
LEAST_WIDTH = 10
"""Columns that a text is wrapped to; with fewer it is left to the terminal."""
out = Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
err = Console(stderr=True, highlight=False)
QUIET_SECONDS = 10
"""Without a terminal, progress is one line every so many seconds."""


class _Rate(ProgressColumn):
    """Documents a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


@contextmanager
def progress() -> Iterator[None]:
    """Show the progress of what is done meanwhile: a bar a stage, or lines without a terminal."""
    if not err.is_terminal:
        with listening(_Lines()):
            yield
        return
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        speed_estimate_period=120,
    )
    tasks: dict[str, TaskID] = {}
    last: dict[str, int] = {}

    def report(stage: str, done: int, total: int) -> None:
        bars.start()  # what has nothing to report leaves the terminal alone
        if stage not in tasks:  # what an earlier run did counts as done, not towards the rate
            tasks[stage] = bars.add_task(stage, total=total, completed=done)
        elif done < last[stage]:  # it begins again, for something else
            bars.reset(tasks[stage])
        bars.update(tasks[stage], completed=done, total=total)
        last[stage] = done

    try:
        with listening(report):
            yield
    finally:
        if tasks:
            bars.stop()


class _Lines:
    """Progress for logs: the stage, the count, the rate and the time left."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[float, int]] = {}
        self._last: dict[str, int] = {}
        self._next = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = monotonic()
        if stage not in self._started or done < self._last[stage]:  # for something else
            self._started[stage] = (now, done)
            self._next = now + QUIET_SECONDS
        self._last[stage] = done
        started, first = self._started[stage]
        if now < self._next or now == started or done == first:
            return
        self._next = now + QUIET_SECONDS
        rate = (done - first) / (now - started)
        left = (total - done) / rate
        print(
            f"{stage} {done:,}/{total:,}, {rate:,.0f}/s, {left:,.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def note(text: str) -> None:
    """One line beside the answer."""
    err.print(Text(f"note: {visible(in_options(text))}"), soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """One line of the answer, whatever it holds; a terminal wraps it."""
    out.print(Text(visible(text), style=style), soft_wrap=True)


def prose(text: str) -> None:
    """Some sentences of ours, wrapped at words."""
    out.print(Text(text))


def hanging(lead: Text, body: Text) -> None:
    """A text after its lead, and what does not fit into the first line below its beginning."""
    width = out.width - lead.cell_len
    lines = body.wrap(out, width) if width >= LEAST_WIDTH else [body]
    for text in lines:
        text.rstrip()
        out.print(Text.assemble(lead, text), soft_wrap=True)
        lead = Text(" " * lead.cell_len)


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Facts, one a line."""
    room = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        hanging(Text(name.ljust(room), style="cyan"), Text(visible(shown)))


def show_measures(
    columns: Mapping[str, Mapping[str, float | None]], labels: Mapping[str, str] | None = None
) -> None:
    """Measures as rows, one column for each thing measured; what one has not is blank.

    Parameters
    ----------
    labels : measure -> what it is called here.
    """
    table = Table(box=None)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for measure in next(iter(columns.values())):
        values = (_number(measure, column[measure]) for column in columns.values())
        table.add_row((labels or {}).get(measure, measure), *values)
    out.print(table)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows of words, all columns but the first to the right."""
    table = Table(box=None)
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(word)) for word in row))
    out.print(table)


def _number(measure: str, value: float | None) -> str:
    if value is None:
        return ""
    if "bytes" in measure:
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure.endswith("ms") else f"{value:.4f}"


def show_index(facts: dict[str, Any], as_json: bool) -> None:
    """What an index holds after a change to it, and what it costs.

    Parameters
    ----------
    facts : of `Collection.info`, and where documents were added, of that.
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
    """One JSON object, and nothing else, on stdout."""
    text = json_escaped(json_of(value))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # what is written for a letter that is not there is no JSON
        text = json_of(value, ensure_ascii=True)
    print(text)
