"""Compressed files: gzip and Zstandard, unpacked no further than a limit."""

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
"""Bytes that Zstandard may look back, and so hold in memory."""
PIECE = 1 << 12
"""Packed bytes that are unpacked at a time: they can become 32,000 times as many."""


def unpacked(data: bytes) -> bytes:
    """What gzip or Zstandard have packed, by the first bytes; anything else as it is.

    Raises
    ------
    UnreadableError
        If it is broken, or becomes larger than `LARGEST_UNPACKED`.
    """
    try:
        with opened(io.BytesIO(data)) as packed:
            found: bytes = packed.read(LARGEST_UNPACKED + 1)
            packed.read(1)  # which is where a file that was cut off is found to be
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"broken: {error}") from error
    if len(found) > LARGEST_UNPACKED and data[:2] in (GZIP, ZSTD[:2]):
        raise UnreadableError(f"over {size(LARGEST_UNPACKED)} when unpacked")
    return found


def unpacked_head(file: io.BufferedReader, length: int) -> bytes:
    """The first bytes of what a file packs; it is read from its beginning again afterwards.

    Raises
    ------
    UnreadableError
        If they can't be unpacked, or a library for that is missing.
    """
    try:
        return bytes(opened(file).read(length))
    except ModuleNotFoundError as error:
        raise UnreadableError(f"needs zstandard: {install_command('files')}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"broken: {error}") from error
    finally:
        file.seek(0)


def opened(file: Any) -> Any:
    """A file to be read as if it were not packed."""
    head = file.read(4)
    file.seek(0)
    if head.startswith(GZIP):
        return gzip.open(file)
    return _zstandard(file) if head == ZSTD else file


def _zstandard(file: Any) -> Any:
    import zstandard

    class Reader(io.RawIOBase):
        """Frames one after the other; what is wrong with them is an OSError, as gzip's."""

        def __init__(self) -> None:
            self._frame: Any = None
            self._found = memoryview(b"")

        def readable(self) -> bool:
            """It is."""
            return True

        def readinto(self, buffer: Any) -> int:
            """The next bytes."""
            while not self._found:
                packed = file.read(PIECE)
                if not packed and self._frame is not None:
                    raise OSError("it ends in the middle")
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
