"""Protection against a crash between a commit and the end of the checkpoint after it.

A DuckDB checkpoint writes new metadata into free metadata blocks. But it writes 256 KiB at a time,
under one checksum, and so overwrites blocks in use. A crash in the middle makes the file
unreadable. So these blocks and the headers are saved first, like in SQLite's rollback journal
(https://sqlite.org/atomiccommit.html).

DuckDB also accepts a log whose end is missing, and refuses one whose end is torn. So the journal
states the committed length of the log and the rest is discarded: writing the journal is the commit.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from slimdex.indexes.errors import CorruptError

from ..atomic_files import publish, sync

HEADERS = 3 * 4096
"""Bytes before the first block: the main header, and two that checkpoints write alternately."""
DIGEST = hashlib.sha256().digest_size
Images = dict[int, bytes]
"""Bytes by their offset in the file."""


@dataclass(frozen=True)
class Saved:
    """Contents of a journal.

    Attributes
    ----------
    log : SHA-256 of the committed log.
    log_bytes : its length.
    """

    headers: bytes
    blocks: Images
    log: bytes
    log_bytes: int


class Journal:
    """A file beside a DuckDB file that holds earlier versions of its headers and some blocks."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.log = database.with_name(database.name + ".wal")
        self.path = database.with_name(database.name + ".journal")
        self._last: Saved | None = None

    @property
    def is_of_log(self) -> bool:
        """True if a log exists and the blocks that its checkpoint will overwrite are saved."""
        return self._last is not None and self.log.exists()

    def save(self, file: int, blocks: Sequence[int], block_bytes: int) -> None:
        """Durably save the headers, some blocks and the log's length, before a checkpoint.

        Blocks already saved for the same headers are kept: a failed checkpoint may have damaged
        those in the file.

        `file` is a descriptor of DuckDB's file: opening and closing another descriptor would
        release DuckDB's lock, by the rules of POSIX.
        """
        headers = _read_at(file, HEADERS, 0)
        if self._last is not None and self._last.headers == headers:
            images = self._last.blocks
        else:
            places = [HEADERS + block * block_bytes for block in blocks]
            read = {place: _read_at(file, block_bytes, place) for place in places}
            images = {place: image for place, image in read.items() if len(image) == block_bytes}
        length = self.log.stat().st_size
        saved = Saved(headers, images, self._log_digest(length), length)
        body = save(
            {
                "headers": np.frombuffer(headers, np.uint8),
                "places": np.array(list(images), np.int64),
                "blocks": np.frombuffer(b"".join(images.values()), np.uint8),
                "log": np.frombuffer(saved.log, np.uint8),
                "log_bytes": np.array([length], np.int64),
            }
        )
        publish(self.path, lambda path: path.write_bytes(hashlib.sha256(body).digest() + body))
        sync(self.path.parent)
        self._last = saved

    def remove(self) -> None:
        """Remove the journal if the checkpoint has ended: then no log exists."""
        if not self.log.exists():
            self._last = None
            self.path.unlink(missing_ok=True)

    def restore(self) -> None:
        """Restore the committed file and log; DuckDB must not have them open.

        If the headers equal those saved, the last checkpoint did not end. Otherwise it ended, or
        was interrupted while writing them: see `restore_headers`.

        Raises `CorruptError` if the journal or the log is not the committed one.
        """
        self._last = None
        saved = self._saved()
        if saved is None:
            self._cut_log(0)
        elif self._headers() == saved.headers:
            if not self._has_log_of(saved):
                raise CorruptError(f"{self.log}: damaged; expected {saved.log_bytes} bytes or more")
            self._cut_log(saved.log_bytes)
            self._put_back(saved.blocks)
        elif not self._has_log_of(saved):  # the journal is of an earlier log
            self._cut_log(0)

    def restore_headers(self) -> bool:
        """Restore the file, whose headers DuckDB reports as damaged; return True if possible."""
        saved = self._saved()
        if saved is None or not self._has_log_of(saved) or self._headers() == saved.headers:
            return False
        self._put_back({0: saved.headers})
        self.restore()
        return True

    def _cut_log(self, length: int) -> None:
        if self.log.exists() and self.log.stat().st_size > length:
            if length:
                os.truncate(self.log, length)
                sync(self.log)
            else:
                self.log.unlink()
                sync(self.log.parent)

    def _has_log_of(self, saved: Saved) -> bool:
        with suppress(FileNotFoundError):
            return self._log_digest(saved.log_bytes) == saved.log
        return False

    def _log_digest(self, length: int) -> bytes:
        checksum = hashlib.sha256()
        with self.log.open("rb") as file:
            while length > 0 and (data := file.read(min(length, 1 << 20))):
                checksum.update(data)
                length -= len(data)
        return checksum.digest()

    def _headers(self) -> bytes:
        with self._database.open("rb") as file:
            return file.read(HEADERS)

    def _put_back(self, images: Images) -> None:
        with self._database.open("rb") as file:
            changed = {
                place: image
                for place, image in images.items()
                if _read_at(file.fileno(), len(image), place) != image
            }
        if changed:
            with self._database.open("rb+") as file:
                for place, image in changed.items():
                    file.seek(place)
                    file.write(image)
            sync(self._database)

    def _saved(self) -> Saved | None:
        """Read the journal; None if missing or obsolete.

        Raises `CorruptError` if it is damaged and a log exists.
        """
        most = self._database.stat().st_size
        try:
            if self.path.stat().st_size <= 2 * most:  # no block is saved twice
                data = memoryview(self.path.read_bytes())
                if hashlib.sha256(data[DIGEST:]).digest() == data[:DIGEST]:
                    return _parsed(bytes(data[DIGEST:]), most)
        except FileNotFoundError:
            return None
        except (SafetensorError, KeyError, ValueError):  # forged, with a valid checksum
            pass
        if self.log.exists():
            raise CorruptError(f"{self.path}: damaged; expected what {self.log.name} is a part of")
        return None


def _read_at(file: int, count: int, place: int) -> bytes:
    """Read from a place in a descriptor's file; Windows has no `os.pread`."""
    os.lseek(file, place, os.SEEK_SET)
    return os.read(file, count)


def _parsed(body: bytes, most: int) -> Saved:
    """Parse a journal for a file of `most` bytes; raise `ValueError` if it can't belong to it."""
    arrays = load(body)
    places = np.frombuffer(arrays["places"].tobytes(), np.int64).tolist()
    headers, blocks = arrays["headers"].tobytes(), arrays["blocks"].tobytes()
    (log_bytes,) = np.frombuffer(arrays["log_bytes"].tobytes(), np.int64).tolist()
    size = len(blocks) // max(len(places), 1)
    if len(headers) != HEADERS or any(not 0 <= place <= most - size for place in places):
        raise ValueError("headers or places of another file")
    images = {place: blocks[n * size : (n + 1) * size] for n, place in enumerate(places)}
    return Saved(headers, images, arrays["log"].tobytes(), log_bytes)
