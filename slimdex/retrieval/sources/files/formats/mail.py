"""Mail: messages of a mailbox, and the subject, sender and text of each.

Attachments are only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from typing import IO, Any

from ..decoding import decoded
from ..front_matter import moment
from ..limits import LARGEST_FILE, UnreadableError, too_large
from ..outline import Extract, Outline, words
from . import html_pages

MOST_PARTS = 1000
"""Largest number of parts of a message to read."""
PIECE = 1 << 16
QUOTED = re.compile(rb"^>(>*From )", re.M)
"""Quoted line of a message that begins like the first line of one."""


def read(data: bytes) -> Extract:
    r"""Read a message; its title is the subject.

    >>> data = b"From: Ann <a@b.c>\nSubject: Tea\nDate: Wed, 1 May 2024 12:00:00 +0200\n\nAt four?"
    >>> tea = read(data)
    >>> tea.title, tea.text, tea.facts["author"], str(tea.facts["date"])
    ('Tea', 'At four?', 'Ann <a@b.c>', '2024-05-01 10:00:00')
    """
    message = message_from_bytes(data, policy=policy.default)
    outline, brought = Outline(), list[str]()
    for number, part in enumerate(_leaves(message)):
        if number == MOST_PARTS:
            break
        name = words(part.get_filename()) if part.get_filename() else ""
        if name:
            brought.append(name)
        elif part.get_content_maintype() == "text":
            outline.add(_content(part))
    for name in brought:
        outline.add(f"Attached: {name}", "\n")
    found: dict[str, Any] = {"author": _header(message, "From"), "date": None}
    if date := _header(message, "Date"):
        found["date"] = moment(date)
    facts = {column: value for column, value in found.items() if value}
    return Extract(_header(message, "Subject"), outline.text, outline.parts, facts)


def message_id(data: bytes) -> str:
    """Message id without its brackets; "" if missing."""
    head = data[: 1 << 16].replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return _header(message_from_bytes(head + b"\n\n", policy=policy.default), "Message-ID").strip(
        "<> "
    )


def _header(message: Message, name: str) -> str:
    try:
        return words(str(message.get(name, "")))
    except Exception:  # the parser may raise anything for a broken header
        return ""


def _leaves(message: Message) -> list[Any]:
    """Parts with content; of alternatives the plain text, else the last."""
    if not message.is_multipart():
        return [message]
    inner = [part for part in message.get_payload() if isinstance(part, Message)]
    if message.get_content_type() == "multipart/alternative":
        plain = [part for part in inner if part.get_content_type() == "text/plain"]
        inner = plain[:1] or inner[-1:]
    return [leaf for part in inner for leaf in _leaves(part)]


def _content(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset()
    try:
        text = data.decode(charset or "utf-8")
    except (LookupError, ValueError):
        text = decoded(data)
    if part.get_content_type() == "text/html":
        return html_pages.text_of(text.encode("utf-8", "replace"))
    return text.replace("\r\n", "\n") if part.get_content_type() != "text/calendar" else ""


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
