"""Encoders: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.encoders.distillation import DIMENSIONS
from slimdex.retrieval.encoders.runtimes.precision_choice import (
    LEAST_AGREEMENT,
    LEAST_COSINE,
    LEAST_GAIN,
    TEXTS,
)
from slimdex.retrieval.encoders.word_vectors.weights import SIF_A

from ..links import Figure, row

SMALL, LARGE = "all-MiniLM-L6-v2-static", "all-MiniLM-L6-v2"


def similarity(model: str, pooling: str) -> float:
    """The average over the sets of vectors as they are, in points."""
    found = row("sts", model=model, language="english", reducer="none", pooling=pooling)
    return float(found["average"])


def search(model: str) -> float:
    """nDCG@10 of the default index of SciFact."""
    return float(row("stored", model=model, set="scifact", way="fp16", gamma=0.25)["ndcg@10"])


FIGURES = [
    Figure(
        "at least 1.1 times as fast here, the cosine of a text's two vectors is 0.999 or more, and "
        "95% of its ten nearest neighbours are the same. The last two are means over the first 64 "
        "sentences",
        lambda: [LEAST_GAIN, LEAST_COSINE, 100 * LEAST_AGREEMENT, TEXTS],
    ),
    Figure("with a = 0.001", lambda: [SIF_A]),
    Figure("PCA keeps 256 dimensions", lambda: [DIMENSIONS]),
    Figure(
        "keeps 67.59 of its 78.88 points of [similarity], and a default index of SciFact with it "
        "keeps 46.6 of 65.0 points",
        lambda: [
            *(similarity(SMALL, "own"), similarity(LARGE, "mean@-1")),
            *(search(SMALL), search(LARGE)),
        ],
    ),
]
