"""Objects in processes of their own, so that memory and threads belong to them alone.

Contenders are measured side by side in turns: disturbances by other programs affect all alike.
Figures are comparable within a run only, so a run replaces all rows of an earlier one.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from slimdex.errors import InputError
from slimdex.retrieval.quality.evaluation import latency
from slimdex.system.progress import progress

from ..rows import ResultsFile, Row

T = TypeVar("T")
LONGEST_STEP = 3600.0
"""Default limit of a step in seconds."""


class WorkerError(InputError):
    """A step failed or did not end; the message is shown in the row of results, or to the user."""


class Subprocess(Generic[T]):
    """An object in a process of its own; use it in a `with`.

    Parameters
    ----------
    make : makes the object in the process; an importable function.
    arguments : for `make`.
    longest : limit of a step in seconds.

    Attributes
    ----------
    remote : the object: its methods run in the process, and raise `WorkerError` if they fail.
    """

    def __init__(
        self, make: Callable[..., T], *arguments: Any, longest: float = LONGEST_STEP
    ) -> None:
        self._longest = longest
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.remote = cast(T, _Remote(self._ask))

    def _ask(self, command: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the object; returns its result, or raises `WorkerError`."""
        try:
            self._pipe.send((command, arguments, named))
            # A library may hang: kill its process, so that the others are measured.
            if not self._pipe.poll(self._longest):
                self._process.kill()
                raise WorkerError(f"{command}: no answer in {self._longest:.0f} s")
            failed, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join(timeout=10)
            code = self._process.exitcode
            raise WorkerError(f"{command}: the process ended with code {code}") from error
        if failed:
            raise WorkerError(f"{command}: {answer}")
        return answer

    def close(self) -> None:
        """End the process and free its memory; closing twice does nothing."""
        self._pipe.close()  # ends its loop
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Remote:
    """Forwards calls of methods to the process."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._ask, name)


def _serve(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Make an object, and run calls of its methods from the pipe until the other end closes."""
    for stream in (1, 2):  # FAISS warns there, once for each part of a small training set
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    with suppress(EOFError, BrokenPipeError):
        failure = None
        target = None
        try:
            target = make(*arguments)
        except Exception as error:  # a library that can't even be imported
            failure = _error_line(error)

        # If the object can't be made, each call fails for that reason.
        while True:
            command, positional, keywords = pipe.recv()
            if target is None:
                pipe.send((True, failure))
            else:
                pipe.send(_outcome(partial(getattr(target, command), *positional, **keywords)))


def _outcome(step: Callable[[], Any]) -> tuple[bool, Any]:
    """Return whether the step failed, and its result or error."""
    try:
        return False, step()
    except Exception as error:  # whatever a peer's library raises is its row's answer
        return True, _error_line(error)


def _error_line(error: Exception) -> str:
    """Describe an error on one line: its message, and its origin unless the user can fix it."""
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {text}"


@dataclass(kw_only=True)
class Attempts:
    """Steps that become a row of results; after an error no more are taken.

    Attributes
    ----------
    name : in the line about its failure.
    row : columns known so far, kept if a later step fails.
    """

    name: str
    row: Row
    error: str | None = None

    def attempt(self, step: Callable[[], object]) -> None:
        """Take a step, unless one has failed before."""
        if self.error is None:
            try:
                self.prepare()
                step()
            except WorkerError as error:
                self.error = str(error)

    def prepare(self) -> None:
        """Prepare for a step."""

    def columns(self) -> Row:
        """Columns, with the error if a step failed."""
        return self.row if self.error is None else self.row | {"error": self.error}


@dataclass(kw_only=True)
class Contender(Attempts, Generic[T]):
    """A contender in a process of its own, or shared with others.

    Attributes
    ----------
    seconds : suffix of column names -> seconds of each query.
    """

    process: Subprocess[T]
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def columns(self) -> Row:
        """Columns, with percentiles of the seconds."""
        columns = super().columns()
        if self.error is not None:
            return columns
        for part, seconds in self.seconds.items():
            for measure, milliseconds in latency(seconds).items():
                columns[f"{measure}_{part}"] = milliseconds
        return columns


C = TypeVar("C", bound=Attempts)


def in_turns(
    contenders: Sequence[C],
    step: Callable[[C, int], object],
    stage: str,
    rounds: int = 1,
) -> None:
    """Take a step with each contender in turn, round after round.

    `step` is called with the contender and the number of the round, from 0.
    """
    for turn in range(rounds):
        for done, contender in enumerate(contenders, start=1):
            contender.attempt(partial(step, contender, turn))
            progress(stage, turn * len(contenders) + done, rounds * len(contenders))


def replace_rows(results: ResultsFile, contenders: Iterable[C], about: Row) -> list[str]:
    """Replace all rows by those of the contenders; returns a line for each failure."""
    measured = list(contenders)
    results.replace([contender.columns() | about for contender in measured])
    failures = dict[str, None]()  # each once, in order
    for contender in measured:
        if contender.error:
            failures[f"{contender.name} failed: {contender.error}"] = None
    return list(failures)
