"""Decoding of text in any encoding.

Charset labels and decoders are those of the WHATWG standard (https://encoding.spec.whatwg.org),
where a label means the largest encoding in use under its name: `us-ascii` is windows-1252.
webencodings has the labels, and Python the decoders; characters that these lack are added here.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import webencodings

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
NOT_WESTERN = {"Turkish": "cp1254", "Hungarian": "cp1250"}
"""Languages that look equally plausible in `WESTERN` -> their encoding."""
CHAOS_TOLERANCE = 0.1
"""Tolerance of charset-normalizer's measure of disorder: Portuguese differed by 0.07."""
MOST_UNTYPED = 0.02
"""Share of `UNTYPED` bytes tolerated in a text."""
DECLARED = re.compile(
    rb"""<\?xml[^>]+?encoding\s*=\s*["']([\w.:-]+)"""
    rb"""|@charset "([^"\n]+)";"""
    rb"""|(?:[^\n]*\n)?[ \t\f]*\#[^\n]*?coding[:=][ \t]*([\w.-]+)"""
)
"""Charset label at the beginning of XML, CSS, or code as in PEP 263."""
CERTAIN_UTF_8 = 8
"""A text with this many characters outside ASCII that is valid UTF-8 is read as UTF-8, whatever
its label says. A shorter text in another encoding may be valid UTF-8 by chance."""
REPLACEMENT = "\ufffd"
"""Stands for bytes that can't be decoded."""
MOST_UNDECODABLE = 0.2
"""Share of undecodable characters above which a label is wrong."""
PAIRS = frozenset(["gb18030", "big5hkscs", "euc_jp", "cp932", "cp949"])
"""Codecs of one to four bytes per character."""
MULTIBYTE = PAIRS | {"utf-8", "utf-16-be", "utf-16-le", "iso2022_jp"}
"""Codecs that are no tables of single bytes."""
SEVEN_BIT = frozenset(["iso2022_jp", "iso2022_kr", "hz", "utf-7"])
"""Codecs of bytes that are ASCII."""
CORRECTED: Mapping[str, Mapping[int, int | str]] = {
    "big5hkscs": str.maketrans("•､‾∼♁☉¥¢£", "‧﹑¯～⊕⊙￥￠￡"),
    "euc_jp": str.maketrans("〜‖−¢£¬", "～∥－￠￡￢"),
    "gb18030": {
        **dict(zip(range(0xE78D, 0xE794), "︐︒︑︓︔︕︖", strict=True)),
        **dict(zip(range(0xE794, 0xE797), "︗︘︙", strict=True)),
        **{0xE5E5: "\u3000", 0xE7C7: "ḿ", 0xE81E: "龴", 0xE826: "龵", 0xE82B: "龶"},
        **{0xE82C: "龷", 0xE832: "龸", 0xE843: "龹", 0xE854: "龺", 0xE864: "龻"},
    },
    "koi8-u": str.maketrans("╝╬", "ўЎ"),
}
"""Codec -> characters that Python reads differently -> the standard's."""
ESCAPE = re.compile(rb"\x1b(\([BIJ]|\$\(?[@B]|\$\(D)")
"""Change of the character set in ISO-2022-JP."""
HIGH_BIT = bytes(range(0x21)) + bytes(range(0xA1, 0xFF)) + bytes(range(0x7F, 0x100))
"""Table that sets the high bit of printable ASCII."""
ROMAN = {0x5C: "¥", 0x7E: "‾"}


@dataclass
class Losses:
    """Guesses and losses while texts were decoded.

    Attributes
    ----------
    is_guessed : whether an encoding was guessed.
    replaced : number of U+FFFD that stand for bytes which can't be decoded.
    """

    is_guessed: bool = False
    replaced: int = 0


_losses: ContextVar[Losses] = ContextVar("losses")


