"""Codes alone: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.bench.reporting.tables.settled import DEEPEST, HELD

from ..links import Figure, rows

MODELS = ("all-MiniLM-L6-v2 (bf16)", "paraphrase-MiniLM-L3-v2 (bf16)")
SETS = 5
DIM = 384


def sizes() -> Sequence[float]:
    """What the codes of product quantisers take, as shares of float32."""
    found = {row["ram_row_bytes"] for row in rows("codes", method="pq-l2", dim=DIM)}
    return [4 * DIM / size for size in sorted(found)]


def lost(method: str, size: float, *ks: int) -> Sequence[float]:
    """The mean loss of nDCG@10 over the sets by both models, of the best k at the default gamma."""
    return [
        min(
            -sum(row["ndcg@10_delta"] for row in found) / SETS
            for k in ks
            if len(found := of(method, model, size, k)) == SETS
        )
        for model in MODELS
    ]


def of(method: str, model: str, size: float, k: int) -> Sequence[dict[str, float]]:
    """The rows of all sets."""
    named = rows("codes", method=method, model=model, gamma=0.25, ram_row_bytes=size)
    return [row for row in named if row["k"] == k]


def beside_pq(size: float, k: int) -> Sequence[float]:
    """Its bytes, and what `pq-l2` of k and the best `pq` lose by both models."""
    return [size, *lost("pq-l2", size, k), *lost("pq", size, DIM // 2, DIM)]


def asked() -> float:
    """Queries of the set that has the most."""
    return max(float(row["queries"]) for row in rows("codes"))


def depths() -> Sequence[float]:
    """Numbers of candidates that hold enough of the ten, less than the deepest."""
    return sorted({row["needed"] for row in rows("codes")} - {None, DEEPEST})


FIGURES = [
    Figure("at 1/64 and 1/32 of float32's bytes", lambda: sizes()),
    Figure("depends on the model at 24 bytes", lambda: [4 * DIM / 64]),
    Figure(
        "at 48 bytes () loses 0.9 points of nDCG@10 against exact search with all-MiniLM-L6-v2 "
        "and 0.1 with paraphrase-MiniLM-L3-v2; the best *pq* of the same bytes, ranked by inner "
        "products, loses 2.3 and 1.3",
        lambda: beside_pq(48, DIM),
    ),
    Figure(
        "At 24 bytes, with the default k, loses 4.0 and 3.8 points, and *pq* loses 6.4 and 5.9",
        lambda: beside_pq(24, DIM // 2),
    ),
    Figure(
        "At 24 bytes even that loses 2.8 points with all-MiniLM-L6-v2 and 2.5 with",
        lambda: [24, *lost("ideal", 24, DIM)],
    ),
    Figure("contain 0.99 of the ten nearest", lambda: [HELD]),
    Figure("of 10, 20, 50, 100, 200 and 400", lambda: [10, *depths(), DEEPEST]),
    Figure("with *pq* at 24 bytes, measured alternately", lambda: [4 * DIM / 64]),
    Figure("At most 2,000 queries of each set", lambda: [asked()]),
]
