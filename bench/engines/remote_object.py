"""Processes: an object in a process of its own, so that memory and threads are its alone."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slimdex.indexes.errors import InputError

LONGEST_STEP = 3600.0
"""Seconds for a step, unless it is told otherwise."""


class WorkerError(InputError):
    """A step failed or did not end; the message is for the row of results, or for the user."""


class Subprocess:
    """The parent's handle; use it in a `with`.

    Parameters
    ----------
    make : makes the object, in the process; a function that can be imported.
    arguments : for `make`.
    longest : seconds that one step may take before it is given up.
    """

    def __init__(
        self, make: Callable[..., Any], *arguments: Any, longest: float = LONGEST_STEP
    ) -> None:
        self._longest = longest
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, command: str, *arguments: Any) -> Any:
        """Call the object's method of that name; raises `WorkerError` if it fails."""
        try:
            self._pipe.send((command, arguments))
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

    @property
    def number(self) -> int:
        """The process's number, by which the system knows it."""
        assert self._process.pid is not None
        return self._process.pid

    def close(self) -> None:
        """End the process and free what it holds; closing twice does nothing."""
        self._pipe.close()  # ends its loop
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def _serve(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Do what comes through the pipe until its other end closes."""
    for stream in (1, 2):  # FAISS warns there, once for each part of a small training set
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    with suppress(EOFError, BrokenPipeError):
        failure, made = None, None
        try:
            made = make(*arguments)
        except Exception as error:  # a library that can't even be imported
            failure = _said(error)
        while True:
            command, given = pipe.recv()
            pipe.send((True, failure) if failure else _outcome(made, command, given))


def _outcome(made: Any, command: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Whether the step failed, and its answer or what was wrong."""
    step: Callable[..., Any] = getattr(made, command)
    try:
        return False, step(*arguments)
    except Exception as error:  # whatever a peer's library raises is its row's answer
        return True, _said(error)


def _said(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {text}"
