"""Decoding: bytes of a text file as text, whatever its encoding."""

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
"""Bytes from which an encoding is guessed."""
UNTYPED = bytes([*range(0x00, 0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20)])
"""Bytes that no text has in any encoding but UTF-16 and UTF-32."""
WESTERN = "cp1252"
"""What most files are in that are no UTF-8."""
SIGN_IN_WORD = re.compile(r"[^\W\d_][¹²³¼½¾¿¡°±][^\W\d_]")
"""Polish in `WESTERN`, for one."""
OTHERS = {"Turkish": "cp1254", "Hungarian": "cp1250"}
"""Languages whose words look as good in `WESTERN`, and what they are in."""
AS_GOOD = 0.1
"""Of charset-normalizer's measure of disorder: Portuguese differed by 0.07."""
FEW = 0.02
"""Share of such bytes that a text may have all the same: a form feed here and there."""


def decoded(data: bytes, encoding: str | None = None) -> str:
    r"""A file's text; its lines end with "\n".

    Parameters
    ----------
    encoding : what the user says it is in if it is no UTF-8, and no mark at its beginning tells;
        else charset-normalizer guesses by what would be words.

    Raises
    ------
    UnreadableError
        If it is not text in the encoding that the user named.

    >>> decoded(b"caf\xc3\xa9\r\n"), decoded("café".encode("utf-16"))
    ('café\n', 'café')
    """
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    try:
        text = data.decode(marked or "utf-8")
        if encoding is not None and not marked and "\0" in text:  # of UTF-16, which this may be
            text = _as_told(data, encoding)
    except UnicodeDecodeError as error:
        if encoding is not None:
            text = _as_told(data, encoding)
        else:
            text = data.decode(_guessed(data, error.start), "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_guessed(data: bytes) -> bool:
    """Whether only a guess tells the encoding of a text: no mark does, and it is no UTF-8."""
    if any(data.startswith(mark) for mark in MARKS):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _as_told(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"byte {error.start + 1:,} is no {encoding.upper()}") from error


def is_text(head: bytes) -> bool:
    r"""Whether a file that begins so is text.

    >>> is_text(b"Good morning"), is_text(b"\x7fELF\x02\x01\x01\x00"), is_text(b"")
    (True, False, True)
    """
    if any(head.startswith(mark) for mark in MARKS):
        return True
    return 0 not in head and len(head) - len(head.translate(None, UNTYPED)) <= FEW * len(head)


def _guessed(data: bytes, first: int) -> str:
    """An encoding for bytes that are no UTF-8 from the one at `first` on."""
    from charset_normalizer import from_bytes

    start = max(0, first - LOOKED_AT // 2)
    matches = from_bytes(data[start : start + LOOKED_AT])
    best = matches.best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return WESTERN
    for match in matches:  # of those that make as good words the likeliest
        if match.encoding == WESTERN and match.chaos <= best.chaos + AS_GOOD:
            if SIGN_IN_WORD.search(str(match)):
                break
            return OTHERS.get(best.language, WESTERN)
    found: str = best.encoding
    return found
