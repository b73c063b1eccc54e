"""Repairing: verify an index by its path, and rebuild damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import without
from slimdex.system.locks import WAIT

from ..documents import Document
from ..encoders.encoding import encode_texts
from ..index import Index
from ..store.derived_files import with_blocks
from ..store.log import Log, pack
from ..store.record import Record
from ..store.snapshot import Snapshot
from ..store.state import CANT_REBUILD, LogFiles
from ..store.verification import (
    bad_blocks,
    block_faults,
    damaged_documents,
    derived_faults,
    log_faults,
    readable_records,
)
from . import writer
from .replacing import undo


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
        faults = _save_documents(index, untrusted=untrusted)

        # Vectors, which only the encoder can restore.
        if model is not None:
            index.move_model(model)
        lost = block_faults(index.snapshot, index.state.vectors)
        if lost and not index.has_encoder:
            raise CorruptError(f"{lost[0]}; given vectors: {CANT_REBUILD}")
        if lost and not encode:
            raise CorruptError(
                f"{lost[0]}; `slimdex repair {index.path} --encode` encodes these documents again"
            )
        if lost:
            encode_lost(index)
        faults += lost

        # The vectors of a migration: its next run encodes them from the first.
        replacement = index.state.replacement
        if replacement is not None:
            lost = block_faults(index.snapshot, replacement.vectors)
            if lost:
                undo(index)
            faults += lost

        # Derived files; of an untrusted index, they are not read.
        faults += [f"{folder}: untrusted"] if untrusted else derived_faults(index.snapshot)
        if faults:
            writer.rebuild(index, fit_again=untrusted)
        return faults


def _save_documents(index: Index, *, untrusted: bool) -> list[str]:
    """If the log is damaged, copy the documents that can be read, and delete the others.

    Rows keep their numbers. Returns a message for each fault. In an `untrusted` index, no column is
    read to find the ids of damaged documents.
    """
    faults = log_faults(index.snapshot, reads_ids=not untrusted)
    if not faults:
        return []
    with index.change() as change:
        base = change.base
        damaged = np.array(damaged_documents(base), dtype=np.int64)

        # Write another log, and delete those documents whose records it lacks.
        state = change.state
        files = LogFiles(state.new_name("documents"), state.new_name("offsets"))
        state = with_blocks(Log(index.path, files, 0), state, pack(_saved_records(base)))
        lost = without(base.document_rows.all_rows(damaged), base.deleted)
        change.commit(state, delete=lost, undo="never")
    return [f"{fault}: deleted" for fault in faults] if len(damaged) else faults


def _saved_records(snapshot: Snapshot) -> Iterator[tuple[bytes, int]]:
    """Yield the record and number of rows of each document, an empty one for damaged ones."""
    for _, row_count, record in readable_records(snapshot):
        if record is None:
            lost = Document("", "", passages=[(0, 0)] * row_count)
            record = Record(lost, [""] * row_count).written()
        yield record, row_count


def encode_lost(index: Index) -> None:
    """Encode the documents whose blocks of vectors are missing or damaged, each in a commit.

    A block is durable before it gets its checksum: after an interruption, the next attempt encodes
    the rest.
    """
    snapshot = index.snapshot
    state = snapshot.state
    file = state.vector_file(index.path, 0).preallocate(state.encoded)
    for block in bad_blocks(snapshot, file):
        span = file.rows_of_block(block)
        contents = enumerate(snapshot.store.contents(np.arange(span.start, span.stop)))
        texts = {number: text for number, text in contents if text}
        names = [f"row {span[number]}" for number in texts]
        encoder = index.encoder
        encoded, _ = encode_texts(encoder, [*texts.values()], names, state.dim, index.workers)

        # Write the block, in which rows without text are zeros; then commit its checksum.
        vectors = np.zeros((len(span), state.dim), dtype=np.float32)
        vectors[[*texts]] = encoded
        digest = file.overwrite(block, vectors)
        with index.change() as change:
            change.replace_block(state.vectors, block, digest)
            change.commit()
