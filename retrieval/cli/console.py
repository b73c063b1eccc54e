"""Output for people: progress and notes on stderr, answers and tables on stdout."""

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

from slimdex.indexes.execution.progress import listening

from ..as_json import json_of
from .errors import in_options
from .safe_text import json_escaped, visible

UNLIMITED = 1 << 20
"""Width of a pipe or file: nothing is cut or wrapped."""
LEAST_WIDTH = 10
"""Minimum width at which text is wrapped here instead of by the terminal."""
out = Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
err = Console(stderr=True, highlight=False)
QUIET_SECONDS = 10
"""Seconds between lines of progress without a terminal."""


class _Rate(ProgressColumn):
    """Documents per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


@contextmanager
def progress() -> Iterator[None]:
    """Show progress: a bar for each stage, or lines without a terminal."""
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
        bars.start()  # only now: without progress, nothing is drawn
        if stage not in tasks:  # an earlier run's part counts as done, not in the rate
            tasks[stage] = bars.add_task(stage, total=total, completed=done)
        elif done < last[stage]:  # the stage starts again, for something else
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
    """Print one line on stderr."""
    err.print(Text(f"note: {visible(in_options(text))}"), soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """Print one line of the answer, made safe; a terminal wraps it."""
    out.print(Text(visible(text), style=style), soft_wrap=True)


def prose(text: str) -> None:
    """Print sentences, wrapped between words."""
    out.print(Text(text))


def hanging(lead: Text, body: Text) -> None:
    """Print a lead and a text beside it, with a hanging indent."""
    width = out.width - lead.cell_len
    lines = body.wrap(out, width) if width >= LEAST_WIDTH else [body]
    for text in lines:
        text.rstrip()
        out.print(Text.assemble(lead, text), soft_wrap=True)
        lead = Text(" " * lead.cell_len)


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line."""
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
    table = Table(box=None)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for measure in next(iter(columns.values())):
        values = (_number(measure, column[measure]) for column in columns.values())
        table.add_row((labels or {}).get(measure, measure), *values)
    out.print(table)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: numbers to the right, the first column and one without a head to the left."""
    table = Table(box=None)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i and head else "left", no_wrap=True)
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