@contextmanager
def recording_losses() -> Iterator[Losses]:
    r"""Record what `decode_text` guesses and replaces within the block.

    >>> with recording_losses() as losses:
    ...     text = decode_text("März, Größe".encode() + b" \xc3", label="utf-8")
    >>> text, losses
    ('März, Größe \ufffd', Losses(is_guessed=False, replaced=1))
    """
    losses = Losses()
    token = _losses.set(losses)
    try:
        yield losses
    finally:
        _losses.reset(token)


def decode_text(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a file's text, with "\n" as line ending.

    `encoding` is used if the text is not UTF-8 and has no byte order mark. Without it, `label`, the
    charset that the file or its mail declares, is read as by browsers; without both,
    charset-normalizer guesses. In a text that is UTF-8 except for some bytes, these become U+FFFD.
    Raises `UnreadableError` if the text is not valid in `encoding`.

    >>> decode_text(b"caf\xc3\xa9\r\n"), decode_text("café".encode("utf-16"))
    ('café\n', 'café')
    >>> decode_text(b"\xd2\xbb", label="gb2312"), decode_text(b"caf\xc3\xa9", label="us-ascii")
    ('一', 'café')
    """
    losses = _losses.get(None) or Losses()
    by_mark = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)

    # A byte order mark takes precedence over the user's encoding, and that over the file's label.
    if by_mark:
        text = data.decode(by_mark, "replace")
        losses.replaced += text.count(REPLACEMENT)
    elif encoding is not None:
        text = _decode_named(data, encoding, losses)
    else:
        declared = _decode_by_label(data, label, losses) if label else None
        text = _decode_by_text(data, label, losses) if declared is None else declared
    return text.replace("\r\n", "\n").replace("\r", "\n")


def declared_label(data: bytes) -> str | None:
    """Charset label in the first lines of XML, CSS or code; None if there is none.

    >>> declared_label(b'<?xml version="1.0" encoding="gb2312"?>'), declared_label(b"# A note")
    ('gb2312', None)
    """
    declaration = DECLARED.match(data[:1024])
    if declaration is None:
        return None
    label: bytes = next(filter(None, declaration.groups()))  # of the alternative that matched
    return label.decode("latin-1")


def is_utf_8(data: bytes) -> bool:
    """Return whether these bytes are valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Utf8(NamedTuple):
    """Bytes read as UTF-8.

    Attributes
    ----------
    outside : number of characters outside ASCII.
    broken : number of places that are not UTF-8; the text has U+FFFD at each.
    """

    text: str
    outside: int
    broken: int

    @classmethod
    def of(cls, data: bytes) -> _Utf8:
        """Decode bytes as UTF-8, replacing what is not UTF-8."""
        text = data.decode("utf-8", "replace")
        broken = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())
        in_ascii = len(text.encode("ascii", "ignore"))
        return cls(text, len(text) - in_ascii - broken, broken)

    @property
    def is_likely(self) -> bool:
        """Whether this is UTF-8, except for some bytes.

        Text in other encodings has a third as many valid characters as broken places or fewer;
        only a few words may have more by chance.
        """
        return self.outside >= self.broken + min(self.broken, CERTAIN_UTF_8)

    @property
    def is_certain(self) -> bool:
        """Whether this is UTF-8 in spite of another label."""
        return self.outside >= self.broken + CERTAIN_UTF_8


def _decode_by_label(data: bytes, label: str, losses: Losses) -> str | None:
    """Decode by a charset label; None if it is unknown or wrong, so that the text decides."""
    # ASCII and UTF-8 need no label.
    codec = codec_of(label)
    is_plain = data.isascii() and b"\0" not in data and codec not in SEVEN_BIT
    if codec is None or codec == "utf-8" or is_plain:
        return None

    # Ignore a doubtful label if the text is certainly UTF-8.
    text = decode(data, codec)
    outside = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))  # non-ASCII bytes
    is_doubtful = codec == WESTERN or outside >= 2 * CERTAIN_UTF_8 or REPLACEMENT in text
    if is_doubtful and not data.isascii() and (is_utf_8(data) or _Utf8.of(data).is_certain):
        return None
    replaced = text.count(REPLACEMENT)
    if replaced > MOST_UNDECODABLE * len(text):
        return None
    losses.replaced += replaced
    return text


