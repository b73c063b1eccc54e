"""Small collections of small models, whose vectors others are to give."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slimdex import Collection, Settings
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.search.reduced_index import reduced
from slimdex.retrieval.encoders.base import Encoder, encode_queries

WORDS = ["the", "cat", "dog", "rain", "a", "sun", "and", "field", "xyz", "ink"]
TEXTS = [
    " ".join(np.random.default_rng(i).choice(WORDS, 1 + i % 9).tolist()) for i in range(60)
] + ["The Cat " * 40]
"""Of one word to many, and one that is longer than what the tiny models read."""


def made(folder: Path, encoder: Encoder, settings: Settings) -> Collection:
    collection = Collection.create(folder, encoder, settings, passages="off")
    collection.add([{"id": str(i), "text": text} for i, text in enumerate(TEXTS)])
    return collection


def of_queries(collection: Collection) -> Matrix:
    """The reduced vectors of the texts as queries, by slimdex itself."""
    return reduced(collection.reduced_index.reducer, encode_queries(collection.encoder, TEXTS))
