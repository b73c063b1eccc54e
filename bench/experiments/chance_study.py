"""`slimdex bench chance`: how often `search` notes that even the best hit is as if by chance.

Of a set's own queries it should seldom be said; of queries of other sets, which may well find
something here, and of words that are made up, often.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.indexes.progress import Progress, silent
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.query_pools import encoded
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder

from ..data.datasets import Dataset
from ..rows import Row

OWN, EACH_OTHER, MADE_UP = 500, 50, 200
"""Queries of the set itself, of each other set, and made up."""


def measure_chance(
    sets: Sequence[Dataset], encoder: Encoder, progress: Progress = silent
) -> list[Row]:
    """A row for each set, in an index of its own with default settings.

    Returns
    -------
    Rows with ``set``, ``rows``, ``chance_score`` and the shares of queries whose best hit is below
    it: ``own``, ``foreign`` and ``made_up``; None where that score is not known, or there is no
    other set.
    """
    rows = []
    for dataset in sets:
        others = [other for other in sets if other is not dataset]
        asked = {
            "own": drawn(dataset.query_texts, OWN),
            "foreign": [text for other in others for text in drawn(other.query_texts, EACH_OTHER)],
            "made_up": made_up(MADE_UP),
        }
        with (
            TemporaryDirectory(prefix="slimdex-bench-") as folder,
            Collection.create(Path(folder) / "index", encoder) as collection,
        ):
            pairs = zip(dataset.ids, dataset.texts, strict=True)
            collection.add([Document(id, text) for id, text in pairs], progress=progress)
            score = collection.chance_score()
            row: Row = {
                "set": dataset.name,
                "rows": collection._state.rows,
                "chance_score": score,
            }
            for name, texts in asked.items():
                row[name] = None
                if score is not None and texts:
                    vectors = encoded(encoder, texts, progress)
                    best, _ = collection._search_vectors(vectors, 1)
                    row[name] = float((best[:, 0] < score).mean())
        rows.append(row)
    return rows


def drawn(texts: Sequence[str], count: int) -> list[str]:
    """So many of some texts, or all, the same ones each time."""
    order = np.random.default_rng(0).permutation(len(texts))[:count]
    return [texts[i] for i in order]


def made_up(count: int) -> list[str]:
    """Texts of one to six words that are none: every other one of syllables, else of letters.

    >>> made_up(2)
    ['pamagaha puwomo wage sasu halakaka mopegipu', 'ryqvr kwdpsvn ikmsx ynj ogispni kixgfsqb']
    """
    rng = np.random.default_rng(0)

    def word(is_spoken: bool) -> str:
        if is_spoken:
            pairs = zip(
                rng.choice(list("bcdfghjklmnprstvwz"), 4), rng.choice(list("aeiou"), 4), strict=True
            )
            return "".join(a + b for a, b in list(pairs)[: rng.integers(2, 5)])
        return "".join(rng.choice(list(string.ascii_lowercase), rng.integers(3, 10)))

    return [
        " ".join(word(i % 2 == 0) for _ in range(int(rng.integers(1, 7)))) for i in range(count)
    ]
