"""Decoding of text in any encoding.

Charset labels and decoders are those of the WHATWG standard (https://encoding.spec.whatwg.org),
where a label means the largest encoding in use under its name: `us-ascii` is windows-1252. Python's
codecs do the work; what they lack is added here.
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
"""Characters outside ASCII from which on text that is valid UTF-8 is UTF-8, whatever its label;
legacy text that short may be valid UTF-8 by chance."""
REPLACEMENT = "\ufffd"
"""Stands for bytes that can't be decoded."""
MOST_UNDECODABLE = 0.2
"""Share of undecodable characters above which a label is wrong."""
LABELS = {
    label: codec
    for codec, labels in {
        "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
        "cp866": "866 cp866 csibm866 ibm866",
        "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 "
        "iso_8859-2:1987 l2 latin2",
        "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 "
        "iso_8859-3:1988 l3 latin3",
        "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 "
        "iso_8859-4:1988 l4 latin4",
        "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 "
        "iso_8859-5 iso_8859-5:1988",
        "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 "
        "iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 "
        "iso_8859-6:1987",
        "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 "
        "iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek",
        "iso8859-8": "csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e "
        "iso-8859-8-i iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 logical visual",
        "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
        "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
        "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
        "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
        "iso8859-16": "iso-8859-16",
        "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
        "koi8-u": "koi8-ru koi8-u",
        "mac-roman": "csmacintosh mac macintosh x-mac-roman",
        "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
        "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
        "cp1250": "cp1250 windows-1250 x-cp1250",
        "cp1251": "cp1251 windows-1251 x-cp1251",
        "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 "
        "iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
        "cp1253": "cp1253 windows-1253 x-cp1253",
        "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 "
        "iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254",
        "cp1255": "cp1255 windows-1255 x-cp1255",
        "cp1256": "cp1256 windows-1256 x-cp1256",
        "cp1257": "cp1257 windows-1257 x-cp1257",
        "cp1258": "cp1258 windows-1258 x-cp1258",
        "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb_2312 gb_2312-80 gbk "
        "iso-ir-58 x-gbk",
        "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
        "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
        "iso2022_jp": "csiso2022jp iso-2022-jp",
        "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
        "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 "
        "ksc5601 ksc_5601 windows-949",
        "utf-16-be": "unicodefffe utf-16be",
        "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
        "x-user-defined": "x-user-defined",
    }.items()
    for label in labels.split()
}
"""The standard's labels -> names of codecs. Browsers refuse a few others, such as iso-2022-kr and
hz-gb-2312, which Python reads."""
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
BIG5_877A = "㡵𡵓𣚞𦀡㻬"
BIG5_87A1 = (
    "𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌䄱𣚎堘穲𧭥讏䚮𦺈䆁"
    "𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋"
)
BIG5_A3C0 = "".join(map(chr, [*range(0x2400, 0x2420), 0x2421, 0x20AC]))
BIG5 = """
8e69箸 8e6f簆 8e7e糎 8eab緒 8eb4縝 8ecd者 8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦 8fcc覩 8ffe起
906d都 907a銹 90dc靜 90f1響 91bf鼖 9244蔃 92af兙 92b0兛 92b1兝 92b2兞 92c8鍮 92d1瑹 9447浧
94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁 9b78矗 9b7b纇 9bc6駖 9bde釔 9bec惞 9bf6澶 9c42輶
9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9cbc尐 9cbd秣 9cd0婧 9d57輋 9d5a筑 9dc4拐 9ea9恢 9eef痹
9efd汊 9f60鬮 9f66鼗 9fcb僭 9fd8弌 a063蠏 a077拎 a0d5瑨 a0df煢 a0e4牐 c6cf廴 c6d3无 c6d5癶
c6d7隶 c6de〃 c6df仝 fa5f倩 fa66偽 fabd包 fac5卄 fad5卿 fb48嘅 fbb8婷 fbf3幵 fbf9廐 fc4f彘
fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜 fdb8渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 fedd砉
"""
"""Characters of Big5 that Python lacks."""
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
def recorded_losses() -> Iterator[Losses]:
    r"""Record what `decoded` guesses and replaces within the block.

    >>> with recorded_losses() as losses:
    ...     text = decoded("März, Größe".encode() + b" \xc3", label="utf-8")
    >>> text, losses
    ('März, Größe \ufffd', Losses(is_guessed=False, replaced=1))
    """
    losses = Losses()
    token = _losses.set(losses)
    try:
        yield losses
    finally:
        _losses.reset(token)


