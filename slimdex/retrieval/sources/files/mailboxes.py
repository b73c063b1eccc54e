"""Mailboxes: messages of an mbox file of any size, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from .limits import LARGEST_FILE, UnreadableError, too_large

PIECE = 1 << 16
QUOTED = re.compile(rb"^>(>*From )", re.M)
"""Quoted line of a message that begins like the first line of one."""


def messages(file: IO[bytes]) -> Iterator[bytes | UnreadableError]:
    r"""Yield messages without their first line, or an error for one that is too large.

    >>> from io import BytesIO
    >>> [*messages(BytesIO(b"From a Mon\nSubject: A\n\n>From b\n\nFrom b Tue\nSubject: B\n"))]
    [b'Subject: A\n\nFrom b\n', b'Subject: B\n']
    """
    lines, length, inside, blank, whole = list[bytes](), 0, False, True, True
    while line := file.readline(PIECE):
        if whole and blank and line.startswith(b"From "):
            if inside:
                yield _message(lines, length)
            lines, length, inside = [], 0, True
        elif inside:
            length += len(line)
            if length <= LARGEST_FILE:
                lines.append(line)
            else:
                lines.clear()
        blank, whole = whole and not line.strip(b"\r\n"), line.endswith(b"\n")
    if inside:
        yield _message(lines, length)


def _message(lines: list[bytes], length: int) -> bytes | UnreadableError:
    if length > LARGEST_FILE:
        return too_large(length, LARGEST_FILE)
    if lines and not lines[-1].strip(b"\r\n"):
        lines.pop()  # it belongs to the next message's first line
    return QUOTED.sub(rb"\1", b"".join(lines))
