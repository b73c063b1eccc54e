"""Settled questions: the figures of their page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.bench.reporting.tables.papers import published
from slimdex.bench.reporting.tables.settled import COSINE
from slimdex.bench.rows import Row
from slimdex.indexes.vectors.int8_rows import BLOCK

from ..links import Figure, row, rows


def shares() -> set[float]:
    """Percent of float16's bytes that int8 takes, of every pair of rows."""
    whole = {row["model"]: row["disk_row_bytes"] for row in rows("stored", way="fp16")}
    found = rows("stored", way="int8")
    return {round(100 * row["disk_row_bytes"] / whole[row["model"]], 3) for row in found}


def use(reducer: str) -> Row:
    return row("reduction", model="universal-sentence-encoder", reducer=reducer)


def blog() -> Sequence[float]:
    """PCA's and the autoencoder's similarities."""
    (table,) = (table for table in published().tables if table.source == "autoencoder")
    return [system.figures[0] for system in table.systems]


FIGURES = [
    Figure("in 53% of float16's bytes", lambda: [*shares()]),
    Figure("scale for every 32 of its dimensions", lambda: [BLOCK]),
    Figure(
        "and 200 candidates; the interval",
        lambda: [*{row["candidates"] for row in rows("stored")}],
    ),
    Figure("with a threshold of 0.5", lambda: [COSINE]),
    Figure("from 512 to 128 dimensions", lambda: [use("none")["d"], use("PCA")["k"]]),
    Figure("found 78% for PCA and 94.1% for the autoencoder", blog),
    Figure(
        "PCA keeps 73.78, the autoencoder 91.68 and the rotation (0, 0), which has nothing to "
        "train, 94.24",
        lambda: [
            use(reducer)["similarity_pearson"]
            for reducer in ("PCA", "tied autoencoder", "rotation (0, 0)")
        ],
    ),
    Figure(
        "PCA (STS Spearman 76.48) than with the autoencoder (75.33)",
        lambda: [use(reducer)["sts_spearman"] for reducer in ("PCA", "tied autoencoder")],
    ),
    Figure(
        "In search (0, 0.25) is best, with an nDCG@10 of 39.06, compared with 39.19 for the uncut "
        "vectors",
        lambda: [
            0.25,
            *(use(how)["scifact ndcg@10"] for how in ("whitening (0, 0.25)", "none")),
        ],
    ),
]
