"""Query pools: questions to ask an index by, for recall against exact search in its own metric.

A bound of the recall holds for real queries only if these are no harder than the pool's. Documents
as queries are too easy (recall up to .29 too high), and so are whole sentences of short documents,
and of long ones to a static encoder (.03 too high on SQuAD's paragraphs). Not too easy were, on the
sets of `docs/tuning.md`:

- half of the words of a sentence, with the document, which has several, left out of the answers;
- where documents are of one sentence: two of them, half of their words dropped, their vectors
  averaged, both left out;
- where only vectors are known: the average of two, both left out.

Each query is drawn anew, with replacement, so that they are independent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows, without
from slimdex.indexes.errors import InputError
from slimdex.indexes.progress import Progress, silent

from ..catalog.store import DocumentStore
from ..encoders.base import Encoder, encode_queries
from .recall_trials import Pool
from .snapshot import Snapshot

ASKED = "queries that were given"
CLOZE = "half of the words of a sentence, its document left out of the answers"
MIXED = "words of two documents at a time, averaged, both left out"
VECTORS = "vectors of two documents at a time, averaged, both left out"

FEWEST_WORDS = 4
"""Of a sentence that says something."""
PROBED = 200
"""Documents that are looked at to see whether they have several sentences."""
DROPPED = 0.5
"""Share of the words that are dropped."""
ENCODED_AT_ONCE = 64


def document_pool(
    snapshot: Snapshot,
    store: DocumentStore,
    encoder: Encoder | None,
    count: int,
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Pool:
    """So many queries, made of the documents in the way that suits them.

    Parameters
    ----------
    encoder : None where vectors were given.

    Raises
    ------
    InputError
        If fewer than three documents can be found: a query would have nothing left to find.
    """
    live = without(np.arange(snapshot.state.rows), snapshot.hidden)
    if len(live) < 3:
        raise InputError(f"{snapshot.path}: {len(live)} documents; expected others to find by two")
    if count < 1:
        raise InputError(f"sample={count}; expected 1 or more documents")
    if encoder is None:
        return _averaged(VECTORS, live, count, rng, snapshot.index.vectors.take)
    asked = list[str]()

    def texts(rows: Rows) -> list[str]:
        found = store.documents(sorted({*rows.tolist()}), snapshot.epoch)
        return [found[row].content for row in rows.tolist()]

    rows = rng.choice(live, PROBED)
    if sum(len(sentences(text)) > 1 for text in texts(rows)) < PROBED / 2:

        def words(rows: Rows) -> Matrix:
            asked.extend(dropped(text, rng) for text in texts(rows))
            return encoded(encoder, asked, progress)

        return replace(_averaged(MIXED, live, count, rng, words), texts=asked)
    own = list[int]()
    while len(own) < count:  # at least one in two has several sentences
        rows = rng.choice(live, count)
        for row, text in zip(rows.tolist(), texts(rows), strict=True):
            if len(sentences(text)) > 1:
                own.append(row)
                asked.append(dropped(text, rng))
    vectors = encoded(encoder, asked[:count], progress)
    return Pool(CLOZE, vectors, np.array(own[:count], dtype=np.int64)[:, None], asked[:count])


def sentences(text: str) -> list[str]:
    """Those of a text that say something.

    >>> sentences("Yes. It rained all day long! The boiler was serviced in May.")
    ['It rained all day long!', 'The boiler was serviced in May.']
    """
    parts = re.split(r"(?<=[.!?。！？])\s+|\n\s*\n", text)
    return [part.strip() for part in parts if len(part.split()) >= FEWEST_WORDS]


def dropped(text: str, rng: np.random.Generator) -> str:
    """A sentence of a text, or all of it if it has none, with half of its words dropped.

    >>> len(dropped("a b c d e f g h", np.random.default_rng(0)).split()) in range(1, 9)
    True
    """
    found = sentences(text)
    words = (str(rng.choice(found)) if found else text).split()
    kept = [word for word in words if rng.random() >= DROPPED]
    return " ".join(kept or words[:1])


def encoded(encoder: Encoder, texts: Sequence[str], progress: Progress = silent) -> Matrix:
    """Vectors (n, d) of queries, with progress."""
    parts = []
    for low in range(0, len(texts), ENCODED_AT_ONCE):
        parts.append(encode_queries(encoder, texts[low : low + ENCODED_AT_ONCE]))
        progress("encoding queries", min(low + ENCODED_AT_ONCE, len(texts)), len(texts))
    return np.concatenate(parts)


def _averaged(
    name: str,
    live: Rows,
    count: int,
    rng: np.random.Generator,
    vectors: Callable[[Rows], Matrix],
) -> Pool:
    """Queries between two documents each, which are not the same one."""
    first = rng.integers(len(live), size=count)
    second = (first + rng.integers(1, len(live), size=count)) % len(live)
    own = np.stack([live[first], live[second]], axis=1)
    unit = normalize_rows(vectors(own.ravel())).reshape(count, 2, -1)
    return Pool(name, unit.mean(axis=1), own)
