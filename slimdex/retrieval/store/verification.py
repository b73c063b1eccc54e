"""Verification: faults of an index's files and numbers, one line each; and verified copies.

A copy is made while others change the index. Files that are open stay readable after they are
removed, so all are opened first. What append-only files have after their committed bytes, nobody
reads in the copy either.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from shutil import copyfileobj

import numpy as np

from slimdex.errors import CorruptError, InUseError, SlimdexError, shorten
from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.append_only import BLOCK_BYTES, AppendOnlyFile
from slimdex.system.atomic_files import check_new, publish, publish_folder, remove
from slimdex.system.index_names import MANIFEST
from slimdex.system.progress import progress

from ..lexical.segment_folder import LIST, read_list, segment_files
from .derived_files import word_faults
from .document_store import READ_AT_ONCE
from .engine import Engine
from .manifest import Manifest
from .record import read_record
from .row_flags import flag_files
from .snapshot import Snapshot
from .state import ColumnFile, State

TRIES = 20
"""Attempts to open all files of a state before others commit the next one: each takes a few
milliseconds."""
COPIED_AT_ONCE = 1 << 22


def index_faults(snapshot: Snapshot) -> list[str]:
    """List all faults; only those of the log if there are any: others can't be determined then.

    Reads every byte: checksums of derived files and of each block of append-only files; and
    compares the numbers of documents, vectors, codes and moments.
    """
    return log_faults(snapshot) or [
        *vector_faults(snapshot),
        *replacement_faults(snapshot),
        *faults_of_derived_files(snapshot),
    ]


def vector_faults(snapshot: Snapshot) -> list[str]:
    """Faults of the vector file, block by block."""
    return _attempt(lambda: _block_faults(snapshot, snapshot.vectors()))


def replacement_faults(snapshot: Snapshot) -> list[str]:
    """Faults of the vectors that are to replace the others, block by block."""
    new = snapshot.state.replacement
    if new is None:
        return []
    return _attempt(lambda: _block_faults(snapshot, new.vector_file(snapshot.path)))


def log_faults(snapshot: Snapshot) -> list[str]:
    """Faults of the log: damaged bytes, missing documents."""
    if faults := row_faults(snapshot):  # without rows, documents can't be read
        return faults
    try:
        files = snapshot.store.log.files
        damaged = damaged_documents(snapshot)
    except CorruptError as error:
        return [str(error)]
    faults = list[str]()
    if len(damaged):
        path = files[0].path
        for row, id in zip(damaged.tolist(), _ids(snapshot, damaged), strict=True):
            faults.append(f"{path}: document {shorten(id)} of row {row} is damaged")
    for file in files if not faults else ():
        faults += _block_faults(snapshot, file)
    return faults


def row_faults(snapshot: Snapshot) -> list[str]:
    """Faults of the files of row flags."""
    faults = list[str]()
    for file in flag_files(snapshot.path, snapshot.state):
        faults += _block_faults(snapshot, file) if file.nbytes else []
    return faults


def _ids(snapshot: Snapshot, documents: Rows) -> list[str]:
    """Ids of documents by their first rows, from the columns; "?" for those that have none."""
    with suppress(SlimdexError, OSError):
        return snapshot.store.ids_of(documents)
    return ["?"] * len(documents)


def damaged_documents(snapshot: Snapshot) -> Rows:
    """First rows of the documents whose records are damaged, including deleted ones.

    Raises `CorruptError` if the log can't be read at all.
    """
    store = snapshot.store
    rows = snapshot.document_rows
    types = [*snapshot.columns.values()]
    documents = rows.first_rows(np.arange(snapshot.state.rows))
    read = list[int]()
    counts = list[int]()
    for row, data in store.log.readable(documents):
        with suppress(ArithmeticError, TypeError, ValueError):
            record = read_record(data)
            record.stored(types)
            counts.append(record.row_count)
            read.append(row)
        if len(read) % READ_AT_ONCE == 0:
            progress("reading documents", row, snapshot.state.rows)

    # Each must have as many passages as the manifest says.
    whole = np.array(read, dtype=np.int64)
    whole = whole[rows.counts_of(whole) == np.array(counts, dtype=np.int64)]
    return without(documents, whole)


def damaged_columns(snapshot: Snapshot) -> dict[ColumnFile, str]:
    """The files of columns that are missing or damaged, with the fault of each."""
    faults = dict[ColumnFile, str]()
    for file in snapshot.state.column_files:
        for fault in _attempt(partial(file.check, snapshot.path)):
            faults[file] = fault
    return faults


def faults_of_derived_files(snapshot: Snapshot) -> list[str]:
    """Faults of derived files: wrong checksums or, without these, inconsistent contents."""
    state = snapshot.state
    folder = snapshot.path
    faults = list[str]()

    # Every byte of each file.
    faults += damaged_columns(snapshot).values()
    for record in state.files.values():
        faults += _attempt(partial(record.check, folder))
    if state.norms:
        norms = partial(VectorFile, folder / state.norms, 1, state.encoded, FLOAT32)
        faults += _attempt(lambda: _block_faults(snapshot, norms()))
    if state.words:
        faults += word_faults(folder / state.words, state.lexical_rows)
    if faults or state.settings is None:
        return faults
    return _attempt(lambda: _check_numbers(snapshot))


def _check_numbers(snapshot: Snapshot) -> None:
    """Raise `CorruptError` unless codes and moments cover as many rows as the state has."""
    state = snapshot.state
    index = snapshot.index
    moments = snapshot.moments()
    if len(index) != state.encoded:
        name = state.files["codes"].name
        raise CorruptError(f"{name}: {len(index)} rows; expected at most {state.encoded}")
    expected = snapshot.searchable_count
    if moments.n != expected:
        name = state.files["moments"].name
        raise CorruptError(f"{name}: {moments.n} rows; expected {expected}")


def _block_faults(snapshot: Snapshot, file: AppendOnlyFile | VectorFile) -> list[str]:
    """Faults of an append-only file: it can't be read, or blocks have other checksums."""
    try:
        damaged = bad_blocks(snapshot, file)
    except OSError as error:
        return [f"{file.path}: {error}"]
    faults = []
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