def decoded(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a file's text, with "\n" as line ending.

    `encoding` is used if the text is not UTF-8 and has no byte order mark. Without it, `label`, the
    charset that the file or its mail declares, is read as by browsers; without both,
    charset-normalizer guesses. A text that is UTF-8 but for some bytes stays UTF-8, and these
    become U+FFFD. Raises `UnreadableError` if the text is not valid in `encoding`.

    >>> decoded(b"caf\xc3\xa9\r\n"), decoded("café".encode("utf-16"))
    ('café\n', 'café')
    >>> decoded(b"\xd2\xbb", label="gb2312"), decoded(b"caf\xc3\xa9", label="us-ascii")
    ('一', 'café')
    """
    losses = _losses.get(None) or Losses()
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), None)
    if marked:
        text = data.decode(marked, "replace")
        losses.replaced += text.count(REPLACEMENT)
    elif encoding is not None:
        text = _as_told(data, encoding, losses)
    else:
        declared = _declared(data, label, losses) if label else None
        text = _undeclared(data, label, losses) if declared is None else declared
    return text.replace("\r\n", "\n").replace("\r", "\n")


def declared_label(data: bytes) -> str | None:
    """Charset label in the first lines of XML, CSS or code; None if there is none.

    >>> declared_label(b'<?xml version="1.0" encoding="gb2312"?>'), declared_label(b"# A note")
    ('gb2312', None)
    """
    found = DECLARED.match(data[:1024])
    return next(filter(None, found.groups())).decode("latin-1") if found else None


def is_utf_8(data: bytes) -> bool:
    """Return whether these bytes are valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Utf8(NamedTuple):
    """Bytes read as UTF-8: characters outside ASCII, and places that are not UTF-8."""

    text: str
    outside: int
    broken: int

    @classmethod
    def of(cls, data: bytes) -> _Utf8:
        text = data.decode("utf-8", "replace")
        broken = text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())
        in_ascii = len(text.encode("ascii", "ignore"))
        return cls(text, len(text) - in_ascii - broken, broken)

    @property
    def is_likely(self) -> bool:
        """Whether this is UTF-8 but for some bytes.

        Text in other encodings has a third as many valid characters as broken places or fewer;
        only a few words may have more by chance.
        """
        return self.outside >= self.broken + min(self.broken, CERTAIN_UTF_8)

    @property
    def is_certain(self) -> bool:
        """Whether this is UTF-8 in spite of another label."""
        return self.outside >= self.broken + CERTAIN_UTF_8


def _declared(data: bytes, label: str, losses: Losses) -> str | None:
    """Decode by a charset label; None if it is unknown or wrong, so that the text decides."""
    codec = codec_of(label)
    is_plain = data.isascii() and b"\0" not in data and codec not in SEVEN_BIT
    if codec is None or codec == "utf-8" or is_plain:
        return None
    text = decode(data, codec)
    outside = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))
    is_doubtful = codec == WESTERN or outside >= 2 * CERTAIN_UTF_8 or REPLACEMENT in text
    if is_doubtful and not data.isascii() and (is_utf_8(data) or _Utf8.of(data).is_certain):
        return None
    replaced = text.count(REPLACEMENT)
    if replaced > MOST_UNDECODABLE * len(text):
        return None
    losses.replaced += replaced
    return text


def _undeclared(data: bytes, label: str | None, losses: Losses) -> str:
    """Decode as UTF-8, or as guessed if the text is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        first = error.start
    utf_8 = _Utf8.of(data)
    is_labelled = label is not None and codec_of(label) == "utf-8"
    if utf_8.is_likely or (is_labelled and utf_8.outside >= utf_8.broken):
        losses.replaced += utf_8.broken
        return utf_8.text
    losses.is_guessed = True
    return data.decode(_guessed(data, first), "replace")


def _as_told(data: bytes, encoding: str, losses: Losses) -> str:
    """Decode as UTF-8 if the text is, or else in the encoding that the user names."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        utf_8 = _Utf8.of(data)
        if not utf_8.is_certain:
            return _decoded_as(data, encoding)
        losses.replaced += utf_8.broken
        return utf_8.text
    if "\0" in text or "\x1b" in text:  # may be UTF-16 or ISO-2022
        return _decoded_as(data, encoding)
    return text


def _decoded_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
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
    return 0 not in head and len(head) - len(head.translate(None, UNTYPED)) <= MOST_UNTYPED * len(
        head
    )


