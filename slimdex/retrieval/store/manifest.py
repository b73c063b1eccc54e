"""Manifest: a committed state in one small file, whose replacement is the commit.

It has the state, the user's columns and the checksums of the blocks of append-only files. All other
files are written and made durable before, and what no manifest names does not exist. A reader sees
the commit of another process by one look at the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from secrets import token_hex

from slimdex.errors import CorruptError, InputError, SlimdexError, UnreadableError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.append_only import AppendOnlyFile
from slimdex.system.index_names import MANIFEST
from slimdex.system.json_text import READABLE, parse_json

from ..column_types import is_type
from .log import log_files
from .passages import DocumentRows
from .row_flags import NO_ROW_SETS, RowSets, flag_files, read_row_sets
from .state import FORMAT, State

DIGEST = hashlib.sha256().digest_size
COMMIT = 8
MOST_COMMITS = 512
"""Hexadecimal digits of a commit's random name, and the most names that a manifest keeps. Readers
of a commit older than these reload every file."""
COMMITS = re.compile(rf"([0-9a-f]{{{COMMIT}}})*")
NO_CHECKSUM = 2 * DIGEST * "0"
"""Of a block whose checksum is not known."""
CHECKSUM = re.compile(rf"[0-9a-f]{{{2 * DIGEST}}}")
Checksums = Mapping[str, Sequence[str]]
"""Name of an append-only file -> SHA-256 of each block, in hexadecimal."""


def append_only_files(folder: Path, state: State) -> list[AppendOnlyFile]:
    """The files whose blocks have checksums in the manifest, with their committed sizes."""
    files = list[AppendOnlyFile]()
    if state.norms:
        files.append(AppendOnlyFile(folder / state.norms, state.encoded * FLOAT32.dtype.itemsize))
    for each in filter(None, (state, state.replaced())):
        vectors = each.vector_file(folder, 0)
        files.append(AppendOnlyFile(vectors.path, each.encoded * vectors.row_bytes))
    return [*files, *log_files(folder, state.log), *flag_files(folder, state)]


@dataclass(frozen=True, eq=False)
class Manifest:
    """A committed state, and the rows and columns of its documents.

    Attributes
    ----------
    columns : the user's columns: name -> type, of `column_types`.
    row_sets : deleted rows, rows without text, and documents of several rows.
    commits : random names of this commit and those before it, oldest first. Numbers and names of
        files occur again once a folder is restored from a copy, and with other contents.
    """

    state: State
    columns: Mapping[str, str]
    row_sets: RowSets = NO_ROW_SETS
    checksums: Checksums = field(default_factory=dict)
    commits: str = ""

    def __eq__(self, other: object) -> bool:
        """True if both are the same commit, whose name nothing else has."""
        return isinstance(other, Manifest) and self._commit == other._commit

    __hash__ = None  # type: ignore[assignment]

    @property
    def deleted(self) -> Rows:
        """Rows of deleted documents, in order."""
        return self.row_sets.deleted

    @property
    def textless(self) -> Rows:
        """Rows of documents without text, in order."""
        return self.row_sets.textless

    @property
    def document_rows(self) -> DocumentRows:
        """Documents that have several rows."""
        return self.row_sets.documents

    def with_new_name(self, before: str = "") -> Manifest:
        """With a new random name, after those of the commits before."""
        commits = before + token_hex(COMMIT // 2)
        return replace(self, commits=commits[-COMMIT * MOST_COMMITS :])

    @property
    def _commit(self) -> tuple[int, str]:
        """Number and name of the commit."""
        return self.state.version, self.commits[-COMMIT:]

    def follows(self, older: Manifest) -> bool:
        """True if this is the same as an older commit or descends from it.

        If so, what was read from the older one is still valid. Also false if that one is so old
        that its name is no longer known.
        """
        version, name = older._commit
        return bool(name) and name == self._name_of(version)

    def replaces(self, other: Manifest) -> bool:
        """True if this certainly doesn't descend from another commit: a copy was restored."""
        version, name = other._commit
        return self.state.version < version or self._name_of(version) not in ("", name)

    def keeps_rows_of(self, older: Manifest) -> bool:
        """True unless rows of an older commit have other numbers or vectors in this one."""
        return not self.replaces(older) and self.state.epoch == older.state.epoch

    def _name_of(self, version: int) -> str:
        """Name of the commit with this version number; "" if `commits` does not have it."""
        # The last name belongs to this version, the one before it to the previous version.
        stop = len(self.commits) - COMMIT * (self.state.version - version)
        if not 0 < stop <= len(self.commits):
            return ""
        return self.commits[:stop][-COMMIT:]

    @classmethod
    def read(cls, folder: Path, before: Manifest | None = None) -> Manifest:
        """Read the file of an index's folder.

        Of the rows, only what `before`, an earlier manifest, lacks is read. Raises
        `OSError` if the file is missing, `CorruptError` if it is damaged, and `InputError` if its
        format is newer.
        """
        path = folder / MANIFEST
        data = path.read_bytes()
        if hashlib.sha256(data[DIGEST:]).digest() != data[:DIGEST]:
            raise CorruptError(f"{path}: damaged; expected the checksum at its beginning")
        try:
            return cls._parse(memoryview(data)[DIGEST:], path, before)
        except SlimdexError:
            raise
        except FileNotFoundError as error:  # its flags of rows
            if path.read_bytes() != data:  # others have committed, and removed that
                return cls.read(folder, before)
            raise CorruptError(f"{error.filename}: missing; restore it from a copy") from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # not ours
            raise CorruptError(f"{path}: {' '.join(str(error).split())}") from error

    @classmethod
    def _parse(cls, data: memoryview, path: Path, before: Manifest | None) -> Manifest:
        """Parse what `write` writes; raises various errors if it is invalid: see `read`."""
        # Check the format first: everything else may differ in another one.
        header = parse_json(str(data, "utf-8"), READABLE)
        format_ = header["format"]
        if not isinstance(format_, int) or format_ < FORMAT:
            raise ValueError(f"format {format_!r}; expected {FORMAT}")
        if format_ > FORMAT:
            raise InputError(
                f"{path}: format {format_}; expected {FORMAT} (made by a newer slimdex)"
            )
        state = State.from_json(header["state"])

        # Columns, checksums and names of commits.
        columns = header["columns"]
        checksums = header["checksums"]
        if not all(map(is_type, columns.values())):
            raise ValueError("expected types of columns")
        "".join(columns).encode()  # a ValueError for half a character
        if not all(map(CHECKSUM.fullmatch, chain(*checksums.values()))):
            raise ValueError("expected checksums of blocks")
        commits = header["commits"]
        if not COMMITS.fullmatch(commits):
            raise ValueError("expected names of commits")
        manifest = cls(state, columns, checksums=checksums, commits=commits)

        # What was read of an earlier commit is still valid, unless a copy was restored since.
        known = None
        if before is not None and manifest.follows(before):
            known = before.state, before.row_sets
        return replace(manifest, row_sets=read_row_sets(path.parent, state, known))

    @classmethod
    def read_current(cls, folder: Path, before: Manifest | None = None) -> Manifest:
        """Read the committed one; raises `UnreadableError` if it can't be read at the moment."""
        try:
            return cls.read(folder, before)
        except OSError as error:
            raise UnreadableError(f"{folder / MANIFEST}: {error.strerror or error}") from error

    def check(self, file: VectorFile) -> None:
        """Raise `CorruptError` if a block of rows is damaged."""
        if file.checksums() != self.checksums.get(file.path.name, []):
            raise CorruptError(f"{file.path}: damaged; see `slimdex verify`")

    def write(self, path: Path) -> None:
        """Write it to a file; raises `CorruptError` if no reader would accept its state."""
        self.state.check()
        header = {
            "format": FORMAT,
            "state": self.state.to_json(),
            "columns": dict(self.columns),
            "checksums": dict(self.checksums),
            "commits": self.commits,
        }
        body = json.dumps(header).encode()
        path.write_bytes(hashlib.sha256(body).digest() + body)


def mark(folder: Path) -> tuple[int, int, int] | None:
    """Facts about the manifest's file that change when it is replaced; None if it is missing."""
    try:
        status = os.stat(folder / MANIFEST)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