def _attempt(check: Callable[[], list[str] | None]) -> list[str]:
    """The faults that a check returns, or the message of its `CorruptError`."""
    try:
        return check() or []
    except CorruptError as error:
        return [str(error)]


def copy_index(folder: Path, path: Path) -> Manifest:
    """Copy the committed state of a folder to a new one, and verify it; returns its manifest.

    Takes no lock and needs no permission to write to the index.

    Raises `InputError` if the path exists, `CorruptError` if a file of the index is damaged or
    missing, and `InUseError` if others change it faster than its files can be opened. Then there is
    no copy.
    """
    check_new(path)
    return publish_folder(path, lambda new: _copy_newest(folder, new))


def _copy_newest(folder: Path, new: Path) -> Manifest:
    """Copy the committed state of a folder to a new one; try again if others commit meanwhile."""
    for _ in range(TRIES):
        manifest = Manifest.read_current(folder)
        try:
            _copy(folder, manifest, new)
            return manifest
        except (CorruptError, FileNotFoundError) as error:
            # It is not damage if others have replaced the commit and its files meanwhile.
            if manifest == Manifest.read_current(folder):
                missing = f"{getattr(error, 'filename', None)}: missing"
                message = str(error) if isinstance(error, CorruptError) else missing
                raise CorruptError(message.replace(str(new), str(folder))) from error
            for part in new.iterdir():
                remove(part)
    raise InUseError(f"{folder}: others changed it {TRIES} times; try again later")


def _copy(folder: Path, manifest: Manifest, new: Path) -> None:
    """Copy the files of a manifest; raises `CorruptError` or `OSError` if one is not as it says."""
    with ExitStack() as stack:
        # Open all files first: a commit may delete some meanwhile.
        files = {}
        for name in _names(folder, manifest.state):
            files[name] = stack.enter_context((folder / name).open("rb"))
        for done, (name, file) in enumerate(files.items()):
            progress("copying files", done, len(files))
            (new / name).parent.mkdir(exist_ok=True)
            with (new / name).open("wb") as target:
                copyfileobj(file, target, COPIED_AT_ONCE)

    # The copy is complete once it has a manifest; then it is verified.
    publish(new / MANIFEST, manifest.write)
    with closing(Engine(new)) as engine:
        faults = index_faults(Snapshot.of(engine, Manifest.read(new)))
        if faults:
            raise CorruptError(faults[0])


def _names(folder: Path, state: State) -> list[str]:
    """The files of a state, and those in its folders."""
    names = list[str]()
    for name in sorted(state.file_names):
        path = folder / name
        if path.is_dir():
            names += [f"{name}/{part}" for part in [LIST, *segment_files(read_list(path), path)]]
        else:
            names.append(name)
    return names
