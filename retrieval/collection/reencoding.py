"""Reencoding: vectors that are lost are made anew from the texts, a block of the file at a time.

A block is made durable and then gets its checksum: what an interruption leaves without one is
encoded by the next try, and nothing else is.
"""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.progress import Progress
from slimdex.indexes.vector_file import STORED, VectorFile

from ..atomic_files import sync
from ..catalog.store import PartlyRead
from ..encoders.base import Encoder
from .encoding import encoded_steps
from .ledger import Ledger


def encode_lost(ledger: Ledger, encoder: Encoder, progress: Progress) -> None:
    """Encode the documents of all blocks of vectors that are missing or damaged."""
    state = ledger.state
    path, dtype = ledger.path / state.vectors, STORED[state.stored]
    file = VectorFile.preallocated(path, state.dim, state.encoded, dtype)
    sync(ledger.path)
    known = ledger.store.blocks(state.vectors)
    lost = [block for block, digest in file.blocks() if known.get(block) != digest]
    total = sum(len(file.rows_of_block(block)) for block in lost)
    done = 0
    for block in lost:
        rows = file.rows_of_block(block)
        vectors, partly = _encoded(ledger, encoder, rows, done, total, progress)
        digest = file.overwrite(block, vectors)
        with ledger.transaction():
            ledger.store.set_block(state.vectors, block, digest)
            ledger.store.set_partly_read(partly)
        done += len(rows)


def _encoded(
    ledger: Ledger, encoder: Encoder, rows: range, done: int, total: int, progress: Progress
) -> tuple[Matrix, PartlyRead]:
    """Vectors of some rows' documents, and the rows whose text was not read to its end."""
    contents = ledger.store.contents(rows.start, rows.stop)
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
