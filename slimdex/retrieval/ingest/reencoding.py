"""Reencoding: lost vectors are rebuilt from the texts, a block of the file at a time.

A block is made durable before it gets its checksum: after an interruption, the next attempt encodes
exactly the blocks without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.vectors.vector_file import STORED, VectorFile

from ..catalog.readings import PartlyRead
from ..encoders.base import Encoder
from ..storage.commit_log import CommitLog
from . import writer
from .encoding import encoded_steps

if TYPE_CHECKING:
    from ..collection import Collection


def encode_lost(collection: Collection) -> None:
    """Encode the documents whose blocks of vectors are missing or damaged; then rebuild.

    Raises `CorruptError` if the vectors were given.
    """
    if not collection.has_encoder:
        raise CorruptError(
            f"{collection.path / collection.state.vectors}: vectors given from elsewhere can't be "
            "encoded again; restore the file from a copy"
        )
    encoder = collection.encoder
    with collection.change():
        _encode_blocks(collection.commit_log, encoder)
        collection.show()
        writer.rebuild(collection)


def _encode_blocks(commit_log: CommitLog, encoder: Encoder) -> None:
    state = commit_log.state
    path, dtype = commit_log.path / state.vectors, STORED[state.stored]
    file = VectorFile.preallocated(path, state.dim, state.rows, dtype)
    known = commit_log.manifest.checksums.of(state.vectors)
    lost = [block for block, digest in file.blocks() if known.get(block) != digest]
    total = sum(len(file.rows_of_block(block)) for block in lost)
    done = 0
    for block in lost:
        rows = file.rows_of_block(block)
        vectors, partly = _encoded(commit_log, encoder, rows, done, total)
        digest = file.overwrite(block, vectors)
        with commit_log.transaction():
            commit_log.replace_block(state.vectors, block, digest)
            commit_log.store.readings.put(partly)
        done += len(rows)


def _encoded(
    commit_log: CommitLog, encoder: Encoder, rows: range, done: int, total: int
) -> tuple[Matrix, PartlyRead]:
    """Vectors of some rows' documents, and the rows read only in part."""
    contents = commit_log.store.documents.contents(rows.start, rows.stop)
    encoded: Matrix = np.zeros((len(rows), commit_log.state.dim), dtype=np.float32)
    partly: PartlyRead = {rows[i]: (0, 0) for i, text in enumerate(contents) if not text}
    todo = [i for i, text in enumerate(contents) if text]
    texts = [contents[i] for i in todo]
    for positions, vectors, read in encoded_steps(encoder, texts, commit_log.state.dim):
        encoded[[todo[i] for i in positions]] = vectors
        partly = {**partly, **{rows[todo[i]]: lengths for i, lengths in read.items()}}
        done += len(positions)
        progress("encoding", done, total)
    return encoded, partly
