"""Samples: documents that both encoders encode, and queries to compare the encoders by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.maps.fitting import FEWEST
from slimdex.indexes.ranking import top_k
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Probes, Rescorer

from ...encoders.base import Encoder
from ...ingest.encoding import encoded_steps
from ...open_index import OpenIndex
from ...storage.snapshot import Snapshot
from ...trials.query_pools import dropped, row_texts
from ..tuning.metric_choice import ndcg
from ..tuning.tuner import Asked, labelled_queries

QUERIES = 500
"""Largest number of queries."""
MOST, LEAST, SHARE = 10_000, 2_000, 0.05
"""Default sample: 5% of the documents, but between these."""
DEEP = 100
"""Rows that are read to find ten documents of several passages."""
WINDOW = 256
MADE, LABELLED = "half of the words of a sentence, its document to find", "queries with labels"


@dataclass(frozen=True)
class Question:
    """A query, the documents to find by their first rows, and the document that it is, or -1."""

    text: str
    labels: Mapping[int, int]
    own: int = -1


@dataclass(frozen=True)
class Sample:
    """Rows and queries.

    Attributes
    ----------
    fitted : rows to fit the map on; none is of a document that a question asks for.
    searched : all rows that both encoders encode, in order.
    pool : description of the questions.
    """

    fitted: Rows
    searched: Rows
    questions: Sequence[Question]
    pool: str

    @classmethod
    def drawn(
        cls, core: OpenIndex, snapshot: Snapshot, asked: Asked | None, count: int | None
    ) -> Sample:
        """Draw `count` rows to fit on, by default 5%, and questions from the rest of the rows.

        Raises `InputError` if there are too few documents, or none has a label.
        """
        rng, live = np.random.default_rng(0), snapshot.searchable_rows()
        size = _size(len(live)) if count is None else count
        if size < FEWEST or len(live) <= FEWEST:
            raise InputError(
                f"a sample of {min(size, len(live)):,} of {len(live):,} {snapshot.noun}; expected "
                f"at least {FEWEST}, and others to search for"
            )
        pool = MADE if asked is None or not asked.labels else LABELLED
        if asked is not None and asked.labels:
            questions = _labelled(core, snapshot, asked, rng)
        else:
            questions = _made(core, snapshot, live, rng)
        wanted = np.unique([row for question in questions for row in question.labels])
        wanted = np.intersect1d(snapshot.document_rows.all_rows(wanted), live)
        others = np.setdiff1d(live, wanted)
        fitted = np.sort(rng.choice(others, min(size, len(others)), replace=False))
        if len(fitted) < FEWEST:
            raise InputError(
                f"{len(others)} {snapshot.noun} that no query asks for; expected {FEWEST} or more"
            )
        return cls(fitted, np.union1d(fitted, wanted), questions, pool)

    def encoded(
        self, core: OpenIndex, snapshot: Snapshot, encoder: Encoder
    ) -> tuple[Matrix, float]:
        """Encode the searched rows; returns vectors in their order, and seconds for each."""
        out: Matrix = np.zeros((len(self.searched), encoder.dim), dtype=np.float32)
        texts = row_texts(snapshot, core.store, self.searched)
        start, done = perf_counter(), 0
        for low in range(0, len(texts), WINDOW):
            part = texts[low : low + WINDOW]
            for positions, vectors, _ in encoded_steps(encoder, part, encoder.dim):
                out[[low + i for i in positions]] = vectors
                done += len(positions)
                progress("encoding a sample", done, len(texts))
        return out, (perf_counter() - start) / len(texts)

    def judged(
        self,
        snapshot: Snapshot,
        queries: Matrix,
        documents: Matrix,
        moments: Moments,
    ) -> NDArray[np.float64]:
        """nDCG@10 (q,) of queries among the searched rows' vectors, in the index's metric.

        `moments` are those of the space.
        """
        settings = snapshot.state.settings
        assert settings is not None
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        probes, norms = rescorer.probes(queries), rescorer.norms(documents)
        firsts = snapshot.document_rows.documents(self.searched)
        out = np.empty(len(queries))
        for i, question in enumerate(self.questions):
            shift = None if probes.shifts is None else probes.shifts[i : i + 1]
            scores = Probes(probes.vectors[i : i + 1], shift).scores(documents, norms)
            found = top_k(scores, firsts, DEEP)[1][0].tolist()
            ranked = [first for first in dict.fromkeys(found) if first != question.own]
            out[i] = ndcg(ranked, question.labels)
        return out


def _size(count: int) -> int:
    """Rows of the default sample.

    >>> _size(1_000_000), _size(100_000), _size(3000)
    (10000, 5000, 2000)
    """
    return min(MOST, max(LEAST, round(SHARE * count)))


def _labelled(
    core: OpenIndex, snapshot: Snapshot, asked: Asked, rng: np.random.Generator
) -> list[Question]:
    found = labelled_queries(core, snapshot, asked)
    if not found:
        raise InputError("no query has a label of a document; expected some")
    order = rng.permutation(len(found))[:QUERIES]
    return [Question(*found[i]) for i in order.tolist()]


def _made(
    core: OpenIndex, snapshot: Snapshot, live: Rows, rng: np.random.Generator
) -> list[Question]:
    """Queries made of rows, drawn with replacement, so that they are independent.

    At most half of the rows are asked for: the others are to fit the map on.
    """
    candidates = rng.choice(live, len(live) // 2, replace=False)
    rows = rng.choice(candidates, QUERIES)
    texts = row_texts(snapshot, core.store, rows)
    documents = snapshot.document_rows.documents(rows).tolist()
    pairs = zip(texts, documents, strict=True)
    return [Question(dropped(text, rng), {document: 1}) for text, document in pairs if text.strip()]
