"""Queries of one encoder over documents of another: the figures of its page."""

from __future__ import annotations

from slimdex.bench.migration.migration_study import DRAWN, PEER_SHARE, SHARES, TRIALS
from slimdex.retrieval.quality.certified_recall import ERROR

from ..links import Figure, rows


def smallest_samples() -> list[float]:
    samples = [each["sample"] for each in rows("migrate", share=SHARES[0])]
    return [100 * SHARES[0], min(samples), max(samples)]


FIGURES = [
    Figure(
        "1%, 5% and 20% of the documents, and all", lambda: [100 * share for share in SHARES[:3]]
    ),
    Figure("1% of these sets is 12 to 52 documents", smallest_samples),
    Figure("given the same 20% sample", lambda: [100 * PEER_SHARE]),
    Figure("1,000 times, 200 queries are drawn", lambda: [TRIALS, DRAWN]),
    Figure("and the 95% bound", lambda: [100 * (1 - ERROR)]),
    Figure("too high in 5% of the trials", lambda: [100 * ERROR]),
]
