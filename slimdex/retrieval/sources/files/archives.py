"""Zip archives (DOCX, ODT, PPTX, EPUB), decompressed up to a limit, and their XML."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

from .limits import LARGEST_UNPACKED, UnreadableError, size

MOST_ENTRIES = 20_000
ENCRYPTED = 0x1


class Archive:
    """Entries of an archive; together at most `LARGEST_UNPACKED` bytes are read.

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

    def __contains__(self, name: str) -> bool:
        try:
            self._file.getinfo(name)
        except KeyError:
            return False
        return True

    def read(self, name: str) -> bytes:
        """Read an entry; b"" if missing.

        Raises `UnreadableError` if it is encrypted, broken, or exceeds the rest of the limit,
        whatever size it declares.
        """
        if name not in self:
            return b""
        entry = self._file.getinfo(name)
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


def _why(data: bytes, error: Exception) -> str:
    old = data.startswith(
        b"\xd0\xcf\x11\xe0"
    )  # OLE container, used by older and by encrypted files
    return "encrypted, or a format from before 2007" if old else f"broken: {error}"


def events(data: bytes, target: Any) -> None:
    """Parse XML to events of a target, without expanding entities."""
    from lxml import etree

    if not data:
        return
    parser = etree.XMLParser(
        target=target, resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True
    )
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


class Fields:
    """Texts of XML elements by name, joined by commas."""

    def __init__(self, data: bytes) -> None:
        self.found: dict[str, list[str]] = {}
        self._open: list[list[str]] = []
        events(data, self)

    def start(self, tag: str, attributes: Any) -> None:
        """Handle the start of an element."""
        self._open.append([])

    def data(self, text: str) -> None:
        """Handle text."""
        if self._open:
            self._open[-1].append(text)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        if text := " ".join("".join(self._open.pop()).split()):
            self.found.setdefault(local(tag), []).append(text)

    def close(self) -> None:
        """Handle the end of the document."""

    def text(self, *names: str) -> str:
        """Return the first of these elements that is present."""
        return next((", ".join(self.found[n]) for n in names if n in self.found), "")
