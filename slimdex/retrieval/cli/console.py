"""Output for people: notes and progress on stderr, answers and tables on stdout.

rich is imported for the first line that is printed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from slimdex.errors import counted
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
PARTS = 1000
"""Steps of a bar."""
FIRST_SECONDS = 2.0
LINE_SECONDS = 10.0
"""Seconds until the first line of progress where there are no bars, and between lines."""


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


def index_line(facts: dict[str, Any]) -> str:
    """Return contents and costs of an index after a change.

    `facts` come from `Collection.info` or, after an addition, from `facts_after`.
    """
    # Unless documents are cut, there are as many passages as documents.
    are_cut = bool(facts["passages"]["documents_cut"])
    passages = f" ({counted(facts['passages']['rows'], 'passage')})" if are_cut else ""
    documents = counted(facts["documents"], "document")
    contents = f"{documents}{passages} in {os.path.relpath(facts['path'])}"
    for name in ("replaced", "unchanged", "unread"):
        if facts.get(name):
            contents += f", {facts[name]:,} {name}"
    memory = facts["memory"]
    return (
        f"{contents}: {memory['ram_bytes_per_vector']:.0f} bytes a vector in RAM "
        f"(float32: {4 * facts['dimensions']})"
    )


def shell_command(command: str, *words: str | Path) -> str:
    """Return a command of slimdex as text that can be pasted into the shell."""
    return shlex.join(["slimdex", command, *map(str, words)])


def search_command(path: Path) -> str:
    """Return the command that searches an index, which is not named if it is the default."""
    default = default_index()
    is_default = default is not None and default.absolute() == path.absolute()
    return shell_command("search", *([] if is_default else [path]), "your question")


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    print(json_escaped(json_of(value)))


@contextmanager
def progress(note: Note = note, faster: str = "") -> Iterator[None]:
    """Show notes and progress: a bar for each stage, or lines without a terminal.

    `faster` is a hint for users who have to wait.
    """
    report = _Bars(faster)
    try:
        with listening(report, note):
            yield
    finally:
        report.stop()


class _Bars:
    """Bars on a terminal, and lines elsewhere; they never go back, and fast work has none."""

    def __init__(self, faster: str) -> None:
        self._faster = faster
        self._tasks: dict[str, TaskID] = {}
        self._are_lines = sys.stderr is None or not sys.stderr.isatty()
        self._next = monotonic() + FIRST_SECONDS * self._are_lines

    @cached_property
    def _bars(self) -> Progress:
        # Bars take another 20 ms, and a fast command has none.
        from rich.progress import Progress

        bars = Progress(
            console=terminal(stderr=True),
            speed_estimate_period=120,
            get_time=monotonic,
            disable=self._are_lines,
        )
        bars.start()
        return bars

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how much of a stage is done; what was done before the first report is in no rate."""
        now = monotonic()
        if not self._tasks and now < self._next:
            return
        share = PARTS * done // max(total, 1)
        if stage not in self._tasks:
            name = stage + (self._faster if stage.startswith("encoding") else "")
            self._tasks[stage] = self._bars.add_task(name, total=PARTS, completed=share)
        task = self._bars.tasks[self._tasks[stage]]
        self._bars.update(task.id, completed=max(share, task.completed))

        # Print the time left, as far as it is known.
        left = task.time_remaining
        if self._are_lines and now >= self._next and left:
            self._next = now + LINE_SECONDS
            minutes, seconds = divmod(int(left), 60)
            line = f"{stage}: {task.percentage:.0f}% of {total:,}, {minutes}:{seconds:02} left"
            print(line + self._faster, file=sys.stderr, flush=True)
            self._faster = ""

    def stop(self) -> None:
        """Draw the bars' last state, if there are any."""
        if self._tasks:
            self._bars.stop()
