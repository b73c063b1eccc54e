"""Migration: measure what another encoder would give an index.

Queries with labels search a sample of the documents by the old encoder and by the new one. Both
search the same documents, so the differences count, while the values themselves are higher than
those of the whole index. Queries made of the documents' own words would decide nothing: every
encoder finds these, and a better one is needed for other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.ranking import top_k
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Rescorer

from ..encoders.base import Encoder
from ..encoders.encoding import encode_all as encoded_documents
from ..encoders.encoding import reporting
from ..index import Index
from ..store.snapshot import Snapshot
from .labels import LabelledQuery, UserQueries, labelled_queries, ndcg
from .query_pools import encode_with_progress
from .recall_trials import ERROR

STAY = "stay"
ENCODE = "encode again"
SECONDS_AN_HOUR = 3600
MOST_QUERIES = 500
FEWEST_SAMPLED = 10
SAMPLED = 5_000
"""Default sample."""
RANKED_ROWS = 100
"""Rows that are read to find ten documents of several passages."""

Values = NDArray[np.float64]
"""nDCG@10 of each query (q,)."""


@dataclass(frozen=True)
class Option:
    """One option and its quality."""

    name: str  # `STAY` or `ENCODE`
    estimate: float  # mean nDCG@10 of the queries, 0 to 1
    bound: float  # lower bound of the mean over all such queries, wrong with probability 5%
    gain: float | None = None  # over staying; None for that, and without the old encoder
    gain_bound: float | None = None  # its lower bound
    hours: float = 0.0  # estimated time of encoding


@dataclass(frozen=True)
class Migration:
    """Result of `Collection.migrate`."""

    options: Sequence[Option]  # measured, first to stay, if the old encoder can be loaded
    advice: str  # name of the recommended option
    searched: int  # documents or passages that the queries searched, encoded by both
    queries: int  # number of labelled queries

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self) | {"error": ERROR}


def migrate(
    index: Index, encoder: Encoder, user_queries: UserQueries | None, count: int | None
) -> Migration:
    """Compare another encoder with the index's own; see `Collection.migrate`."""
    return index.read(_compare, index, encoder, user_queries, count)


def _compare(
    snapshot: Snapshot,
    index: Index,
    encoder: Encoder,
    user_queries: UserQueries | None,
    count: int | None,
) -> Migration:
    """Measure both encoders on a sample; advise encoding again if the gain is proved."""
    if user_queries is None or not user_queries.labels:
        raise InputError("migrate: no labelled queries; expected queries and their labels")
    live = snapshot.searchable_rows()
    most = min(SAMPLED if count is None else count, len(live))
    if most < FEWEST_SAMPLED:
        raise InputError(
            f"a sample of {most:,} of {len(live):,} {snapshot.noun}; expected "
            f"{FEWEST_SAMPLED} or more"
        )
    rng = np.random.default_rng(0)
    labelled = labelled_queries(snapshot.open(), user_queries)
    order = rng.permutation(len(labelled))[:MOST_QUERIES]
    queries = [labelled[i] for i in order.tolist()]
    searched = _draw_rows(snapshot, queries, most, rng)

    # The new encoder.
    contents = snapshot.store.contents(searched)
    start = perf_counter()
    report_progress = reporting("encoding a sample", len(contents))
    vectors, _ = encoded_documents(encoder, contents, encoder.dim, report_progress)
    seconds = (perf_counter() - start) / len(contents)
    moments = Moments.of_rows(vectors)
    new = _measure_ndcg(snapshot, encoder, queries, searched, vectors, moments)

    # The index's own encoder.
    options = list[Option]()
    gain = None
    gain_bound = None
    advice = ENCODE
    current = index.encoder_if_any
    if current is not None:
        vectors = snapshot.index.vectors.take(searched)
        old = _measure_ndcg(snapshot, current, queries, searched, vectors, snapshot.moments())
        gain = float((new - old).mean())
        gain_bound = gain_of(new, old)
        options = [Option(STAY, float(old.mean()), betting_bound(old, ERROR))]
        advice = ENCODE if gain_bound > 0 else STAY

    options.append(
        Option(
            name=ENCODE,
            estimate=float(new.mean()),
            bound=betting_bound(new, ERROR),
            gain=gain,
            gain_bound=gain_bound,
            hours=seconds * len(live) / SECONDS_AN_HOUR,
        )
    )
    return Migration(
        options=options,
        advice=advice,
        searched=len(searched),
        queries=len(queries),
    )


def gain_of(values: Values, others: Values) -> float:
    """Lower bound of the mean difference of paired values, which are from 0 to 1.

    `betting_bound` takes values from 0 to 1, so differences are scaled to that range and back.

    >>> one = np.ones(1000)
    >>> gain_of(one, 0 * one) > 0.98, gain_of(one, one) <= 0
    (True, True)
    """
    return 2 * betting_bound((1 + values - others) / 2, ERROR) - 1


def _draw_rows(
    snapshot: Snapshot, queries: Sequence[LabelledQuery], count: int, rng: np.random.Generator
) -> Rows:
    """Return all rows of the documents that the queries should find, and `count` others."""
    # Negative numbers are missing documents.
    labelled = np.array([*chain.from_iterable(query.labels for query in queries)], np.int64)
    wanted = snapshot.document_rows.all_rows(np.unique(labelled[labelled >= 0]))
    live = snapshot.searchable_rows()
    wanted = np.intersect1d(wanted, live)
    others = np.setdiff1d(live, wanted)
    return np.union1d(rng.choice(others, min(count, len(others)), replace=False), wanted)


def _measure_ndcg(
    snapshot: Snapshot,
    encoder: Encoder,
    queries: Sequence[LabelledQuery],
    rows: Rows,
    vectors: Matrix,
    moments: Moments,
) -> Values:
    """Measure nDCG@10 (q,) of queries among some rows, in the index's metric.

    `vectors` (n, d) are those of the rows by the same encoder, and `moments` those that the metric
    is fitted to.
    """
    settings = snapshot.state.settings
    assert settings is not None
    rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
    norms = rescorer.norms(vectors)
    firsts = snapshot.document_rows.documents(rows)
    encoded = encode_with_progress(encoder, [query.text for query in queries])
    out = np.empty(len(queries))
    for i, query in enumerate(queries):
        probe = rescorer.probes(encoded[i : i + 1])
        found = top_k(probe.scores(vectors, norms), firsts, RANKED_ROWS)[1][0].tolist()
        ranked = [first for first in dict.fromkeys(found) if first != query.self_row]
        out[i] = ndcg(ranked, query.labels)
    return out
