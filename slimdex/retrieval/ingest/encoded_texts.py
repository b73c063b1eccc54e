"""Encoded texts: vectors of an addition that is being prepared, in memory or in files.

They are known by the text. So an addition that was interrupted, even by a kill, goes on where it
was: the next one takes over the files that it left, and encodes only the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from secrets import token_hex
from stat import S_ISREG
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.tensors import Arrays, check_tensor, load_tensors, save_tensors

from ..atomic_files import publish
from ..encoders.base import Lengths
from ..store.change import Change
from ..store.work_folder import RESUMABLE, left_work

READ_AT_ONCE = 1024
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""
KIND = "encoded texts"


class EncodedTexts:
    """Vectors of texts by one encoder, and how much of the texts it read.

    The folder contains the files; None to keep few texts in memory.
    """

    def __init__(self, folder: Path | None, spec: dict[str, Any], dim: int) -> None:
        self.spec, self._folder, self._dim = spec, folder, dim
        self._name = sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
        self._files = list[Path | Arrays]()
        self._digests = list[NDArray[np.bytes_]]()  # of each file's texts
        self._sorted: KeptVectors | None = None  # whose rows are places in all files
        self._last: tuple[int, Arrays] | None = None  # the file that was read last
        self._used = set[int]()  # files

    def __len__(self) -> int:
        return sum(map(len, self._digests))

    def take_over(self, index: Path) -> None:
        """Take over the files that interrupted additions to an index have left."""
        assert self._folder is not None
        with left_work(index) as folders:
            for path in [path for folder in folders for path in folder.glob(self._new_name("*"))]:
                try:
                    digests = self._read(path)["digests"]
                except (CorruptError, OSError):
                    with suppress(OSError):
                        path.unlink()
                    continue
                with suppress(OSError):  # those in another user's folder stay there
                    self._files.append(path.rename(self._folder / path.name))
                    self._digests.append(digests.view(DIGEST).ravel())

    def put(self, texts: Sequence[str], vectors: Matrix, lengths: Lengths) -> None:
        """Keep the vectors (n, dim) of texts, and (n, 2) tokens of each and those read.

        In a folder they are durable. They are not known before `look_up_all`.
        """
        digests = np.array(digests_of(texts), dtype=DIGEST)
        arrays: Arrays = {
            "digests": digests.view(np.uint8).reshape(-1, DIGEST.itemsize),
            "vectors": vectors,
            "lengths": lengths,
        }
        file: Path | Arrays = arrays
        if self._folder is not None:
            file, params = (
                self._folder / self._new_name(token_hex(8)),
                {"sha256": _checksum(arrays)},
            )
            publish(file, lambda new: save_tensors(new, KIND, params, arrays))
        self._files.append(file)
        self._digests.append(digests)

    def look_up_all(self) -> None:
        """Look texts up among all of them from now on."""
        self._sorted = None

    def among(self, texts: Sequence[str]) -> tuple[Rows, Matrix, Lengths]:
        """Positions of the known texts, in order, their vectors and lengths."""
        if self._sorted is None and len(self):
            self._sorted = KeptVectors.sorted(np.concatenate(self._digests), np.arange(len(self)))
        known, places = self._sorted.among(texts) if self._sorted else (NO_ROWS, NO_ROWS)
        vectors: Matrix = np.empty((len(known), self._dim), dtype=np.float32)
        lengths: Lengths = np.empty((len(known), 2), dtype=np.int64)
        starts = np.cumsum([0, *map(len, self._digests)])
        file_of = np.searchsorted(starts, places, side="right") - 1
        self._used |= {*file_of.tolist()}
        for number in np.unique(file_of).tolist():
            here, arrays = np.flatnonzero(file_of == number), self._file(number)
            inside = places[here] - starts[number]
            vectors[here], lengths[here] = arrays["vectors"][inside], arrays["lengths"][inside]
        return known, vectors, lengths

    def drop_used(self) -> None:
        """Remove the files of texts that were asked for; the others stay for other additions."""
        for number in self._used:
            if isinstance(file := self._files[number], Path):
                file.unlink(missing_ok=True)

    def _file(self, number: int) -> Arrays:
        if not isinstance(file := self._files[number], Path):
            return file
        if self._last is None or self._last[0] != number:
            self._last = number, self._read(file)
        return self._last[1]

    def _read(self, path: Path) -> Arrays:
        if not S_ISREG(path.lstat().st_mode):
            raise CorruptError(f"{path}: no plain file")
        kind, params, arrays = load_tensors(path)
        if kind != KIND or arrays.keys() != {"digests", "vectors", "lengths"}:
            raise CorruptError(f"{path}: holds {kind!r}; expected {KIND!r}")
        count = len(arrays["digests"])
        check_tensor(path, "digests", arrays["digests"], (count, DIGEST.itemsize), np.uint8)
        check_tensor(path, "vectors", arrays["vectors"], (count, self._dim), np.float32)
        check_tensor(path, "lengths", arrays["lengths"], (count, 2), np.int64)
        if params.get("sha256") != _checksum(arrays):
            raise CorruptError(f"{path}: damaged")
        return arrays

    def _new_name(self, token: str) -> str:
        return f"{RESUMABLE}-{self._name}-{token}.safetensors"


def _checksum(arrays: Arrays) -> str:
    checksum = sha256()
    for name in sorted(arrays):
        checksum.update(np.ascontiguousarray(arrays[name]).data)
    return checksum.hexdigest()


@dataclass(frozen=True)
class KeptVectors:
    """Digests (n,) of texts, sorted, and the row of the vector of each.

    Texts of replaced or deleted documents need not be encoded again: so only the changed passages
    of a document are encoded, and none if it was only moved.
    """

    digests: NDArray[np.bytes_]
    rows: Rows

    @classmethod
    def of(cls, change: Change, gone: Rows = NO_ROWS) -> KeptVectors:
        """Digests of the documents that staged ones replace, and of the documents `gone`."""
        state = change.state
        documents = np.union1d(change.store.replaced_rows(state.rows), gone)
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(change.store.contents_of(documents[part]))
        rows = change.document_rows().all_rows(documents)
        return cls.sorted(np.array(collected, dtype=DIGEST), rows)

    @classmethod
    def sorted(cls, digests: NDArray[np.bytes_], rows: Rows) -> KeptVectors:
        """Digests in any order, and the row of each."""
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], rows[order])

    def among(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Positions of the texts that have a vector, in order, and the row of each."""
        if not len(self.rows):
            return NO_ROWS, NO_ROWS
        requested = np.array(digests_of(texts), dtype=DIGEST)
        places = np.minimum(np.searchsorted(self.digests, requested), len(self.rows) - 1)
        known = np.flatnonzero(self.digests[places] == requested)
        return known, self.rows[places[known]]


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return [blake2b(text, digest_size=DIGEST.itemsize).digest() for text in encoded]
