"""Head: what readers need of the newest commit, in one small file that they can read at any time.

The catalog is the truth. Each commit writes its head durably before it ends, so a reader sees a
commit of another process by one look at the file's name. If the head is missing or damaged, it is
read from the catalog.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.json_text import READABLE, parsed

from ..atomic_files import HEAD, FileRecord, publish, sync
from ..catalog.passages_table import DocumentRows
from ..catalog.state import State
from ..catalog.store import DocumentStore

DIGEST = hashlib.sha256().digest_size
LENGTH = 8
"""Bytes of the length of the JSON, which follows the digest; sets of rows follow the JSON."""
SETS = ("deleted", "textless", "continued")
"""Sets of rows, a bit for each row, without the zero bytes at the end. The last one contains the
rows of documents after each one's first."""
Undo = Literal["alone", "with the last", "never"]
"""Ways to undo a commit: see `Head.remembered_by`."""
Mark = tuple[int, int, int]
"""Changes with the file: inode, time and size."""


@dataclass(frozen=True, eq=False)
class Head:
    """A committed state, and the rows and columns of its documents.

    Attributes
    ----------
    columns : the user's columns: name -> DuckDB type.
    deleted : rows of deleted documents, in order.
    textless : rows of documents without text, in order.
    document_rows : the documents of rows.
    """

    state: State
    columns: Mapping[str, str]
    deleted: Rows
    textless: Rows
    document_rows: DocumentRows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Head) and self._bytes() == other._bytes()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, store: DocumentStore) -> Head:
        """Read from the catalog.

        Raises `CorruptError` if two documents share a row, or one extends beyond the last row.
        """
        state = store.state()
        rows, deleted = store.passages.rows(state.rows), store.documents.deleted()
        _check_rows(store.database.path, rows, state.rows)
        textless = store.readings.textless()
        return cls(
            state,
            store.columns.seen,
            rows.all_rows(deleted[deleted < state.rows]),
            textless[textless < state.rows],
            rows,
        )

    def followed_by(
        self, store: DocumentStore, state: State, deleted: Rows, restored: Rows
    ) -> Head:
        """The head of the commit that follows; reads only its rows.

        It deletes some rows, and restores some that were deleted.
        """
        first = self.state.rows
        textless = store.readings.textless(first)
        gone = np.union1d(self.deleted, deleted) if len(deleted) else self.deleted
        return Head(
            state,
            store.columns.seen,
            without(gone, restored) if len(restored) else gone,
            np.append(self.textless, textless[textless < state.rows]),
            self.document_rows.followed_by(store.passages.rows(state.rows, first)),
        )

    def remembered_by(
        self, state: State, folder: Path, undo: Undo, is_moved: bool = False
    ) -> State:
        """The state to commit next, with what undoing it needs; this head is written to a file.

        Parameters
        ----------
        undo : "alone"; "with the last" change; or "never", nor the changes before it. A commit that
            changes neither documents nor files is undone with the last change, and one that
            replaces the vectors, or prepares that, never.
        is_moved : True if documents are deleted or come back.
        """
        old, files = self.state, {r: f for r, f in state.files.items() if r != "before"}
        if undo == "never" or _vectors(old) != _vectors(state):
            return replace(state, files=files, kept=[])
        if undo == "with the last" or not (is_moved or _contents(old) != _contents(state)):
            return state
        state = replace(state, generation=max(state.generation, old.generation + 1))
        used = replace(old, files={r: f for r, f in old.files.items() if r != "before"}, lines=None)
        before = self.keep(folder, state.new_name("before"))
        kept = [] if old.settings is None else sorted(used.used_names)
        return replace(state, files=files | {"before": before}, kept=kept)

    @classmethod
    def read(cls, folder: Path, name: str = HEAD) -> Head | None:
        """Read the file, or one written by `keep`; None if it is missing or damaged."""
        with suppress(OSError, CorruptError, KeyError, TypeError, ValueError):
            data = (folder / name).read_bytes()
            if hashlib.sha256(data[DIGEST:]).digest() == data[:DIGEST]:
                return cls._parsed(memoryview(data)[DIGEST:])
        return None

    @classmethod
    def _parsed(cls, data: memoryview) -> Head:
        start = LENGTH + int.from_bytes(data[:LENGTH], "little")
        header = parsed(str(data[LENGTH:start], "utf-8"), READABLE)
        state, columns = State.from_json(header["state"]), header["columns"]
        sets = dict[str, Rows]()
        for name in SETS:
            stop = start + header["bytes"][name]
            sets[name] = _rows_of(data[start:stop], state.rows)
            start = stop
        if not all(isinstance(type_, str) for type_ in columns.values()):
            raise ValueError("expected names of types")
        rows = DocumentRows.of_continued(sets["continued"])
        return cls(state, columns, sets["deleted"], sets["textless"], rows)

    def write(self, folder: Path) -> None:
        """Replace the file durably; without room for it, remove it."""
        try:
            self.keep(folder, HEAD)
            sync(folder)
        except OSError:
            self.remove(folder)

    def keep(self, folder: Path, name: str) -> FileRecord:
        """Write it to a file of this name, which is durable once the folder is synced."""
        body = self._bytes()
        data = hashlib.sha256(body).digest() + body
        return publish(folder / name, lambda path: path.write_bytes(data))

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove the file durably, or a loss of power could bring back an older one."""
        (folder / HEAD).unlink(missing_ok=True)
        sync(folder)

    def _bytes(self) -> bytes:
        row_sets = [self.deleted, self.textless, self.document_rows.continued()]
        sets = [_bits_of(rows) for rows in row_sets]
        header = json.dumps(
            {
                "state": self.state.to_json(),
                "columns": dict(self.columns),
                "bytes": {name: len(bits) for name, bits in zip(SETS, sets, strict=True)},
            }
        ).encode()
        return b"".join([len(header).to_bytes(LENGTH, "little"), header, *sets])


def _vectors(state: State) -> tuple[Any, ...]:
    """The encoder's vectors, their map, and those that will replace them."""
    return state.vectors, state.dim, state.files.get("map"), state.replacement


def _contents(state: State) -> tuple[Any, ...]:
    """Parts of a state that change with documents, settings or files."""
    files = [state.files.get(role) for role in ("moments", "reducer", "rescorer", "codes")]
    return state.rows, state.settings, state.norms, state.words, files


def mark(folder: Path) -> Mark | None:
    """Facts that change when another head is written; None without one."""
    try:
        status = os.stat(folder / HEAD)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _bits_of(rows: Rows) -> bytes:
    """A bit for each row up to the last of these, which are set; they are in order."""
    bits = np.zeros(rows[-1] + 1 if len(rows) else 0, dtype=np.bool_)
    bits[rows] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _rows_of(bits: memoryview, stop: int) -> Rows:
    rows: Rows = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    if len(rows) and rows[-1] >= stop:
        raise ValueError(f"row {rows[-1]}; expected fewer than {stop}")
    return rows


def _check_rows(catalog: Path, rows: DocumentRows, stop: int) -> None:
    next_ones = np.append(rows.firsts[1:], stop)
    if (rows.firsts < 0).any() or (rows.counts > next_ones - rows.firsts).any():
        raise CorruptError(f"{catalog}: passages in rows that others have; expected each once")
