"""Compressed files: gzip and Zstandard, decompressed up to a limit."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

from ...extras import install_command
from .limits import LARGEST_UNPACKED, UnreadableError, size

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = (".gz", ".zst")
WINDOW = 1 << 27
"""Largest Zstandard window in bytes, which bounds memory."""
PIECE = 1 << 12
"""Compressed bytes per step: they can expand 32,000 times."""


def unpacked(data: bytes) -> bytes:
    """Decompress gzip or Zstandard data, recognised by first bytes; return other data unchanged.

    Raises `UnreadableError` if it is broken, or larger than `LARGEST_UNPACKED`.
    """
    try:
        with opened(io.BytesIO(data)) as packed:
            found: bytes = packed.read(LARGEST_UNPACKED + 1)
            packed.read(1)  # detects truncation
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"broken: {error}") from error
    if len(found) > LARGEST_UNPACKED and data[:2] in (GZIP, ZSTD[:2]):
        raise UnreadableError(f"over {size(LARGEST_UNPACKED)} when decompressed")
    return found


def unpacked_head(file: io.BufferedReader, length: int) -> bytes:
    """Read the first decompressed bytes of a file, and rewind it.

    Raises `UnreadableError` if decompression fails, or its library is missing.
    """
    try:
        return bytes(opened(file).read(length))
    except ModuleNotFoundError as error:
        raise UnreadableError(f"requires zstandard: {install_command('files')}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"broken: {error}") from error
    finally:
        file.seek(0)


def opened(file: Any) -> Any:
    """Open a compressed file for reading."""
    head = file.read(4)
    file.seek(0)
    if head.startswith(GZIP):
        return gzip.open(file)
    return _zstandard(file) if head == ZSTD else file


def _zstandard(file: Any) -> Any:
    import zstandard

    class Reader(io.RawIOBase):
        """Reader of consecutive frames; errors are OSError, as gzip's."""

        def __init__(self) -> None:
            self._frame: Any = None
            self._found = memoryview(b"")

        def readable(self) -> bool:
            """Return True."""
            return True

        def readinto(self, buffer: Any) -> int:
            """Read the next bytes."""
            while not self._found:
                packed = file.read(PIECE)
                if not packed and self._frame is not None:
                    raise OSError("truncated")
                if not packed:
                    return 0
                self._found = memoryview(self._unpacked(packed))
            length = min(len(buffer), len(self._found))
            buffer[:length] = self._found[:length]
            self._found = self._found[length:]
            return length

        def _unpacked(self, packed: bytes) -> bytes:
            found = []
            try:
                while packed:
                    if self._frame is None:
                        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW)
                        self._frame = unpacker.decompressobj()
                    found.append(self._frame.decompress(packed))
                    packed = self._frame.unused_data if self._frame.eof else b""
                    self._frame = None if self._frame.eof else self._frame
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            return b"".join(found)

    return io.BufferedReader(Reader(), 1 << 17)
