"""Zip archives (DOCX, ODT, PPTX, EPUB), decompressed up to a limit, and their XML."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from .charsets import codec_of
from .decoding import declared_label, decoded
from .limits import LARGEST_UNPACKED, UnreadableError, size

MOST_ENTRIES = 20_000
ENCRYPTED = 0x1
OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of an OLE container, used by older office files and by encrypted ones."""
PROTECTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the stream of an OLE container that holds an encrypted archive."""


class Archive:
    """Entries of an archive; together at most `LARGEST_UNPACKED` bytes are read.

    Names are looked up as office files and books refer to them: an entry is also found by a name
    with another case, percent-encoding or kind of slash, or with "." and "..".

    Raises
    ------
    UnreadableError
        If it is not an archive, or has too many entries.
    """

    def __init__(self, data: bytes) -> None:
        self._left = LARGEST_UNPACKED
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise UnreadableError(_why(data, error)) from error
        if len(self._file.filelist) > MOST_ENTRIES:
            raise UnreadableError(f"over {MOST_ENTRIES:,} entries")
        self._entries = dict[str, zipfile.ZipInfo]()
        for respell in SPELLINGS:
            for entry in reversed(self._file.filelist):  # the last of a name counts
                self._entries.setdefault(respell(entry.filename), entry)

    def __contains__(self, name: str) -> bool:
        return self._entry(name) is not None

    def _entry(self, name: str) -> zipfile.ZipInfo | None:
        spellings = (self._entries.get(respell(name)) for respell in SPELLINGS)
        return next((entry for entry in spellings if entry is not None), None)

    def read(self, name: str) -> bytes:
        """Read an entry; b"" if missing.

        Raises `UnreadableError` if it is encrypted, broken, or exceeds the rest of the limit,
        whatever size it declares.
        """
        entry = self._entry(name)
        if entry is None:
            return b""
        if entry.flag_bits & ENCRYPTED:
            raise UnreadableError("encrypted")
        if entry.file_size > self._left:
            raise UnreadableError(f"over {size(LARGEST_UNPACKED)} when decompressed")
        try:
            with self._file.open(entry) as file:
                found = file.read(self._left + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise UnreadableError(f"broken: {error}") from error
        self._left -= len(found)
        if self._left < 0:
            raise UnreadableError(f"over {size(LARGEST_UNPACKED)} when decompressed")
        return found


def _path(name: str) -> str:
    path = posixpath.join("/", name.replace("\\", "/"))
    return posixpath.normpath(path).lstrip("/").lower()


SPELLINGS: Sequence[Callable[[str], str]] = (str, _path, lambda name: _path(unquote(name)))
"""Functions that make spellings of one name equal, the strictest first."""


def _why(data: bytes, error: Exception) -> str:
    if not data.startswith(OLE):
        return f"broken: {error}"
    return "encrypted" if PROTECTED in data else "a format from before 2007"


def events(data: bytes, target: Any) -> None:
    """Parse XML to events of a target, without expanding entities."""
    from lxml import etree

    if not data:
        return
    label = declared_label(data) or "utf-8"
    if is_legacy := codec_of(label) not in (None, "utf-8"):
        data = decoded(data, label=label).encode("utf-8", "replace")
    options = {"resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": True}
    parser = etree.XMLParser(target=target, encoding="utf-8" if is_legacy else None, **options)
    try:
        parser.feed(data)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise UnreadableError(f"broken: {error.msg}") from error


def local(tag: str) -> str:
    """Return a name without its namespace.

    >>> local("{urn:x}p")
    'p'
    """
    return tag.rpartition("}")[2]


class Element(NamedTuple):
    """Element of an XML file, with its own text on one line."""

    name: str
    attributes: Mapping[str, str]
    text: str


def elements(data: bytes) -> list[Element]:
    """Elements of a file by their ends, with names without a namespace."""
    found, open_ = list[Element](), list[tuple[str, Mapping[str, str], list[str]]]()

    class Target:
        """Handler of a parser's events."""

        def start(self, tag: str, attributes: Mapping[str, str]) -> None:
            open_.append((local(tag), dict(attributes), []))

        def data(self, text: str) -> None:
            if open_:
                open_[-1][2].append(text)

        def end(self, _: str) -> None:
            name, attributes, texts = open_.pop()
            found.append(Element(name, attributes, " ".join("".join(texts).split())))

        def close(self) -> None:
            pass

    events(data, Target())
    return found


def attribute(attributes: Mapping[str, str], name: str) -> str:
    """Value of an attribute in any namespace; "" if missing.

    >>> attribute({"{urn:x}val": "1"}, "val")
    '1'
    """
    return next((value for key, value in attributes.items() if local(key) == name), "")


def joined(found: Sequence[Element], *names: str) -> str:
    """Texts of the first of these elements that is present, joined by commas."""
    texts = ([e.text for e in found if e.name == name and e.text] for name in names)
    return ", ".join(next(filter(None, texts), []))
