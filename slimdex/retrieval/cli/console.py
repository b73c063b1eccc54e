"""Output for people: notes and progress on stderr, answers and tables on stdout.

rich is imported for the first line that is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Any

from slimdex.system.progress import Note, listening

from ..documents import json_of
from .default_index import default_index
from .errors import in_options
from .safe_text import json_escaped, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.text import Text

PIPE_WIDTH = 1 << 20
"""Width of a pipe or file: nothing is cut or wrapped."""
LEAST_WIDTH = 10
"""Minimum width at which text is wrapped here instead of by the terminal."""
FIRST_SECONDS = 1
QUIET_SECONDS = 10
"""Seconds before the first line of progress without a terminal, and between lines."""
SHORT_SECONDS = 3
"""A stage that ends so soon needs no line."""


@cache
def terminal(*, stderr: bool = False) -> Console:
    """Return the console of stdout or stderr."""
    # Each part of rich is imported when something is printed by it, 40 ms in all.
    from rich.console import Console

    if stderr:
        return Console(stderr=True, markup=False, emoji=False, highlight=False)
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(markup=False, emoji=False, highlight=False, width=width)


def note(text: str) -> None:
    """Print one line on stderr."""
    terminal(stderr=True).print(f"note: {visible(in_options(text))}", soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """Print one line of the answer, made safe; a terminal wraps it. Tabs stay."""
    # See `terminal`.
    from rich.segment import Segment, Segments
    from rich.style import Style

    shown = "\t".join(map(visible, text.split("\t")))
    segment = Segment(shown, Style.parse(style))  # rich makes a `Text`'s tabs spaces
    terminal().print(Segments([segment, Segment.line()]), soft_wrap=True)


def prose(text: str) -> None:
    """Print sentences, wrapped between words."""
    terminal().print(text)


def hanging(lead: Text, body: Text) -> None:
    """Print a lead and a text beside it, with a hanging indent."""
    from rich.text import Text  # see `terminal`

    out = terminal()
    lines: Iterable[Text] = [body]
    width = out.width - lead.cell_len
    if out.is_terminal and width >= LEAST_WIDTH:
        lines = body.wrap(out, width)
    for text in lines:
        text.rstrip()
        out.print(Text.assemble(lead, text), soft_wrap=True)
        lead = Text(" " * lead.cell_len)  # indents the next lines


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line."""
    from rich.text import Text  # see `terminal`

    room = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        hanging(Text(name.ljust(room), style="cyan"), Text(visible(shown)))


def show_measures(
    columns: Mapping[str, Mapping[str, float | None]], labels: Mapping[str, str]
) -> None:
    """Print a row for each measure and a column for each thing measured; None is blank.

    `labels` maps measures to their labels in the table.
    """
    rows = []
    for name in next(iter(columns.values())):
        numbers = [_number(name, column[name]) for column in columns.values()]
        rows.append((labels.get(name, name), *numbers))
    show_table(["", *columns], rows)


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: numbers to the right, the first column and one without a head to the left."""
    # See `terminal`.
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


def index_line(facts: dict[str, Any]) -> str:
    """Return contents and costs of an index after a change.

    `facts` come from `Collection.info` or, after an addition, from `facts_after`.
    """
    # Unless documents are cut, there are as many passages as documents.
    are_cut = bool(facts["passages"]["documents_cut"])
    passages = f" ({facts['passages']['rows']:,} passages)" if are_cut else ""
    contents = f"{documents(facts['documents'])}{passages} in {from_here(Path(facts['path']))}"
    for name in ("replaced", "unchanged"):
        if facts.get(name):
            contents += f", {facts[name]:,} {name}"
    memory = facts["memory"]
    return (
        f"{contents}: {memory['ram_bytes_per_vector']:.0f} bytes a vector in RAM "
        f"(float32: {4 * facts['dimensions']})"
    )


def shell_command(command: str, *words: str | Path) -> str:
    """Return a command of slimdex as text that can be pasted into the shell.

    The program is named by its path if the shell does not find it.
    """
    program = Path(sys.argv[0])
    is_hidden = program.name == "slimdex" and shutil.which("slimdex") is None
    line = [str(program) if is_hidden else "slimdex", command, *map(str, words)]
    if os.name == "nt":
        from subprocess import list2cmdline  # Windows only

        return list2cmdline(line)
    return shlex.join(line)


def search_command(path: Path) -> str:
    """Return the command that searches an index, which is not named if it is the default."""
    default = default_index()
    is_default = default is not None and default.absolute() == path.absolute()
    return shell_command("search", *([] if is_default else [from_here(path)]), "your question")


def documents(count: int) -> str:
    """Return a number of documents with its noun."""
    return f"{count:,} document{'' if count == 1 else 's'}"


def from_here(path: Path) -> Path:
    """Return a path relative to the current folder, if it is in it."""
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


@contextmanager
def progress(note: Note = note) -> Iterator[None]:
    """Show notes and progress: a bar for each stage, or lines without a terminal."""
    report = _Bars() if sys.stderr is not None and sys.stderr.isatty() else _Lines()
    try:
        with listening(report, note):
            yield
    finally:
        report.stop()


class _Bars:
    """Progress for a terminal; without progress nothing is imported or drawn."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._last: dict[str, int] = {}

    @cached_property
    def _bars(self) -> Progress:
        # Bars take another 20 ms, and a fast command has none.
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
        """Show how many of a stage's steps are done."""
        if stage not in self._tasks:
            # Steps done by an earlier run count as done, but not in the rate.
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
        # For each stage: its start time with the steps done by then, and the steps done by now.
        self._started: dict[str, tuple[float, int]] = {}
        self._last: dict[str, int] = {}
        self._next = 0.0  # earliest time of the next line
        self._timer: Timer | None = None  # prints the name of a single slow step

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Print how many of a stage's steps are done, unless it is too early or nearly finished."""
        # The stage starts, or starts again for something else.
        now = monotonic()
        if stage not in self._started or done < self._last[stage]:
            self._started[stage] = (now, done)
            self._next = now + FIRST_SECONDS
            self.stop()
            if total == 1 and not done:  # a single step, which reports nothing until its end
                self._timer = Timer(FIRST_SECONDS, lambda: self._print(stage))
                self._timer.daemon = True
                self._timer.start()
        if done == total:
            self.stop()
        self._last[stage] = done

        # The rate leaves out the steps of an earlier run.
        started, done_before = self._started[stage]
        has_rate = now != started and done != done_before
        if now < self._next or not has_rate:
            return
        self._next = now + QUIET_SECONDS
        rate = (done - done_before) / (now - started)
        left = (total - done) / rate
        if left < SHORT_SECONDS:
            return
        self._print(f"{stage} {done:,}/{total:,}, {rate:,.0f}/s, {left:,.0f} s left")

    def stop(self) -> None:
        """Cancel the line about a single step if it has not been printed."""
        if self._timer is not None:
            self._timer.cancel()

    @staticmethod
    def _print(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
