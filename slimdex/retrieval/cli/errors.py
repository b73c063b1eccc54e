"""Run a command line: errors that the user can fix are one line on stderr and exit code 2.

A bug gives a traceback.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.exceptions import NoArgsIsHelpError

from slimdex.errors import SlimdexError
from slimdex.system.unicode_text import check_unicode

from .interrupts import INTERRUPT_CODE, interrupt_message, was_interrupted
from .safe_text import visible

BAD_INPUT = 2
DUCKDB_INTERRUPTED = "Query interrupted"
"""Message of the plain RuntimeError that DuckDB raises for Ctrl-C during a query."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Run a command line; report an error as one line on stderr and an exit code.

    A bug still gives a traceback. Nothing heavy is imported unless something goes wrong.
    """
    # Threads that spin while they wait for work take processor time from other libraries.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        check_unicode(sys.argv, "an argument")
        yield
    except NoArgsIsHelpError as help:
        help.show()
        raise SystemExit(BAD_INPUT) from None
    except (Exception, KeyboardInterrupt) as error:
        if is_interrupt(error):
            say(interrupt_message())
            raise SystemExit(INTERRUPT_CODE) from None
        line = user_message(error)
        if line is None:
            raise
        say(line)
        raise SystemExit(BAD_INPUT) from None


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, also in the forms that Click and DuckDB give it."""
    if was_interrupted() or isinstance(error, KeyboardInterrupt | click.Abort):
        return True
    return type(error) is RuntimeError and str(error) == DUCKDB_INTERRUPTED


def say(line: str) -> None:
    """Print an error as one line on stderr."""
    print(f"error: {visible(' '.join(line.split()))}", file=sys.stderr)


ARGUMENTS = re.compile(
    r"\b(wait|insecure|generated|follow_links|shared_filesystem|trust_remote_code|text|format"
    r"|encoding|types)=(?:(True)\b|(?=30\b|NAME|latin-1|\w+=))"
)
"""Python's arguments in messages."""


def in_options(line: str) -> str:
    """Replace Python's arguments in a message by options of the command line.

    >>> in_options("year='soon'; expected BIGINT (types=year=VARCHAR, or generated=True)")
    "year='soon'; expected BIGINT (--types year=VARCHAR, or --generated)"
    """
    return ARGUMENTS.sub(
        lambda match: f"--{match[1].replace('_', '-')}{'' if match[2] else ' '}", line
    )


def user_message(error: BaseException) -> str | None:
    """Return the message of an error that the user can fix; None for a bug."""
    if isinstance(error, SlimdexError):
        return in_options("; ".join([str(error), *getattr(error, "__notes__", ())]))
    if isinstance(error, click.UsageError):
        where_help_is = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
        return error.format_message().removesuffix(".") + where_help_is
    if isinstance(error, click.ClickException):
        return error.format_message()
    if os.strerror(errno.ENOSPC).lower() in str(error).lower():  # also DuckDB's and FAISS's
        return f"the disk is full ({error}); free some space and run the same command again"
    return str(error) if isinstance(error, OSError) else None
