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


PYTHON_ARGUMENTS = {
    "wait=30": "--wait 30",
    "shared_filesystem=True": "--shared-filesystem",
    "insecure=True": "--insecure",
    "follow_links=True": "--follow-links",
    "generated=True": "--generated",
    "trust_remote_code=True": "--trust-remote-code",
    "model=PATH": "--model PATH",
    "model=URL#NAME": "--model URL#NAME",
    "record it with `move_model`": "record it with `slimdex repair DIR --model PATH`",
}
"""Python's arguments in messages -> the command line's options."""
SOURCE_ARGUMENTS = re.compile(
    r"\b(?:(types)=|(text|format)=(?=NAME\b)|(encoding)=(?=latin-1\b)|(vectors|exclude)=(?='))"
)
"""Arguments about sources in messages."""


def in_options(line: str) -> str:
    """Replace Python's arguments in a message by options of the command line.

    >>> in_options("year='soon'; expected BIGINT (types=year=VARCHAR, or wait=30)")
    "year='soon'; expected BIGINT (--types year=VARCHAR, or --wait 30)"
    """
    for argument, option in PYTHON_ARGUMENTS.items():
        line = line.replace(argument, option)
    return SOURCE_ARGUMENTS.sub(lambda match: f"--{match[match.lastindex or 0]} ", line)


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
