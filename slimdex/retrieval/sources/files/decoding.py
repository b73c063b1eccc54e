"""Decoding of text files in any encoding."""

from __future__ import annotations

import codecs
import re

from . import charsets
from .limits import UnreadableError

MARKS = {  # UTF-32's mark begins with UTF-16's
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
LOOKED_AT = 1 << 16
"""Bytes used to guess an encoding."""
UNTYPED = bytes([*range(0x00, 0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20)])
"""Bytes that occur in no text, except in UTF-16 and UTF-32."""
WESTERN = "cp1252"
"""Encoding of most files that are not UTF-8."""
SIGN_IN_WORD = re.compile(r"[^\W\d_][¹²³¼½¾¿¡°±][^\W\d_]")
"""Implausible characters, such as Polish text decoded as `WESTERN`."""
OTHERS = {"Turkish": "cp1254", "Hungarian": "cp1250"}
"""Languages that look equally plausible in `WESTERN` -> their encoding."""
AS_GOOD = 0.1
"""Tolerance of charset-normalizer's measure of disorder: Portuguese differed by 0.07."""
FEW = 0.02
"""Share of `UNTYPED` bytes tolerated in a text."""
DECLARED = re.compile(
    rb"""<\?xml[^>]+?encoding\s*=\s*["']([\w.:-]+)"""
    rb"""|@charset "([^"\n]+)";"""
    rb"""|(?:[^\n]*\n)?[ \t\f]*\#[^\n]*?coding[:=][ \t]*([\w.-]+)"""
)
"""Charset label at the beginning of XML, CSS, or code as in PEP 263."""
LIKELY = 8
"""Characters outside ASCII from which on text that is valid UTF-8 is UTF-8, whatever its label;
legacy text that short may be valid UTF-8 by chance."""
WRONG = 0.2
"""Share of undecodable characters above which a label is wrong."""


def decoded(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a file's text, with "\n" as line ending.

    `encoding` is used if the text is not UTF-8 and has no byte order mark. Without it, `label`, the
    charset that the file or its mail declares, is read as by browsers; without both,
    charset-normalizer guesses. Raises `UnreadableError` if the text is not valid in `encoding`.

    >>> decoded(b"caf\xc3\xa9\r\n"), decoded("café".encode("utf-16"))
    ('café\n', 'café')
    >>> decoded(b"\xd2\xbb", label="gb2312"), decoded(b"caf\xc3\xa9", label="us-ascii")
    ('一', 'café')
    """
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    text = _declared(data, label) if label and not (marked or encoding) else None
    if text is None:
        text = _undeclared(data, marked, encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def declared_label(data: bytes) -> str | None:
    """Charset label in the first lines of XML, CSS or code; None if there is none.

    >>> declared_label(b'<?xml version="1.0" encoding="gb2312"?>'), declared_label(b"# A note")
    ('gb2312', None)
    """
    found = DECLARED.match(data[:1024])
    return next(filter(None, found.groups())).decode("latin-1") if found else None


def is_guessed(data: bytes, label: str | None = None) -> bool:
    """Return whether the encoding can only be guessed: no byte order mark, label or UTF-8."""
    if any(data.startswith(mark) for mark in MARKS) or (label and _declared(data, label)):
        return False
    return not _is_utf_8(data)


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _declared(data: bytes, label: str) -> str | None:
    """Decode by a charset label; None if it is unknown or wrong, so that the text decides."""
    codec = charsets.codec_of(label)
    is_plain = data.isascii() and b"\0" not in data and codec not in charsets.SEVEN_BIT
    if codec is None or codec == "utf-8" or is_plain:
        return None
    text = charsets.decode(data, codec)
    outside = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))
    is_doubtful = codec == WESTERN or outside >= 2 * LIKELY or "\ufffd" in text
    if is_doubtful and not data.isascii() and _is_utf_8(data):
        return None
    return text if text.count("\ufffd") <= WRONG * len(text) else None


def _undeclared(data: bytes, marked: str | None, encoding: str | None) -> str:
    try:
        text = data.decode(marked or "utf-8")
    except UnicodeDecodeError as error:
        if encoding is not None:
            return _decoded_as(data, encoding)
        return data.decode(_guessed(data, error.start), "replace")
    if encoding is not None and not marked and ("\0" in text or "\x1b" in text):
        return _decoded_as(data, encoding)  # may be UTF-16 or ISO-2022
    return text


def _decoded_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        codec = charsets.codec_of(encoding)
        text = charsets.decode(data, codec) if codec and codec != WESTERN else "\ufffd"
        if "\ufffd" not in text:  # with characters of vendors, as Shift_JIS has them
            return text
        raise UnreadableError(
            f"byte {error.start + 1:,} is not valid {encoding.upper()}"
        ) from error


def is_text(head: bytes) -> bool:
    r"""Return whether a file with these first bytes is text.

    >>> is_text(b"Good morning"), is_text(b"\x7fELF\x02\x01\x01\x00"), is_text(b"")
    (True, False, True)
    """
    if any(head.startswith(mark) for mark in MARKS):
        return True
    return 0 not in head and len(head) - len(head.translate(None, UNTYPED)) <= FEW * len(head)


def _guessed(data: bytes, first: int) -> str:
    """Guess the encoding of bytes that are not UTF-8 from `first` on."""
    from charset_normalizer import from_bytes

    start = max(0, first - LOOKED_AT // 2)
    matches = from_bytes(data[start : start + LOOKED_AT])
    best = matches.best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return WESTERN
    for match in matches:  # the likeliest of equally plausible ones
        if match.encoding == WESTERN and match.chaos <= best.chaos + AS_GOOD:
            if SIGN_IN_WORD.search(str(match)):
                break
            return OTHERS.get(best.language, WESTERN)
    found: str = best.encoding
    return found
