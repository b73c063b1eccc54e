"""Compressed files and zip archives (DOCX, ODT, PPTX, EPUB), decompressed up to a limit."""

from __future__ import annotations

import gzip
import io
import posixpath
import sys
import zipfile
import zlib
from contextlib import suppress
from importlib import import_module
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote

from slimdex.system.extras import install_command

from .limits import LARGEST_UNPACKED, UnreadableError, size

MOST_ENTRIES = 20_000
ENCRYPTED = 0x1
OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of an OLE container, used by older office files and by encrypted ones."""
PROTECTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the stream of an OLE container that holds an encrypted archive."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ENDINGS = (".gz", ".zst")
LARGEST_WINDOW = 27
"""Largest Zstandard window as a power of two in bytes, which bounds memory."""


class Archive:
    """Entries of an archive; together at most `LARGEST_UNPACKED` bytes are read.

    Names are looked up as office files and books refer to them: an entry is also found by a name
    with another case, percent-encoding, kind of slash or form of accents, or with "." and "..".

    Raises `UnreadableError` if it is not an archive, or has too many entries.
    """

    def __init__(self, data: bytes) -> None:
        self._left = LARGEST_UNPACKED
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise UnreadableError(why_broken(data, error)) from error
        if len(self._file.filelist) > MOST_ENTRIES:
            raise UnreadableError(f"over {MOST_ENTRIES:,} entries")
        # Its own name finds an entry before the lenient spelling of another's.
        exact = {entry.filename: entry for entry in self._file.filelist}
        self._entries = {_spelling(name): entry for name, entry in exact.items()} | exact

    def __contains__(self, name: str) -> bool:
        return self._entry(name) is not None

    def _entry(self, name: str) -> zipfile.ZipInfo | None:
        return self._entries.get(name) or self._entries.get(_spelling(name))

    def read(self, name: str) -> bytes:
        """Read an entry; b"" if missing.

        Raises `UnreadableError` if it is encrypted, broken, or exceeds the rest of the limit.
        """
        entry = self._entry(name)
        if entry is None:
            return b""
        if entry.flag_bits & ENCRYPTED:
            raise UnreadableError("encrypted")
        try:
            with self._file.open(entry) as file:
                content = file.read(self._left + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise UnreadableError(f"broken: {error}") from error
        self._left -= len(content)
        if self._left < 0:
            raise UnreadableError(f"over {size(LARGEST_UNPACKED)} when decompressed")
        return content


def _spelling(name: str) -> str:
    """Normalize a name: its case, escapes, slashes and accents, and without "." and ".."."""
    name = unquote(name)
    with suppress(UnicodeError):  # UTF-8 that the archive doesn't declare
        name = name.encode("cp437").decode()
    path = posixpath.join("/", normalize("NFC", name).replace("\\", "/"))
    return posixpath.normpath(path).lstrip("/").lower()


def why_broken(data: bytes, error: Exception) -> str:
    """Say why data is no ZIP archive."""
    if not data.startswith(OLE):
        return f"broken: {error}"
    return "encrypted" if PROTECTED in data else "a format from before 2007"


def open_packed(file: Any) -> Any:
    """Open a file for reading, decompressed if its first bytes are those of gzip or Zstandard."""
    head = file.read(4)
    file.seek(0)
    if head.startswith(GZIP):
        return gzip.open(file)
    if head != ZSTD:
        return file
    zstd = zstd_library()
    most = {zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW}
    return zstd.ZstdFile(file, options=most)


def zstd_library() -> Any:
    """Python's module for Zstandard, or before 3.14 its backport.

    Raises `UnreadableError` if it is not installed.
    """
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd")
    try:
        return import_module("backports.zstd")
    except ModuleNotFoundError as error:
        raise UnreadableError(f"requires backports.zstd: {install_command('files')}") from error
