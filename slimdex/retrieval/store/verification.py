"""Verification: faults of an index's files and numbers, one line each; and verified copies.

A copy is made while others change the index. Files that are open stay readable after they are
removed, so all are opened first. What append-only files have after their committed bytes, nobody
reads in the copy either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, TypeVar

import numpy as np

from slimdex.errors import CorruptError, SlimdexError, shorten
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.append_only import BLOCK_BYTES, AppendOnlyFile
from slimdex.system.atomic_files import FileRecord, check_new, publish, publish_folder
from slimdex.system.index_names import MANIFEST
from slimdex.system.progress import progress

from .derived_files import word_faults
from .document_store import READ_AT_ONCE, DocumentStore
from .engine import Engine
from .manifest import Manifest, append_only_files
from .record import read_record
from .snapshot import Snapshot
from .state import CANT_REBUILD

COPIED_AT_ONCE = 1 << 22
F = TypeVar("F", bound=FileRecord)


def index_faults(snapshot: Snapshot) -> list[str]:
    """List all faults; only those of the log if there are any: others can't be determined then.

    Reads every byte: checksums of derived files and of each block of append-only files; and
    compares the numbers of documents, vectors, codes and moments.
    """
    state = snapshot.state
    new_vectors = None if state.replacement is None else state.replacement.vectors
    return log_faults(snapshot) or [
        *block_faults(snapshot, state.vectors, new_vectors),
        *derived_faults(snapshot),
    ]


def log_faults(snapshot: Snapshot, *, reads_ids: bool = True) -> list[str]:
    """Faults of the log: damaged documents or, if there are none, damaged blocks.

    With `reads_ids`, damaged documents are named by the ids that columns have.
    """
    state = snapshot.state
    try:
        damaged = damaged_documents(snapshot)
    except CorruptError as error:
        return [str(error)]
    ids = ["?"] * len(damaged)
    if damaged and reads_ids:
        with suppress(SlimdexError, OSError):
            ids = snapshot.store.ids_of(np.array(damaged, dtype=np.int64))
    path = snapshot.path / state.log.documents
    return [
        f"{path}: document {shorten(id)} of row {row} is damaged"
        for row, id in zip(damaged, ids, strict=True)
    ] or block_faults(snapshot, state.log.documents, state.log.offsets)


def damaged_documents(snapshot: Snapshot) -> list[int]:
    """First rows of the documents whose records are damaged, including deleted ones.

    Raises `CorruptError` if the log can't be read at all, or rows have no flags: then nothing can
    be repaired.
    """
    flags = block_faults(snapshot, snapshot.state.flags, snapshot.state.deletions)
    try:
        if flags:
            raise CorruptError(flags[0])
        return [row for row, _, record in readable_records(snapshot) if record is None]
    except CorruptError as error:
        raise CorruptError(f"{error}; {CANT_REBUILD}") from error


def readable_records(snapshot: Snapshot) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield first row, number of rows and record of each document, also of deleted ones.

    The record is None if it is damaged. Raises `CorruptError` if the log can't be read at all.
    """
    rows = snapshot.document_rows
    types = [*snapshot.columns.values()]
    documents = rows.first_rows(np.arange(snapshot.state.rows))
    counts = rows.counts_of(documents).tolist()
    records = snapshot.store.log.readable(documents)
    for number, ((row, record), count) in enumerate(zip(records, counts, strict=True)):
        is_whole = record is not None and _is_whole(record, count, types)
        yield row, count, record if is_whole else None
        if number % READ_AT_ONCE == 0:
            progress("reading documents", row, snapshot.state.rows)


def _is_whole(data: bytes, row_count: int, types: Sequence[str]) -> bool:
    """True for a record of a document with so many rows, and with values of columns' types."""
    try:
        record = read_record(data)
        record.stored(types)
    except (ArithmeticError, TypeError, ValueError):
        return False
    return record.row_count == row_count


