"""Journal: what a DuckDB file held where a checkpoint writes over it, to be put back after a crash.

A checkpoint of DuckDB writes new metadata into what is free of its metadata blocks: 256 KiB at a
time, over what is in use, under one checksum. If it ends in the middle of such a write, the file
can't be opened any more. So these blocks and the headers are saved first, as SQLite's rollback
journal does it (https://sqlite.org/atomiccommit.html).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .files import sync

HEADERS = 3 * 4096
"""Bytes before the first block: the main header, and two that checkpoints write in turns."""
DIGEST = hashlib.sha256().digest_size

Images = dict[int, bytes]
"""Bytes by their place in the file."""


@dataclass(frozen=True)
class Journal:
    """A file beside a DuckDB file: its headers and some of its blocks, as they were."""

    database: Path

    @property
    def path(self) -> Path:
        return self.database.with_name(self.database.name + ".journal")

    def save(self, blocks: Sequence[int], block_bytes: int) -> None:
        """Save the headers and some blocks durably, unless those of these headers are saved.

        That is what a checkpoint leaves that failed: the blocks themselves may be damaged by now.
        """
        if any(self._is_of(headers) for headers, _ in self._saved()):
            return
        with self.database.open("rb") as file:
            headers = file.read(HEADERS)
            places = [HEADERS + block * block_bytes for block in blocks]
            images = [os.pread(file.fileno(), block_bytes, place) for place in places]
        body = save(
            {
                "headers": np.frombuffer(headers, np.uint8),
                "places": np.array(places, np.int64),
                "blocks": np.frombuffer(b"".join(images), np.uint8).reshape(-1, block_bytes),
            }
        )
        with self.path.open("wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        sync(self.path)
        sync(self.path.parent)

    def remove(self) -> None:
        """Forget what was saved: the checkpoint has ended."""
        self.path.unlink(missing_ok=True)

    def restore(self) -> bool:
        """Put the blocks back if the headers are those saved: the checkpoint did not end.

        With other headers it did, or was cut while it wrote them: see `restore_headers`.
        """
        for headers, blocks in self._saved():
            if self._is_of(headers):
                self._put_back(blocks)
                return True
        return False

    def restore_headers(self) -> bool:
        """Put everything back, for a file whose headers are damaged; whether there was anything.

        The log is removed when a checkpoint has ended. Without one, what was saved is too old.
        """
        if not self.database.with_name(self.database.name + ".wal").exists():
            return False
        for headers, blocks in self._saved():
            self._put_back(blocks | {0: headers})
            return True
        return False

    def _is_of(self, headers: bytes) -> bool:
        with self.database.open("rb") as file:
            return file.read(HEADERS) == headers

    def _put_back(self, images: Images) -> None:
        with self.database.open("rb") as file:
            changed = {
                place: image
                for place, image in images.items()
                if os.pread(file.fileno(), len(image), place) != image
            }
        if changed:
            with self.database.open("rb+") as file:
                for place, image in changed.items():
                    os.pwrite(file.fileno(), image, place)
            sync(self.database)

    def _saved(self) -> Iterator[tuple[bytes, Images]]:
        """Headers and blocks; nothing if there is no journal, or one that was cut itself."""
        if not self.path.exists():
            return
        most = self.database.stat().st_size
        if self.path.stat().st_size > 2 * most:  # no block is saved twice
            return
        data = memoryview(self.path.read_bytes())
        if hashlib.sha256(data[DIGEST:]).digest() != data[:DIGEST]:
            return
        try:
            saved = load(bytes(data[DIGEST:]))
            places, blocks = saved["places"].tolist(), saved["blocks"]
            headers = saved["headers"].tobytes()
        except (SafetensorError, KeyError):  # a stranger's, with a checksum of its own
            return
        images = {place: block.tobytes() for place, block in zip(places, blocks, strict=True)}
        if all(0 <= place <= most - len(image) for place, image in images.items()):
            yield headers, images
