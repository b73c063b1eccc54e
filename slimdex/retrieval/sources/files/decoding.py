"""Decoding of text files in any encoding."""

from __future__ import annotations

import codecs
import re

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


def decoded(data: bytes, encoding: str | None = None) -> str:
    r"""Decode a file's text, with "\n" as line ending.

    `encoding` is used if the text is not UTF-8 and has no byte order mark; None lets
    charset-normalizer guess. Raises `UnreadableError` if the text is not valid in that encoding.

    >>> decoded(b"caf\xc3\xa9\r\n"), decoded("café".encode("utf-16"))
    ('café\n', 'café')
    """
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    try:
        text = data.decode(marked or "utf-8")
        if encoding is not None and not marked and "\0" in text:  # may be UTF-16
            text = _decoded_as(data, encoding)
    except UnicodeDecodeError as error:
        if encoding is not None:
            text = _decoded_as(data, encoding)
        else:
            text = data.decode(_guessed(data, error.start), "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_guessed(data: bytes) -> bool:
    """Return whether the encoding can only be guessed: no byte order mark, not UTF-8."""
    if any(data.startswith(mark) for mark in MARKS):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _decoded_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
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
