"""Hybrid choice: if and how to fuse lexical with semantic search, by labelled queries.

Each half of the labelled queries chooses a fusion that is judged on the other half: if the gain is
significant, the best fusion for all queries is used, otherwise semantic search alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.system.progress import progress

from ..index import Index
from ..lexical.fusion import AUTO, OFF, Fusion
from ..search.answer import IndexRows
from ..store.snapshot import Snapshot
from .cross_fitting import gain_of_best
from .labels import LabelledQuery, UserQueries, labelled_queries, ndcg
from .metric_choice import FEWEST_LABELLED
from .query_pools import encode_with_progress

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FUSIONS = (Fusion(AUTO), *map(Fusion, WEIGHTS), Fusion(None))
DEPTH = 10
MOST_LABELLED = 2000
"""Largest number of labelled queries to use."""


@dataclass(frozen=True)
class HybridChoice:
    """The fusion for `auto`, None if there are too few labels to choose; and the reason."""

    hybrid: str | None
    why: str


def choose_fusion(
    index: Index, snapshot: Snapshot, user_queries: UserQueries | None
) -> HybridChoice | None:
    """Choose the fusion with lexical search by labelled queries.

    None if there are no labels, no encoder for the queries, or no lexical index.
    """
    encoder = index.encoder_if_any
    if (
        user_queries is None
        or not user_queries.labels
        or encoder is None
        or snapshot.state.words is None
    ):
        return None

    # Shuffle them, since each half is compared with the other.
    labelled = labelled_queries(snapshot, user_queries)
    order = np.random.default_rng(0).permutation(len(labelled))[:MOST_LABELLED]
    judged = [labelled[i] for i in order]
    vectors = encode_with_progress(encoder, [query.text for query in judged])
    return by_labels(snapshot, vectors, judged)


def by_labels(snapshot: Snapshot, vectors: Matrix, judged: Sequence[LabelledQuery]) -> HybridChoice:
    """Choose the fusion that is significantly better than semantic search alone, if any.

    `vectors` (q, d) are those of the queries, which are in random order.
    """
    count = len(judged)
    if count < FEWEST_LABELLED:
        few = f"hybrid search: {count} queries with labels; {FEWEST_LABELLED} are needed"
        return HybridChoice(None, few)

    # nDCG of each query by semantic search alone and by each fusion.
    measured = np.empty((count, 1 + len(FUSIONS)))
    for i, query in enumerate(judged):
        measured[i] = fusion_ndcg(snapshot, vectors[i : i + 1], query)
        progress("comparing fusions", i + 1, count)

    gain = gain_of_best(measured)
    by = f"{count:,} queries with labels"
    if not gain.is_proved:
        return HybridChoice(OFF, f"hybrid search: off, {by} show no clear gain")
    fusion = FUSIONS[gain.option - 1]
    gained = f"{by} gain {100 * gain.mean:.1f} nDCG@10, {100 * gain.bound:.1f} or more"
    return HybridChoice(str(fusion), f"hybrid search: {fusion}, {gained}")


def fusion_ndcg(snapshot: Snapshot, query: Matrix, judged: LabelledQuery) -> list[float]:
    """Return nDCG@10 of an encoded query (1, d) by semantic search alone and by each of `FUSIONS`.

    The query's own document does not count as an answer.
    """
    near, _, fused = fusion_orders(snapshot, query, judged.text)
    values = []
    for order in (near, *fused):
        documents = dict.fromkeys(snapshot.document_rows.documents(order).tolist())
        values.append(ndcg([d for d in documents if d != judged.self_row], judged.labels))
    return values


def fusion_orders(snapshot: Snapshot, query: Matrix, text: str) -> tuple[Rows, Rows, list[Rows]]:
    """Rank the rows that an encoded query (1, d) finds, in three ways, each best first.

    Returns the order by semantic search, by lexical search, and by each of `FUSIONS`.
    """
    index = snapshot.index
    rows = IndexRows(snapshot, index, index.candidates_for(DEPTH))
    (scored,) = rows.candidates(rows.fusion_scales([text], query), query, DEPTH)

    # Each search alone ranks only the candidates that it found itself.
    near = scored.order(scored.cosines)
    near = near[scored.is_near[near]]
    lexical = scored.order(scored.bm25)
    lexical = lexical[scored.bm25[lexical] > 0]
    fused = [scored.rows[scored.order(fusion.scores(scored))] for fusion in FUSIONS]
    return scored.rows[near], scored.rows[lexical], fused