def _guessed(data: bytes, first: int) -> str:
    """Guess the encoding of bytes that are not UTF-8 from `first` on."""
    from charset_normalizer import from_bytes

    start = max(0, first - LOOKED_AT // 2)
    matches = from_bytes(data[start : start + LOOKED_AT])
    best = matches.best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return WESTERN
    for match in matches:  # the likeliest of equally plausible ones
        if match.encoding == WESTERN and match.chaos <= best.chaos + CHAOS_TOLERANCE:
            if SIGN_IN_WORD.search(str(match)):
                break
            return NOT_WESTERN.get(best.language, WESTERN)
    found: str = best.encoding
    return found


def codec_of(label: str) -> str | None:
    """Codec of a charset label: the standard's, or else Python's; None if it is unknown.

    >>> codec_of("ISO-8859-1"), codec_of(" gb2312 "), codec_of("cp437"), codec_of("klingon")
    ('cp1252', 'gb18030', 'cp437', None)
    """
    label = label.strip("\t\n\f\r \"'").lower()
    if label in LABELS:
        return LABELS[label]
    try:
        b"a\xff".decode(label, "replace")  # fails unless it is a codec of text
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return LABELS.get(name.replace("_", "-"), name)  # such as latin-1, or gb_2312_80


def decode(data: bytes, codec: str) -> str:
    r"""Decode bytes by a codec of `codec_of` as browsers do; undefined ones become U+FFFD.

    >>> decode(b"\x93caf\xe9\x94", "cp1252"), decode(b"\x1b$B-!\x1b(B", "iso2022_jp")
    ('“café”', '①')
    """
    if codec == "iso2022_jp":
        return _iso_2022_jp(data)
    if codec in PAIRS:
        text = data.decode(codec, _handler())
    elif codec in LABELS.values() and codec not in MULTIBYTE:
        text, _ = codecs.charmap_decode(data, "replace", _table(codec))
    else:
        text = data.decode(codec, "replace")
    return text.translate(CORRECTED[codec]) if codec in CORRECTED else text


@cache
def _table(codec: str) -> str:
    """Characters of all bytes; what Windows leaves undefined are the controls of ISO 8859."""
    if codec == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(0x100))
    found = (bytes([byte]).decode(codec, "replace") for byte in range(0x100))
    table = [chr(i) if c == "\ufffd" and i < 0xA0 else c for i, c in enumerate(found)]
    if codec == "cp1255":
        table[0xCA] = "\u05ba"
    return "".join(table)


@cache
def _handler() -> str:
    """Name of the error handler that reads what Python's codecs lack."""

    def handle(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        missing, start = _missing(error.encoding), error.start
        one, two = error.object[start : start + 1], error.object[start : start + 2]
        if one in missing or two in missing:
            return missing.get(one) or missing[two], start + (1 if one in missing else 2)
        is_pair = b"\x80" < one < b"\xff" and two[1:] >= b"\x80"
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
        rows = ((0x877A, BIG5_877A), (0x87A1, BIG5_87A1), (0xA3C0, BIG5_A3C0))
        found = {first + i: text for first, row in rows for i, text in enumerate(row)}
        found |= {int(entry[:4], 16): entry[4:] for entry in BIG5.split()}
        return {number.to_bytes(2): text for number, text in found.items()}
    return _vendor_rows() if codec == "euc_jp" else {}


def _vendor_rows() -> dict[bytes, str]:
    """Characters of NEC and IBM in EUC-JP, which Python has in Shift_JIS."""
    found = {}
    for number in range(94 * 94):
        (row, cell), (lead, trail) = divmod(number, 94), divmod(number, 188)
        shifted = bytes([lead + (0x81 if lead < 31 else 0xC1), trail + 0x40 + (trail > 62)])
        text = shifted.decode("cp932", "replace")
        if "\ufffd" not in text:
            found[bytes([row + 0xA1, cell + 0xA1])] = text
    return found


def _iso_2022_jp(data: bytes) -> str:
    first, *others = ESCAPE.split(data)
    pieces = [first.decode("ascii", "replace")]
    for escape, part in zip(others[::2], others[1::2], strict=True):
        if escape == b"(B":
            pieces.append(part.decode("ascii", "replace"))
        elif escape == b"(J":
            pieces.append(part.decode("ascii", "replace").translate(ROMAN))
        elif escape == b"(I":
            pieces.append(part.translate(HIGH_BIT).decode("cp932", "replace"))
        else:
            if escape == b"$(D":  # JIS X 0212
                part = re.sub(rb"[\x21-\x7e]{2}", b"\x8f\\g<0>", part)
            pieces.append(decode(part.translate(HIGH_BIT), "euc_jp"))
    return "".join(pieces)
