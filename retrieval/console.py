"""What people see: progress on stderr, tables on stdout."""

from __future__ import annotations

import json
import math
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
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

from indexes.progress import Progress

from .documents import Hit
from .facts import facts as facts_of

if TYPE_CHECKING:
    from .changes import Added
    from .collection import Collection

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
QUIET_SECONDS = 10
"""Without a terminal, progress is one line every so many seconds."""
SNIPPET = 160
"""Characters of a text that are shown."""


class _Rate(ProgressColumn):
    """Documents a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


@contextmanager
def progress() -> Iterator[Progress]:
    """A function to report progress to: a bar a stage, or lines where there is no terminal."""
    if not err.is_terminal:
        yield _Lines()
        return
    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        speed_estimate_period=120,
    ) as bars:
        tasks: dict[str, TaskID] = {}
        last: dict[str, int] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:  # what an earlier run did counts as done, not towards the rate
                tasks[stage] = bars.add_task(stage, total=total, completed=done)
            elif done < last[stage]:  # it begins again, for something else
                bars.reset(tasks[stage])
            bars.update(tasks[stage], completed=done, total=total)
            last[stage] = done

        yield report


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
    err.print(f"note: {escape(text)}", soft_wrap=True)


def show_hits(query: str, hits: Sequence[Hit]) -> None:
    """A query's answers, nearest first."""
    table = Table(title=escape(query), title_justify="left", title_style="bold", box=None)
    table.add_column("score", justify="right", style="cyan")
    table.add_column("id", style="green", overflow="fold")
    table.add_column("text")
    for hit in hits:
        table.add_row(f"{hit.score:.3f}", escape(hit.id), escape(snippet(hit)))
    out.print(table if hits else f"{escape(query)}\n  nothing found")


def snippet(hit: Hit) -> str:
    """The beginning of a hit's title and text on one line."""
    title = "" if hit.title == hit.id else hit.title
    text = " ".join(f"{title} {hit.text}".split())
    return text if len(text) <= SNIPPET else text[: SNIPPET - 1] + "…"


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Facts, one a line."""
    table = Table(box=None, show_header=False)
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, escape(f"{value:,}" if isinstance(value, int) else str(value)))
    out.print(table)


def show_measures(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Measures as rows, one column for each thing measured."""
    table = Table(box=None)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for measure in next(iter(columns.values())):
        values = (_number(measure, column[measure]) for column in columns.values())
        table.add_row(measure, *values)
    out.print(table)


def _number(measure: str, value: float) -> str:
    if "bytes" in measure:
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure.endswith("_ms") else f"{value:.4f}"


def show_index(collection: Collection, added: Added | None, as_json: bool) -> None:
    """What an index holds after a change to it, and what it costs."""
    facts = facts_of(collection)
    if added is not None:
        facts |= {
            "added": added.documents,
            "replaced": added.replaced,
            "unchanged": added.unchanged,
        }
        for line in added.notes:
            note(line)
    if as_json:
        print_json(facts)
        return
    line = f"{facts['documents']:,} documents in {_from_here(collection.path)}"
    if added is not None and added.replaced:
        line += f", {added.replaced:,} replaced"
    if added is not None and added.unchanged:
        line += f", {added.unchanged:,} unchanged"
    memory = facts["memory"]
    out.print(
        f"{line}: {memory['ram_bytes_per_vector']:.0f} bytes a vector in RAM "
        f"(float32: {4 * collection.state.dim})",
        soft_wrap=True,
        markup=False,
    )


def inline(values: dict[str, Any]) -> str:
    """Names and values on one line."""
    shown = {k: f"{v:,.0f}" if "bytes" in k else v for k, v in values.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def hit_json(hit: Hit) -> dict[str, Any]:
    """A hit as JSON has it."""
    return {
        "id": hit.id,
        "score": round(hit.score, 6),
        "title": hit.title,
        "text": hit.text,
        "metadata": dict(hit.metadata),
    }


def print_json(value: dict[str, Any]) -> None:
    """One JSON object, and nothing else, on stdout."""
    print(json.dumps(_finite(value), default=str, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """A value as JSON can have it: NaN and infinity are null, bytes base64."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
