"""Progress on stderr: a bar for each stage, or lines for a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING

from slimdex.indexes.execution.progress import listening

from .terminal import terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_SECONDS = 10
"""Seconds between lines of progress without a terminal."""


@contextmanager
def progress() -> Iterator[None]:
    """Show progress: a bar for each stage, or lines without a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        with listening(_Lines()):
            yield
        return
    bars = _Bars()
    try:
        with listening(bars):
            yield
    finally:
        bars.stop()


class _Bars:
    """Progress for a terminal; without progress nothing is imported or drawn."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._last: dict[str, int] = {}

    @cached_property
    def _bars(self) -> Progress:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", style="progress.data.speed"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=terminal(stderr=True),
            speed_estimate_period=120,
        )
        bars.start()
        return bars

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:  # an earlier run's part counts as done, not in the rate
            self._tasks[stage] = self._bars.add_task(stage, total=total, completed=done, rate="")
        elif done < self._last[stage]:  # the stage starts again, for something else
            self._bars.reset(self._tasks[stage])
        task = self._bars.tasks[self._tasks[stage]]
        speed = task.finished_speed or task.speed
        rate = f"{speed:,.0f}/s" if speed else ""
        self._bars.update(task.id, completed=done, total=total, rate=rate)
        self._last[stage] = done

    def stop(self) -> None:
        """Draw the bars' last state, if there are any."""
        if self._tasks:
            self._bars.stop()


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
