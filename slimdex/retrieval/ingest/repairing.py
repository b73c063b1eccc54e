"""Repairing: verify an index by its path, and rebuild damaged files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import without
from slimdex.system.locks import WAIT

from ..documents import Document
from ..encoders.base import Encoder
from ..encoders.encoding import encode_all, reporting
from ..index import Index
from ..store.derived_files import with_blocks
from ..store.log import Log, pack
from ..store.record import Record
from ..store.snapshot import Snapshot
from ..store.state import CANT_REBUILD, LogFiles
from ..store.verification import (
    bad_blocks,
    damaged_documents,
    faults_of_derived_files,
    log_faults,
    replacement_faults,
    row_faults,
    vector_faults,
)
from ..store.work_folder import remove_left_work
from . import writer
from .replacing import undo

NO_RECORD = (-1, b"")
FROM_A_COPY = "restore the file from a copy"


def verify(path: str | Path) -> list[str]:
    """Return one line for each fault, naming the file; an empty list if there is none.

    Reads every byte: checksums of derived files, of each block of the log, vectors and norms, and
    of the weights of a transformer on this machine; the numbers of documents, vectors, codes and
    moments must agree.
    """
    with closing(Index.open(Path(path).absolute())) as index:
        return index.faults()


def repair(
    path: str | Path,
    *,
    untrusted: bool = False,
    encode: bool = False,
    model: str | None = None,
    wait: float = WAIT,
    shared_filesystem: bool = False,
) -> list[str]:
    """Rebuild what `verify` finds damaged; return a line for each repaired fault.

    Parameters
    ----------
    encode : encode again the documents whose vectors are missing or damaged, and no others. After
        an interruption, the next call continues.
    model : where the encoder's model is, if it has moved; see `Collection.move_model`.
    untrusted : rebuild all that is derived from documents and vectors without reading it first. A
        FAISS file from others may contain anything, and so may its checksum in the manifest.
    wait : seconds to wait for changes by other processes.
    shared_filesystem : see `Collection.open`.

    Documents whose records are damaged are deleted, and named.

    Raises `CorruptError` if the log can't be read at all, or vectors are damaged and `encode` is
    false.
    """
    folder = Path(path).absolute()
    index = Index.open(folder, wait=wait, shared_filesystem=shared_filesystem)
    with closing(index), index.turn():
        # Documents, which everything else is made from.
        restored = _save_documents(index, untrusted=untrusted)

        # Vectors, which only the encoder can restore.
        if model is not None:
            index.move_model(model)
        lost = vector_faults(index.snapshot)
        if lost and not encode:
            way_out = f"`slimdex repair {index.path} --encode` encodes these documents again"
            if not index.has_encoder:
                way_out = f"vectors given from elsewhere can't be rebuilt: {FROM_A_COPY}"
            raise CorruptError(f"{lost[0]}; {way_out}")
        if lost:
            encode_lost(index)
        damaged = replacement_faults(index.snapshot)
        if damaged:
            undo(index)  # the next run of the migration encodes them from the first
            lost += damaged

        # Derived files.
        if untrusted:
            return restored + lost + _rebuild(index)
        derived = restored + faults_of_derived_files(index.snapshot)
        if derived:
            writer.rebuild(index)
        return lost + derived


def _save_documents(index: Index, *, untrusted: bool) -> list[str]:
    """If the log is damaged, copy the documents that can be read, and delete the others.

    Rows keep their numbers. Returns a message for each fault. In an `untrusted` index, no column is
    read to find the ids of damaged documents.
    """
    if row := row_faults(index.snapshot):
        raise CorruptError(f"{row[0]}; {CANT_REBUILD}")
    faults = [] if untrusted else log_faults(index.snapshot)
    if not faults and not untrusted:
        return []
    with index.change() as change:
        try:
            damaged = damaged_documents(change.base)
        except CorruptError as error:
            raise CorruptError(f"{str(error).partition(';')[0]}; {CANT_REBUILD}") from error
        if not faults and not len(damaged):
            return []
        state = change.next_state()
        files = LogFiles(state.new_name("documents"), state.new_name("offsets"))
        blocks = pack(_readable_records(change.base, set(damaged.tolist())))
        state = with_blocks(Log(index.path, files, 0), state, blocks)
        lost = without(change.base.document_rows.all_rows(damaged), change.base.deleted)
        change.commit(state, delete=lost, undo="never")
    if not untrusted and (left := log_faults(index.snapshot)):
        raise CorruptError(f"{left[0].partition(';')[0]}; {CANT_REBUILD}")
    if untrusted:
        faults = [f"row {row}: a document is damaged" for row in damaged.tolist()]
    how = ": deleted" if len(damaged) else ""
    return [fault.partition(";")[0] + how for fault in faults]


def _readable_records(snapshot: Snapshot, damaged: Collection[int]) -> Iterator[tuple[bytes, int]]:
    """Yield the record and number of rows of each document, an empty one for damaged ones."""
    rows = snapshot.document_rows
    documents = rows.first_rows(np.arange(snapshot.state.rows))
    counts = rows.counts_of(documents).tolist()
    records = snapshot.store.log.readable(documents)
    whole = ((row, record) for row, record in records if row not in damaged)
    next_row, record = next(whole, NO_RECORD)
    for row, count in zip(documents.tolist(), counts, strict=True):
        if row == next_row:
            yield record, count
            next_row, record = next(whole, NO_RECORD)
        else:
            lost = Document("", "", passages=[(0, 0)] * count)
            yield Record(lost, [""] * count).written(), count


def _rebuild(index: Index) -> list[str]:
    """Rebuild all derived files without reading them; return a line for each file that existed."""
    state = index.state
    remove_left_work(index.path)
    writer.rebuild(index, fit_again=True)

    # All other files were derived from these.
    used = {state.vectors, *state.log_names}
    if state.replacement is not None:
        used.add(state.replacement.vectors)
    names = sorted(state.file_names - used)
    return [f"{index.path / name}: untrusted" for name in names]


def encode_lost(index: Index) -> None:
    """Encode the documents whose blocks of vectors are missing or damaged; then rebuild.

    Raises `CorruptError` if the vectors were given.
    """
    if not index.has_encoder:
        raise CorruptError(
            f"{index.path / index.state.vectors}: vectors given from elsewhere can't be "
            f"encoded again; {FROM_A_COPY}"
        )
    encoder = index.encoder
    with index.turn():
        _encode_blocks(index, encoder)
        writer.rebuild(index)


def _encode_blocks(index: Index, encoder: Encoder) -> None:
    """Encode the blocks without a valid checksum, each in a commit.

    A block is durable before it gets its checksum: after an interruption, the next attempt encodes
    the rest.
    """
    snapshot = index.snapshot
    state = snapshot.state
    file = state.vector_file(index.path, 0).preallocate(state.encoded)
    damaged = bad_blocks(snapshot, file)
    report = reporting("encoding", sum(len(file.rows_of_block(block)) for block in damaged))
    for block in damaged:
        # Rows without text have no vector; they are reported as done at once.
        span = file.rows_of_block(block)
        contents = snapshot.store.contents(span.start, span.stop)
        has_text = np.array([*map(bool, contents)])
        vectors = np.zeros((len(span), state.dim), dtype=np.float32)
        texts = [*filter(None, contents)]
        report([""] * (len(span) - len(texts)))
        vectors[has_text], _ = encode_all(encoder, texts, state.dim, report)

        # Write the block, then commit its checksum.
        digest = file.overwrite(block, vectors)
        with index.change() as change:
            change.replace_block(state.vectors, block, digest)
            change.commit()