def _decode_by_text(data: bytes, label: str | None, losses: Losses) -> str:
    """Decode as UTF-8, or as guessed if the text is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        first = error.start

    # Accept UTF-8 with a few broken bytes, or else guess the encoding.
    utf_8 = _Utf8.of(data)
    is_labelled = label is not None and codec_of(label) == "utf-8"
    if utf_8.is_likely or (is_labelled and utf_8.outside >= utf_8.broken):
        losses.replaced += utf_8.broken
        return utf_8.text
    losses.is_guessed = True
    return data.decode(_guess_encoding(data, first), "replace")


def _decode_named(data: bytes, encoding: str, losses: Losses) -> str:
    """Decode as UTF-8 if the bytes are UTF-8, or else in the encoding that the user names.

    A few bytes of UTF-8 may be broken; they are counted in `losses`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        utf_8 = _Utf8.of(data)
        if not utf_8.is_certain:
            return _decode_as(data, encoding)
        losses.replaced += utf_8.broken
        return utf_8.text
    if "\0" in text or "\x1b" in text:  # may be UTF-16 or ISO-2022
        return _decode_as(data, encoding)
    return text


def _decode_as(data: bytes, encoding: str) -> str:
    """Decode in the encoding that the user names; raise `UnreadableError` if that fails."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        # Decode as browsers do, which know more characters; but `WESTERN` would accept any bytes.
        codec = codec_of(encoding)
        text = decode(data, codec) if codec and codec != WESTERN else REPLACEMENT
        if REPLACEMENT not in text:  # with characters of vendors, as Shift_JIS has them
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
    untyped = len(head) - len(head.translate(None, UNTYPED))
    return 0 not in head and untyped <= MOST_UNTYPED * len(head)


def _guess_encoding(data: bytes, first: int) -> str:
    """Guess the encoding of bytes that are not UTF-8 from `first` on."""
    from charset_normalizer import from_bytes  # few texts need it

    start = max(0, first - LOOKED_AT // 2)
    matches = from_bytes(data[start : start + LOOKED_AT])
    best = matches.best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return WESTERN

    # Prefer `WESTERN` among equally plausible encodings, unless it puts signs within words.
    for match in matches:
        if match.encoding == WESTERN and match.chaos <= best.chaos + CHAOS_TOLERANCE:
            if SIGN_IN_WORD.search(str(match)):
                break
            return NOT_WESTERN.get(best.language, WESTERN)
    encoding: str = best.encoding
    return encoding


def codec_of(label: str) -> str | None:
    """Codec of a charset label: the standard's, or else Python's; None if it is unknown.

    >>> codec_of("ISO-8859-1"), codec_of(" gb2312 "), codec_of("cp437"), codec_of("klingon")
    ('cp1252', 'gb18030', 'cp437', None)
    """
    label = label.strip("\t\n\f\r \"'")
    try:
        if standard := _standard_codec(label):
            return standard
        b"a\xff".decode(label, "replace")  # fails unless it is a codec of text
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return _standard_codec(name.replace("_", "-")) or name  # such as latin-1, or gb_2312_80


def _standard_codec(label: str) -> str | None:
    """Codec of a label of the standard.

    None if the label is unknown, or one that browsers refuse and Python decodes, as iso-2022-kr.
    """
    encoding = webencodings.lookup(label)
    if encoding is None or encoding.name == "replacement":
        return None
    name: str = encoding.codec_info.name
    return "gb18030" if name == "gbk" else name


@cache
def _single_byte_codecs() -> frozenset[str]:
    """Codecs of the standard that are tables of 256 characters."""
    codecs_of_labels = filter(None, map(_standard_codec, webencodings.LABELS))
    return frozenset(codecs_of_labels) - MULTIBYTE


def decode(data: bytes, codec: str) -> str:
    r"""Decode bytes by a codec of `codec_of` as browsers do; undefined ones become U+FFFD.

    >>> decode(b"\x93caf\xe9\x94", "cp1252"), decode(b"\x1b$B-!\x1b(B", "iso2022_jp")
    ('“café”', '①')
    """
    if codec == "iso2022_jp":
        return _iso_2022_jp(data)
    if codec in PAIRS:
        text = data.decode(codec, _handler())
    elif codec in _single_byte_codecs():
        text, _ = codecs.charmap_decode(data, "replace", _table(codec))
    else:
        text = data.decode(codec, "replace")
    return text.translate(CORRECTED[codec]) if codec in CORRECTED else text


@cache
def _table(codec: str) -> str:
    """Characters of all bytes; what Windows leaves undefined are the controls of ISO 8859."""
    if codec == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(0x100))
    table = []
    for byte in range(0x100):
        character = bytes([byte]).decode(codec, "replace")
        is_control = character == "\ufffd" and byte < 0xA0
        table.append(chr(byte) if is_control else character)
    if codec == "cp1255":  # browsers decode this byte, which Python does not
        table[0xCA] = "\u05ba"
    return "".join(table)


@cache
def _handler() -> str:
    """Name of the error handler that reads what Python's codecs lack."""

    def handle(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        missing = _missing(error.encoding)
        start = error.start
        byte = error.object[start : start + 1]
        two_bytes = error.object[start : start + 2]
        if byte in missing:
            return missing[byte], start + 1
        if two_bytes in missing:
            return missing[two_bytes], start + 2

        # Replace two bytes that encode no character by one U+FFFD.
        is_pair = b"\x80" < byte < b"\xff" and two_bytes[1:] >= b"\x80"
        return "\ufffd", start + (2 if is_pair else 1)

    codecs.register_error("slimdex-charsets", handle)
    return "slimdex-charsets"


@cache
def _missing(codec: str) -> Mapping[bytes, str]:
    """Bytes that Python's codec lacks -> their characters."""
    if codec == "gb18030":
        return {b"\x80": "€"}
    if codec == "cp932":
        return {b"\x80": "\x80"}
    if codec == "big5hkscs":
        return {b"\xa3\xe1": "€"}
    return _vendor_rows() if codec == "euc_jp" else {}


def _vendor_rows() -> dict[bytes, str]:
    """Characters of NEC and IBM in EUC-JP, which Python has in Shift_JIS."""
    # Both encode the same table: EUC-JP has a first byte per row of 94, Shift_JIS per two rows.
    rows = {}
    for number in range(94 * 94):
        row, cell = divmod(number, 94)
        lead, trail = divmod(number, 188)
        shifted = bytes([lead + (0x81 if lead < 31 else 0xC1), trail + 0x40 + (trail > 62)])
        text = shifted.decode("cp932", "replace")
        if "\ufffd" not in text:
            rows[bytes([row + 0xA1, cell + 0xA1])] = text
    return rows


def _iso_2022_jp(data: bytes) -> str:
    """Decode ISO-2022-JP, in which escape sequences switch the character set."""
    first, *others = ESCAPE.split(data)
    pieces = [first.decode("ascii", "replace")]
    for escape, part in zip(others[::2], others[1::2], strict=True):
        if escape == b"(B":
            pieces.append(part.decode("ascii", "replace"))
        elif escape == b"(J":
            pieces.append(part.decode("ascii", "replace").translate(ROMAN))
        elif escape == b"(I":  # single-byte katakana
            pieces.append(part.translate(HIGH_BIT).decode("cp932", "replace"))
        else:
            if escape == b"$(D":  # JIS X 0212
                part = re.sub(rb"[\x21-\x7e]{2}", b"\x8f\\g<0>", part)
            pieces.append(decode(part.translate(HIGH_BIT), "euc_jp"))
    return "".join(pieces)
