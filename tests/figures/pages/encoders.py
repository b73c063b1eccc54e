"""Encoders: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.encoders.base import SAME_COSINE
from slimdex.retrieval.encoders.distillation import DIMENSIONS
from slimdex.retrieval.encoders.over_http.http_encoder import MOST_TEXTS, USUAL_LENGTH
from slimdex.retrieval.encoders.runtimes.precision_choice import (
    LEAST_AGREEMENT,
    LEAST_COSINE,
    LEAST_GAIN,
    TEXTS,
)
from slimdex.retrieval.encoders.word_vectors.weights import SIF_A
from slimdex.retrieval.ingest.encoding import WINDOW
from slimdex.retrieval.ingest.preparing import MOST
from slimdex.retrieval.operations.language_note import SAMPLE

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
    Figure("a sample of 200 documents", lambda: [SAMPLE]),
    Figure("Requests hold up to 32 texts", lambda: [MOST_TEXTS]),
    Figure(
        "429 and 5xx are retried",
        test="tests/retrieval/encoders/over_http/test_faults.py::test_the_server_says_when_to_come_again",
    ),
    Figure("more than 8,192 documents, commit the vectors of each 1,024", lambda: [MOST, WINDOW]),
    Figure("states as its limit, or 512", lambda: [USUAL_LENGTH]),
    Figure("a cosine below 0.99", lambda: [SAME_COSINE]),
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
