"""Mail: messages of a mailbox, and the subject, sender and text of each.

Attachments are only named.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, a2b_qp
from collections.abc import Callable, Iterator, Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from email.policy import Compat32
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

from ..decoding import WESTERN, decode_text
from ..front_matter import moment
from ..limits import LARGEST_FILE, UnreadableError, size
from ..outline import Extract, Outline, visible_text, words
from . import html_pages

MESSAGES = ("message/rfc822", "message/global", "message/news")
"""Types of parts that are messages themselves."""
ENCODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "base64": a2b_base64,
    "quoted-printable": a2b_qp,
}
MOST_PARTS = 1000
"""Largest number of parts of a message to read."""
PIECE = 1 << 16
LONGEST_SEPARATOR = 1000
QUOTED = re.compile(rb"^>(>*From )", re.M)
"""Quoted line of a message that begins like the first line of one."""
DAY = rb"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? "
MONTH = rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
TIME = rb"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[ap]m|z|[+-]\d\d:?\d\d)?"
ZONES = rb"(?: (?:[+-]\d\d:?\d\d|[a-z]{1,5}|\([^()]*\)))*"
DATES = (
    rb"%b%b \d{1,2},? %b%b \d{2,4}%b" % (DAY, MONTH, TIME, ZONES, ZONES),
    rb"(?:%b)?\d{1,2}[ -]%b[ -]\d{2,4} %b%b" % (DAY, MONTH, TIME, ZONES),
    rb"(?:\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}/\d{2,4})[t ]%b%b" % (TIME, ZONES),
)
"""Dates as of C's `asctime`, mail, and ISO 8601 or similar."""
SENDER = rb"(?:[^@]{0,100}@)?\S+ (?:at \S+ )?"
SEPARATOR = re.compile(
    rb"from (?:%b)?(?:%b)(?: remote from \S+)?" % (SENDER, b"|".join(DATES)), re.I
)
"""First line of a message in a mailbox, with single spaces: a sender, or "-", and a date."""
CHARSET = re.compile(rb"""charset=["']?([\w.:-]+)""", re.I)
"""Charset of a message, or of its first part that has one."""
INVISIBLE = re.compile(
    r"[\s\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]*"
)
"""Text without visible characters."""
WORD = re.compile(r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bq])\?((?:(?!=\?[^=]).)*?)\?=", re.I | re.S)
"""Encoded word of a header (RFC 2047), perhaps with a language."""
WORDS = re.compile(rf"{WORD.pattern}(?:\s*{WORD.pattern})*", re.I | re.S)
"""Encoded words in a row, which may share a character."""
APPLE = re.compile(rb"(\d{1,12})[ \r]*\n")
"""First line of a message of Apple Mail: its length in bytes."""
ADDRESS = re.compile(r"(?<!\S)\S+://\S+")
NAME = re.compile(r'"([^"\\,;:@<>()]*)"(?=\s*<)')
"""Name of a sender in quotes that it does not need."""


class _Leaf(NamedTuple):
    """Part of a message without parts of its own: an attachment's name, or a text."""

    name: str
    text: str


def read(data: bytes) -> Extract:
    r"""Read a message; its title is the subject.

    >>> data = b"From: Ann <a@b.c>\nSubject: Tea\nDate: Wed, 1 May 2024 12:00:00 +0200\n\nAt four?"
    >>> tea = read(data)
    >>> tea.title, tea.text, tea.facts["author"], str(tea.facts["date"])
    ('Tea', 'At four?', 'Ann <a@b.c>', '2024-05-01 10:00:00')
    """
    # Apple Mail writes the length of the message before it, and its own properties after it.
    if of_apple := APPLE.match(data):
        data = data[of_apple.end() :][: int(of_apple[1])]

    # Read the text, and then the names of attached files.
    charset = CHARSET.search(data)
    message = message_from_bytes(data, policy=_policy(charset[1].decode() if charset else WESTERN))
    outline = Outline()
    leaves = [*islice(_leaves(message), MOST_PARTS)]
    for leaf in leaves:
        outline.add(leaf.text)
    for leaf in leaves:
        if leaf.name:
            outline.add(f"Attached: {leaf.name}", "\n")

    # Read the headers.
    author = NAME.sub(r"\1", _header(message, "From"))
    date = _header(message, "Date")
    columns: dict[str, Any] = {"author": author, "date": moment(date) if date else None}
    facts = {column: value for column, value in columns.items() if value}
    subject = _header(message, "Subject")
    return Extract(subject, outline.text or subject, outline.parts, facts)


