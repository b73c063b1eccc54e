"""Query pools: queries to measure an index's agreement with exact search in its metric.

A bound of the agreement holds for real queries only if they are no harder than the pool's.
Documents as queries are too easy (up to .29 too high). So are whole sentences of short documents
and, for a static encoder, of long ones (.03 too high on SQuAD's paragraphs). On the collections of
`docs/tuning.md`, these were not too easy:

- half of the words of a sentence, with its document, which has several sentences, held out;
- if documents have one sentence: two of them, half of their words dropped, their vectors
  averaged, both held out;
- if only vectors are known: the average of two, both held out.

Queries are drawn with replacement, so that they are independent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.system.progress import progress

from ..encoders.base import Encoder, encode_queries
from ..passages import TERMINALS
from ..store.passages import DocumentRows
from ..store.snapshot import Snapshot
from .recall_trials import Pool

FROM_USER = "queries that were given"
CLOZE = "half of the words of a sentence, its document left out of the answers"
MIXED = "words of two documents at a time, averaged, both left out"
VECTORS = "vectors of two documents at a time, averaged, both left out"

FEWEST_WORDS = 4
"""Words of a sentence that is used, at least."""
PROBED = 200
"""Documents sampled to see whether they have several sentences."""
DROPPED = 0.5
"""Share of the words that are dropped."""
ENCODED_AT_ONCE = 64
Draw = Callable[[int], Pool]
"""Makes a number of further queries, independent of those before."""
HELD_OUT = 128
"""Largest number of passages of a document used for queries, if possible: exact search has to
return that many more."""


def document_pool(
    snapshot: Snapshot, encoder: Encoder | None, count: int, rng: np.random.Generator
) -> Pool:
    """Make queries from the documents; see `document_queries`, also for errors."""
    draw = document_queries(snapshot, encoder, rng)
    if count < 1:
        raise InputError(f"sample={count}; expected 1 or more documents")
    return draw(count)


def document_queries(snapshot: Snapshot, encoder: Encoder | None, rng: np.random.Generator) -> Draw:
    """Choose how to make queries from the documents; see the module.

    Each call of the returned function makes the requested number of further queries. If texts are
    cut, queries are made from passages, and all passages of the document are held out.

    `encoder` is None if vectors were given. Raises `InputError` if there are fewer than three
    documents: a query would have nothing left to find; and if rows wait for their vectors.
    """
    snapshot.check_encoded()
    live = snapshot.searchable_rows()
    count_live = len(snapshot.document_rows.first_rows(live))
    if count_live < 3:
        raise InputError(f"{snapshot.path}: {count_live} documents; at least 3 are needed")
    if encoder is None:

        def average(count: int) -> Pool:
            pairs = draw_pairs(live, count, rng)
            vectors = snapshot.index.vectors.take(pairs.ravel())
            return _means_of_pairs(VECTORS, snapshot, pairs, vectors)

        return average
    live = _of_short_documents(snapshot, live)

    # Words of two documents at a time, for documents of one sentence.
    def mix(count: int) -> Pool:
        pairs = draw_pairs(live, count, rng)
        queries = [drop_words(text, rng) for text in snapshot.texts(pairs.ravel())]
        vectors = encode_with_progress(encoder, queries)
        return _means_of_pairs(MIXED, snapshot, pairs, vectors, queries)

    # Words of a sentence, for documents of several sentences.
    def cloze(count: int) -> Pool:
        made_of = list[int]()
        queries = list[str]()
        while len(made_of) < count:  # ends soon: about half of them have several
            rows = rng.choice(live, count)
            for row, text in zip(rows.tolist(), snapshot.texts(rows), strict=True):
                if len(sentences(text)) > 1:
                    made_of.append(row)
                    queries.append(drop_words(text, rng))
        rows = np.array(made_of[:count], dtype=np.int64)[:, None]
        held_out = rows_of_documents(snapshot.document_rows, rows)
        return Pool(
            CLOZE, encode_with_progress(encoder, queries[:count]), held_out, queries[:count]
        )

    # Look at some documents to see which method suits them.
    probed = snapshot.texts(rng.choice(live, PROBED))
    have_several = sum(len(sentences(text)) > 1 for text in probed) >= PROBED / 2
    return cloze if have_several else mix


def rows_of_documents(rows: DocumentRows, made_of: Rows) -> Rows:
    """Return all rows (q, w) of the documents that each query was made of, padded with -1.

    `made_of` (q, n) has one row of each of these documents.

    >>> rows_of_documents(DocumentRows(np.array([1]), np.array([2])), np.array([[2], [5]])).tolist()
    [[1, 2], [5, -1]]
    """
    if rows.is_one_each:
        return made_of
    by_query = [rows.all_rows(np.unique(rows.documents(sources))) for sources in made_of]
    width = max(map(len, by_query), default=0)
    padded: Rows = np.full((len(by_query), width), -1, dtype=np.int64)
    for line, document_rows in zip(padded, by_query, strict=True):
        line[: len(document_rows)] = document_rows
    return padded


def _of_short_documents(snapshot: Snapshot, live: Rows) -> Rows:
    """Return the rows of documents with few passages, or all rows if fewer than two have few.

    A query holds out all rows of its documents, and exact search has to skip them.
    """
    rows = snapshot.document_rows
    if rows.is_one_each:
        return live
    short = live[rows.counts_of(rows.documents(live)) <= HELD_OUT]
    return short if len(rows.first_rows(short)) > 1 else live


def sentences(text: str) -> list[str]:
    """Sentences of a text, except very short ones.

    >>> sentences("Yes. It rained all day long! The boiler was serviced in May.")
    ['It rained all day long!', 'The boiler was serviced in May.']
    """
    parts = re.split(rf"(?<=[.!?{TERMINALS}])\s+|\n\s*\n", text)
    return [part.strip() for part in parts if len(part.split()) >= FEWEST_WORDS]


def drop_words(text: str, rng: np.random.Generator) -> str:
    """Return a random sentence of a text with about half of its words dropped, at least one kept.

    A text without sentences is taken as one.

    >>> len(drop_words("a b c d e f g h", np.random.default_rng(0)).split()) in range(1, 9)
    True
    """
    choices = sentences(text)
    sentence = str(rng.choice(choices)) if choices else text
    words = sentence.split()
    remaining = [word for word in words if rng.random() >= DROPPED]
    return " ".join(remaining or words[:1])


def encode_with_progress(encoder: Encoder, texts: Sequence[str]) -> Matrix:
    """Encode queries to vectors (n, d), reporting progress."""
    parts = []
    for part in batches(len(texts), ENCODED_AT_ONCE):
        parts.append(encode_queries(encoder, texts[part]))
        progress("encoding queries", part.stop, len(texts))
    return np.concatenate(parts)


def draw_pairs(live: Rows, count: int, rng: np.random.Generator) -> Rows:
    """Draw pairs (count, 2) of different rows."""
    first = rng.integers(len(live), size=count)
    # 1 to n - 1 rows further on, so never the same row.
    second = (first + rng.integers(1, len(live), size=count)) % len(live)
    return np.stack([live[first], live[second]], axis=1)


def _means_of_pairs(
    name: str, snapshot: Snapshot, pairs: Rows, vectors: Matrix, texts: Sequence[str] = ()
) -> Pool:
    """Make queries, each the mean of the unit vectors (2q, d) of a pair; both are held out."""
    unit = normalize_rows(vectors).reshape(len(pairs), 2, -1)
    held_out = rows_of_documents(snapshot.document_rows, pairs)
    return Pool(name, unit.mean(axis=1), held_out, texts)
