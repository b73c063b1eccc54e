"""Ctrl-C: the first one lets a command put its work in order; a later one ends it at once.

Either way one line is printed, and never a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, NoReturn

from .safe_text import visible

INTERRUPT_CODE = 130
"""Exit code for Ctrl-C, as of shells."""
STOPPED_MESSAGE = "stopped; run the same command again to continue"
SAME_INTERRUPT_SECONDS = 1.0
"""Seconds after the first interrupt in which others mean the same one: `uv run`, for example,
passes on what the terminal has sent already."""
_received: float | None = None
"""When the first interrupt was received."""
_message: Callable[[], str] | None = None
"""Makes the message of a command that was stopped; None for `STOPPED_MESSAGE`."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Run a command line that Ctrl-C ends with one line on stderr and exit code 130.

    Whatever the interrupt became on its way, such as an `ImportError` in the middle of an import,
    it is one. A process that was started to ignore Ctrl-C goes on ignoring it.
    """
    global _received
    say_when_stopped(None)
    _received = None
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return

    # Any exception after an interrupt counts as the interrupt.
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _end_at_interrupt
    try:
        yield
    except SystemExit:
        raise
    except BaseException:
        if _received is None:
            raise
        _say()
        raise SystemExit(INTERRUPT_CODE) from None
    finally:
        signal.signal(signal.SIGINT, before)


def say_when_stopped(message: Callable[[], str] | None) -> None:
    """Replace the message of this command for the case that it is stopped."""
    global _message
    _message = message


def interrupt_message() -> str:
    """Return the message of this command, which was stopped."""
    return STOPPED_MESSAGE if _message is None else _message()


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed since the command began."""
    return _received is not None


def _interrupt(_number: int, _frame: object) -> None:
    """Handle SIGINT: the first one raises `KeyboardInterrupt`, and a later one ends the process."""
    global _received
    if _received is None:
        _received = monotonic()
        raise KeyboardInterrupt
    if monotonic() - _received > SAME_INTERRUPT_SECONDS:
        end(is_interrupted=True)


def _end_at_interrupt(unraisable: Any) -> None:
    """End at an interrupt that came where Python can't pass it on, such as in a destructor."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif signal.getsignal(signal.SIGINT) is _interrupt:  # else the command has ended
        end(is_interrupted=True)


def end(*, is_interrupted: bool) -> NoReturn:
    """End this process at once, although threads of it work; as at Ctrl-C if it was interrupted.

    It is as safe as a kill: what is committed stays.
    """
    if is_interrupted:
        _say()
    sys.stdout.flush()
    os._exit(INTERRUPT_CODE if is_interrupted else 0)


def _say() -> None:
    """Print the message of a stopped command on stderr."""
    line = f"error: {visible(interrupt_message())}\n"
    os.write(2, line.encode())  # not by a file object, which may be in use
