"""Decoding of text in any encoding.

A charset label means what browsers read under it (https://encoding.spec.whatwg.org), the largest
encoding in use under its name: `us-ascii` is windows-1252. webencodings has the labels, and Python
the decoders; what these lack of Chinese and Japanese is added here.
"""

from __future__ import annotations

import codecs
import re

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
MOST_UNTYPED = 0.02
"""Share of `UNTYPED` bytes tolerated in a text."""
WESTERN = "cp1252"
"""Encoding of most files that are not UTF-8."""
SIGN_IN_WORD = re.compile(r"[^\W\d_][¹²³¼½¾¿¡°±][^\W\d_]")
"""Implausible characters, such as Polish text decoded as `WESTERN`."""
NOT_WESTERN = {"Turkish": "cp1254", "Hungarian": "cp1250"}
"""Languages that look equally plausible in `WESTERN` -> their encoding."""
CHAOS_TOLERANCE = 0.1
"""Tolerance of charset-normalizer's measure of disorder: Portuguese differed by 0.07."""
DECLARED = re.compile(
    rb"""<\?xml[^>]+?encoding\s*=\s*["']([\w.:-]+)"""
    rb"""|@charset "([^"\n]+)";"""
    rb"""|(?:[^\n]*\n)?[ \t\f]*\#[^\n]*?coding[:=][ \t]*([\w.-]+)"""
)
"""Charset label at the beginning of XML, CSS, or code as in PEP 263."""
CERTAIN = 8
"""Characters outside ASCII by which a text that is valid UTF-8 is certainly UTF-8, whatever its
label says. A shorter text in another encoding may be valid UTF-8 by chance."""
REPLACEMENT = "\ufffd"
"""Stands for bytes that can't be decoded."""
MOST_UNDECODABLE = 0.2
"""Share of undecodable characters above which a label is wrong."""
SEVEN_BIT = frozenset(["iso2022_jp", "iso2022_kr", "hz", "utf-7"])
"""Codecs of bytes that are ASCII."""
ESCAPE = re.compile(rb"\x1b(\([BIJ]|\$\(?[@B]|\$\(D)")
"""Change of the character set in ISO-2022-JP."""
HIGH_BIT = bytes(range(0x21)) + bytes(range(0xA1, 0xFF)) + bytes(range(0x7F, 0x100))
"""Table that sets the high bit of printable ASCII."""
ROMAN = {0x5C: "¥", 0x7E: "‾"}


def decode_text(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a file's text, with "\n" as line ending; what can't be decoded becomes U+FFFD.

    `encoding` is used if the text is not UTF-8 and has no byte order mark. Without it, `label`, the
    charset that the file or its mail declares, is read as by browsers; without both,
    charset-normalizer guesses. Raises `UnreadableError` if the text is not valid in `encoding`.

    >>> decode_text(b"caf\xc3\xa9\r\n"), decode_text("café".encode("utf-16"))
    ('café\n', 'café')
    >>> decode_text(b"\xd2\xbb", label="gb2312"), decode_text(b"caf\xc3\xa9", label="us-ascii")
    ('一', 'café')
    """
    text = decode(data, stated_codec(data, encoding, label) or _guess_codec(data))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def stated_codec(data: bytes, encoding: str | None, label: str | None) -> str | None:
    """Codec by the text's byte order mark, the user's encoding or a label; None if unknown.

    A text is UTF-8 if only some of its bytes are not, whatever the user or the label says. Raises
    `UnreadableError` if the text is not valid in the user's encoding.
    """
    for mark, codec in MARKS.items():
        if data.startswith(mark):
            return codec
    if encoding is not None:
        may_be_other = b"\0" in data or b"\x1b" in data  # UTF-16 or ISO-2022
        if _is_mostly_utf_8(data) and not may_be_other:
            return "utf-8"
        codec = codec_of(encoding) or encoding
        if REPLACEMENT in decode(data, codec):
            raise UnreadableError(f"not valid {encoding.upper()}")
        return codec
    labelled = _labelled_codec(data, label) if label else None
    return labelled or ("utf-8" if _is_mostly_utf_8(data) else None)


def _labelled_codec(data: bytes, label: str) -> str | None:
    """Codec of a charset label; None if it is unknown or wrong, so that the text decides."""
    codec = codec_of(label)
    is_plain = data.isascii() and b"\0" not in data and codec not in SEVEN_BIT
    if codec is None or codec == "utf-8" or is_plain:
        return None

    # The label is doubtful if it may mean anything, or if the text is longer than chance explains.
    text = decode(data, codec)
    outside = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))  # non-ASCII bytes
    is_doubtful = codec == WESTERN or outside >= 2 * CERTAIN or REPLACEMENT in text
    if is_doubtful and not data.isascii() and _is_mostly_utf_8(data):
        return None
    return codec if text.count(REPLACEMENT) <= MOST_UNDECODABLE * len(text) else None


def _is_mostly_utf_8(data: bytes) -> bool:
    """Return whether a text is UTF-8, except for some bytes.

    Text in other encodings has a third as many valid characters as broken places or fewer; only a
    few words may have more by chance.
    """
    text = data.decode("utf-8", "replace")
    broken = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())
    valid = len(text) - len(text.encode("ascii", "ignore")) - broken  # outside ASCII
    return valid >= broken + min(broken, CERTAIN)


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


def is_text(head: bytes) -> bool:
    r"""Return whether a file with these first bytes is text.

    >>> is_text(b"Good morning"), is_text(b"\x7fELF\x02\x01\x01\x00"), is_text(b"")
    (True, False, True)
    """
    if any(head.startswith(mark) for mark in MARKS):
        return True
    untyped = len(head) - len(head.translate(None, UNTYPED))
    return 0 not in head and untyped <= MOST_UNTYPED * len(head)


def _guess_codec(data: bytes) -> str:
    """Guess the codec of a text that is not UTF-8, by the bytes around the first that is not."""
    from charset_normalizer import from_bytes  # few texts need it

    before = data.decode("utf-8", "replace").partition(REPLACEMENT)[0]
    start = max(0, len(before.encode()) - LOOKED_AT // 2)
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
    return str(best.encoding)


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
    if encoding is None or encoding.name in ("replacement", "x-user-defined"):
        return None
    name: str = encoding.codec_info.name
    return "gb18030" if name == "gbk" else name


def decode(data: bytes, codec: str) -> str:
    r"""Decode bytes by a codec of `codec_of`; undefined ones become U+FFFD.

    >>> decode(b"\x93caf\xe9\x94", "cp1252"), decode(b"\x1b$B-!\x1b(B", "iso2022_jp")
    ('“café”', '①')
    """
    if codec == "iso2022_jp":
        return _iso_2022_jp(data)
    codecs.register_error("slimdex-euc-jp", _of_nec_or_ibm)
    return data.decode(codec, "slimdex-euc-jp" if codec == "euc_jp" else "replace")


def _of_nec_or_ibm(error: UnicodeError) -> tuple[str, int]:
    """Handle an error of EUC-JP: Python has the characters of NEC and IBM in Shift_JIS only."""
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if len(pair) < 2 or min(pair) < 0xA1 or max(pair) > 0xFE:
        return REPLACEMENT, error.start + 1

    # Both encode the same table: EUC-JP has a first byte per row of 94, Shift_JIS per two rows.
    lead, is_odd = divmod(pair[0] - 0xA1, 2)
    trail = pair[1] - 0xA1 + 94 * is_odd
    shifted = bytes([lead + (0x81 if lead < 31 else 0xC1), trail + 0x40 + (trail > 62)])
    return shifted.decode("cp932", "replace")[0], error.start + 2


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