def derived_faults(snapshot: Snapshot) -> list[str]:
    """Faults of derived files: wrong checksums or, without these, inconsistent contents."""
    state = snapshot.state
    records = [*state.column_files, *state.files.values()]
    faults = [*file_faults(snapshot.path, records).values(), *block_faults(snapshot, state.norms)]
    if state.words:
        faults += word_faults(snapshot.path / state.words, state.lexical_rows)
    if faults or state.settings is None:
        return faults

    # Codes and moments must cover as many rows as the state has.
    try:
        rows = {"codes": len(snapshot.index), "moments": snapshot.moments().n}
    except CorruptError as error:
        return [str(error)]
    for role, expected in {"codes": state.encoded, "moments": snapshot.searchable_count}.items():
        if rows[role] != expected:
            faults.append(f"{state.files[role].name}: {rows[role]} rows; expected {expected}")
    return faults


def file_faults(folder: Path, files: Iterable[F]) -> dict[F, str]:
    """The files that are missing or damaged, with the fault of each."""
    faults = dict[F, str]()
    for file in files:
        try:
            file.check(folder)
        except CorruptError as error:
            faults[file] = str(error)
    return faults


def block_faults(snapshot: Snapshot, *names: str | None) -> list[str]:
    """Faults of append-only files: they can't be read, or blocks have other checksums."""
    faults = list[str]()
    for file in append_only_files(snapshot.path, snapshot.state):
        if file.path.name not in names:
            continue
        try:
            damaged = bad_blocks(snapshot, file)
        except OSError as error:
            faults.append(f"{file.path}: {error.strerror}")
            continue
        for block in damaged:
            first = block * BLOCK_BYTES
            last = min(first + BLOCK_BYTES, file.nbytes) - 1
            faults.append(f"{file.path}: damaged in bytes {first} to {last}")
    return faults


def bad_blocks(snapshot: Snapshot, file: AppendOnlyFile | VectorFile) -> list[int]:
    """Numbers of the blocks whose checksum differs between file and manifest, or is missing."""
    expected = snapshot.manifest.checksums.get(file.path.name, [])
    pairs = zip_longest(file.checksums(), expected)
    return [block for block, (digest, known) in enumerate(pairs) if digest != known]


def copy_index(folder: Path, path: Path) -> Manifest:
    """Copy the committed state of a folder to a new one, and verify it; returns its manifest.

    Takes no lock and needs no permission to write to the index.

    Raises `InputError` if the path exists, and `CorruptError` if a file of the index is damaged or
    missing. Then there is no copy.
    """
    check_new(path)
    while True:
        manifest = Manifest.read_current(folder)
        try:
            publish_folder(path, partial(_copy, folder, manifest))
        except CorruptError:
            # It is not damage if others have replaced the commit and its files meanwhile.
            if manifest == Manifest.read_current(folder):
                raise
        else:
            return manifest


def _copy(folder: Path, manifest: Manifest, new: Path) -> None:
    """Copy the files of a manifest to a new folder, and verify the copy."""
    with ExitStack() as stack:
        # Open all files first: a commit may delete some meanwhile.
        opened = dict[Path, BinaryIO]()
        for name in sorted(manifest.state.file_names):
            path = folder / name
            with suppress(FileNotFoundError):  # then it is missing in the copy too
                for part in path.iterdir() if path.is_dir() else [path]:
                    opened[part] = stack.enter_context(part.open("rb"))
        for done, (path, file) in enumerate(opened.items()):
            progress("copying files", done, len(opened))
            copy = new / path.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            with copy.open("wb") as target:
                copyfileobj(file, target, COPIED_AT_ONCE)

    # The copy is complete once it has a manifest; then it is verified.
    publish(new / MANIFEST, manifest.write)
    with closing(Engine(new)) as engine:
        faults = index_faults(Snapshot(DocumentStore(engine, manifest)))
    if faults:
        raise CorruptError(faults[0].replace(str(new), str(folder)))
