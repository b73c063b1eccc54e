"""Reencoding: lost vectors are rebuilt from the texts, a block of the file at a time.

A block is made durable before it gets its checksum: after an interruption, the next attempt encodes
exactly the blocks without one.
"""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.vectors.vector_file import STORED, VectorFile

from ..encoders.base import Encoder
from ..index import Index
from ..store.readings import PartlyRead
from ..store.snapshot import Snapshot
from . import writer
from .encoding import encoded_steps


def encode_lost(index: Index) -> None:
    """Encode the documents whose blocks of vectors are missing or damaged; then rebuild.

    Raises `CorruptError` if the vectors were given.
    """
    if not index.has_encoder:
        raise CorruptError(
            f"{index.path / index.state.vectors}: vectors given from elsewhere can't be "
            "encoded again; restore the file from a copy"
        )
    encoder = index.encoder
    with index.turn():
        _encode_blocks(index, encoder)
        writer.rebuild(index)


def _encode_blocks(index: Index, encoder: Encoder) -> None:
    snapshot = index.snapshot
    state = snapshot.state
    path, dtype = index.path / state.vectors, STORED[state.stored]
    file = VectorFile.preallocated(path, state.dim, state.rows, dtype)
    known = snapshot.manifest.checksums.of(state.vectors)
    lost = [block for block, digest in file.blocks() if known.get(block) != digest]
    total = sum(len(file.rows_of_block(block)) for block in lost)
    done = 0
    for block in lost:
        rows = file.rows_of_block(block)
        vectors, partly = _encoded(snapshot, encoder, rows, done, total)
        digest = file.overwrite(block, vectors)
        with index.change() as change:
            change.replace_block(state.vectors, block, digest)
            change.store.readings.put(partly)
            change.commit()
        done += len(rows)


def _encoded(
    snapshot: Snapshot, encoder: Encoder, rows: range, done: int, total: int
) -> tuple[Matrix, PartlyRead]:
    """Vectors of some rows' documents, and the rows read only in part."""
    contents = snapshot.store.contents(rows.start, rows.stop)
    encoded: Matrix = np.zeros((len(rows), snapshot.state.dim), dtype=np.float32)
    partly: PartlyRead = {rows[i]: (0, 0) for i, text in enumerate(contents) if not text}
    todo = [i for i, text in enumerate(contents) if text]
    texts = [contents[i] for i in todo]
    for positions, vectors, read in encoded_steps(encoder, texts, snapshot.state.dim):
        encoded[[todo[i] for i in positions]] = vectors
        partly = {**partly, **{rows[todo[i]]: lengths for i, lengths in read.items()}}
        done += len(positions)
        progress("encoding", done, total)
    return encoded, partly