def message_id(data: bytes) -> str:
    """Message id without its brackets; "" if missing."""
    head = data[: 1 << 16].replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    message = message_from_bytes(head + b"\n\n", policy=_policy(WESTERN))
    return _header(message, "Message-ID").strip("<> ")


def _policy(label: str) -> Compat32:
    """Return a policy that leaves headers as written; their bytes are UTF-8, or this charset."""

    class Policy(Compat32):
        """Policy with decoded bytes."""

        def header_fetch_parse(self, name: str, value: str) -> str:
            """Decode a header's bytes."""
            return decode_text(value.encode("utf-8", "surrogateescape"), label=label)

    return Policy()


def _header(message: Message, name: str) -> str:
    """Text of a message's header; "" if it is missing."""
    return _header_text(str(message.get(name, "")))


def _header_text(text: str) -> str:
    """Text of a header on one line, with its encoded words decoded.

    >>> _header_text("=?gb2312?B?1uzpRg==?= =?utf-8*de?Q?=C3=A4_b?= c")
    '朱镕ä b c'
    """
    return words(WORDS.sub(lambda word: _decode_words(word[0]), text))


def _decode_words(encoded: str) -> str:
    """Decode a run of encoded words (RFC 2047).

    Neighbours in the same charset are joined as bytes first: a character may be split between them.
    """
    runs = list[tuple[str, bytes]]()  # (charset, bytes)
    for charset, encoding, text in WORD.findall(encoded):
        if encoding in "Qq":
            data = a2b_qp(text.encode(), header=True)
        else:
            letters = re.sub("[^A-Za-z0-9+/]", "", text)
            if len(letters) % 4 == 1:  # the last letter holds only a part of a byte
                letters = letters[:-1]
            data = a2b_base64(letters + "==")  # surplus padding is ignored
        if runs and runs[-1][0] == charset.lower():
            data = runs.pop()[1] + data
        runs.append((charset.lower(), data))
    return "".join(decode_text(data, label=charset) for charset, data in runs)


def _file_name(part: Message) -> str:
    """Name of an attachment; "" if it has none."""
    name = part.get_param("filename", None, "content-disposition") or part.get_param("name")
    if isinstance(name, tuple):  # of RFC 2231
        charset, _, value = name
        return words(decode_text(value.encode("latin-1", "replace"), label=charset))
    return _header_text(name or "")


def _leaves(message: Message) -> Iterator[_Leaf]:
    """Yield parts with content; plain text is preferred to alternatives unless it is a stub."""
    # A single text or file.
    if not message.is_multipart():
        name = _file_name(message)
        text = "" if name else visible_text(_text(message))
        yield _Leaf(name, "" if INVISIBLE.fullmatch(text) else text)
        return

    # Attached messages, or parts that are all read.
    inner = [part for part in message.get_payload() if isinstance(part, Message)]
    if message.get_content_type() in MESSAGES:
        for attached in map(partial(_message_within, message), inner):
            yield _Leaf("", _header(attached, "Subject"))
            yield from _leaves(attached)
        return
    if message.get_content_type() != "multipart/alternative":
        yield from chain.from_iterable(map(_leaves, inner))
        return

    # Alternatives: the first plain text, or the last of the others, which is the richest.
    plain = list[_Leaf]()
    rich = list[_Leaf]()
    for part in inner:
        leaves = [*islice(_leaves(part), MOST_PARTS)]
        is_plain = part.get_content_type() == "text/plain"
        if is_plain and not _words(plain):
            plain = leaves
        elif not is_plain and (_words(leaves) or not rich):
            rich = leaves

    # A plain text that lacks most of the other's words only says where these are.
    words_of_plain = _words(plain)
    words_of_rich = _words(rich)
    if len(words_of_rich) > max(len(words_of_plain), 2 * len(words_of_plain & words_of_rich)):
        yield from rich
    else:
        yield from plain if words_of_plain else plain + rich


def _words(leaves: Sequence[_Leaf]) -> set[str]:
    """Different words of some texts, without addresses."""
    return {word for leaf in leaves for word in re.findall(r"\w+", ADDRESS.sub("", leaf.text))}


