"""Reencoding: lost vectors are rebuilt from the texts, a block of the file at a time.

A block is made durable before it gets its checksum: after an interruption, the next attempt encodes
exactly the blocks without one.
"""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.progress import progress
from slimdex.indexes.vector_file import STORED, VectorFile

from ..atomic_files import sync
from ..catalog.passages_table import PartlyRead
from ..encoders.base import Encoder
from .encoding import encoded_steps
from .ledger import Ledger


def encode_lost(ledger: Ledger, encoder: Encoder) -> None:
    """Encode the documents of all missing or damaged blocks of vectors."""
    state = ledger.state
    path, dtype = ledger.path / state.vectors, STORED[state.stored]
    file = VectorFile.preallocated(path, state.dim, state.encoded, dtype)
    sync(ledger.path)
    known = ledger.store.blocks.of(state.vectors)
    lost = [block for block, digest in file.blocks() if known.get(block) != digest]
    total = sum(len(file.rows_of_block(block)) for block in lost)
    done = 0
    for block in lost:
        rows = file.rows_of_block(block)
        vectors, partly = _encoded(ledger, encoder, rows, done, total)
        digest = file.overwrite(block, vectors)
        with ledger.transaction():
            ledger.store.blocks.replace(state.vectors, block, digest)
            ledger.store.readings.put(partly)
        done += len(rows)


def _encoded(
    ledger: Ledger, encoder: Encoder, rows: range, done: int, total: int
) -> tuple[Matrix, PartlyRead]:
    """Vectors of some rows' documents, and the rows read only in part."""
    contents = ledger.store.documents.contents(rows.start, rows.stop)
    encoded: Matrix = np.zeros((len(rows), ledger.state.dim), dtype=np.float32)
    partly: PartlyRead = {rows[i]: (0, 0) for i, text in enumerate(contents) if not text}
    todo = [i for i, text in enumerate(contents) if text]
    texts = [contents[i] for i in todo]
    for positions, vectors, read in encoded_steps(encoder, texts, ledger.state.dim):
        encoded[[todo[i] for i in positions]] = vectors
        partly = {**partly, **{rows[todo[i]]: lengths for i, lengths in read.items()}}
        done += len(positions)
        progress("encoding", done, total)
    return encoded, partly