def _message_within(part: Message, message: Message) -> Message:
    """A message that a part contains; some programs encode it, although RFC 2046 forbids it."""
    decode = ENCODINGS.get(str(part.get("Content-Transfer-Encoding", "")).strip().lower())
    if decode is None:
        return message
    encoded = message.as_bytes(policy=message.policy.clone(max_line_length=0))
    try:
        return message_from_bytes(decode(encoded.lstrip()), policy=message.policy)
    except ValueError:  # not what it states
        return message


def _text(part: Message) -> str:
    """Text of a part; "" if it has none, or is an invitation."""
    kind = part.get_content_type()
    if part.get_content_maintype() not in ("text", "multipart") or kind == "text/calendar":
        return ""  # a multipart here is one whose boundary is missing
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset()
    if kind.endswith("html"):
        return html_pages.text_of(html_pages.page_text(data, label=charset))
    text = decode_text(data, label=charset)
    if str(part.get_param("format", "")).lower() == "flowed":
        return _join_flowed(text, deletes_space=str(part.get_param("delsp", "")).lower() == "yes")
    return text


def _join_flowed(text: str, *, deletes_space: bool) -> str:
    r"""Join the lines of each paragraph of a text in the format "flowed" (RFC 3676).

    >>> _join_flowed("One \nline.\n>> A \n>> quote.\n-- \nAnn", deletes_space=False)
    'One line.\n>> A quote.\n-- \nAnn'
    """
    pieces = list[str]()
    flowing = -1  # quotation depth of an unfinished paragraph; -1 if there is none
    for line in text.split("\n"):
        # "-- " begins a signature, and does not flow (RFC 3676).
        rest = line.lstrip(">")
        depth = len(line) - len(rest)
        rest = rest.removeprefix(" ")
        is_flowed = rest.endswith(" ") and rest != "-- "
        if depth != flowing or rest == "-- ":
            pieces.append("\n" + ">" * depth + " " * bool(depth))
        pieces.append(rest[:-1] if is_flowed and deletes_space else rest)
        flowing = depth if is_flowed else -1
    return "".join(pieces).removeprefix("\n")


def messages(file: IO[bytes]) -> Iterator[bytes | UnreadableError]:
    r"""Yield messages without their first line, or an error for one that is too large.

    If the first line of all has no date, each line after an empty one that begins with "From "
    separates messages.

    >>> from io import BytesIO
    >>> date = b"Wed May  1 12:00:00 2024\n"
    >>> box = b"From - " + date + b"Subject: A\n\n>From b\n\nFrom now on\n\nFrom c@d " + date + b"B"
    >>> [*messages(BytesIO(box))]
    [b'Subject: A\n\nFrom b\n\nFrom now on\n', b'B']
    """
    lines = list[bytes]()
    length = 0
    inside = False
    blank = True  # whether the previous line was empty
    whole = True  # whether it was complete: a long line comes in pieces
    are_dated = True

    # A line begins a message, belongs to one, or comes before the first.
    while line := file.readline(PIECE):
        begins = whole and line.startswith(b"From ") and (blank or are_dated)
        if begins and not inside:
            are_dated = _has_date(line)
        if begins and (not are_dated or _has_date(line)):
            if inside:
                yield _message(lines, length)
            lines = []
            length = 0
            inside = True
        elif inside:
            length += len(line)
            if length <= LARGEST_FILE:
                lines.append(line)
            else:
                lines.clear()
        blank = whole and not line.strip(b"\r\n")
        whole = line.endswith(b"\n")
    if inside:
        yield _message(lines, length)


def _has_date(line: bytes) -> bool:
    """Return whether a line that begins with "From " has a sender and a date."""
    return len(line) <= LONGEST_SEPARATOR and bool(SEPARATOR.fullmatch(b" ".join(line.split())))


def _message(lines: list[bytes], length: int) -> bytes | UnreadableError:
    """Join the lines of a message of this length; return an error if it is too large."""
    if length > LARGEST_FILE:
        return UnreadableError(f"over {size(LARGEST_FILE)}")
    if lines and not lines[-1].strip(b"\r\n"):
        lines.pop()  # it belongs to the next message's first line
    return QUOTED.sub(rb"\1", b"".join(lines))
