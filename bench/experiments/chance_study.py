"""`slimdex bench chance`: how often `search` notes that even the best hit is as if by chance.

Of a set's own queries it should seldom be said; of queries of other sets, which may well find
something here, and of words that are made up, often.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.indexes.progress import Progress, silent
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.query_pools import encoded
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder

from ..data.datasets import Dataset
from ..rows import ResultsFile, Row, key_of

OWN, EACH_OTHER, MADE_UP = 500, 50, 200
"""Queries of the set itself, of each other set, and made up."""


def measure_chance(
    sets: Sequence[Dataset],
    model: str,
    encoder: Encoder,
    results: ResultsFile,
    about: Row,
    progress: Progress = silent,
) -> None:
    """Write a row for each set that has none yet, in an index of its own with default settings.

    ``own_noted``, ``others_noted`` and ``made_up_noted`` are shares of queries whose best hit
    scores less than ``chance_score``; None where that is not known, or there is no other set.
    """
    for dataset in sets:
        others = [other for other in sets if other is not dataset]
        known: Row = {"set": dataset.name, "model": model, "sets": [o.name for o in others]}
        if (key := key_of(known)) in results.rows:
            continue
        asked = {
            "own": drawn(dataset.query_texts, OWN),
            "others": [text for other in others for text in drawn(other.query_texts, EACH_OTHER)],
            "made_up": made_up(MADE_UP),
        }
        results.append({"key": key} | known | _noted(dataset, encoder, asked, progress) | about)


def _noted(
    dataset: Dataset, encoder: Encoder, asked: Mapping[str, Sequence[str]], progress: Progress
) -> Row:
    """Build an index, and count the best hits that are as if by chance."""
    with (
        TemporaryDirectory(prefix="slimdex-bench-") as folder,
        Collection.create(Path(folder) / "index", encoder) as collection,
    ):
        pairs = zip(dataset.ids, dataset.texts, strict=True)
        collection.add([Document(id, text) for id, text in pairs], progress=progress)
        score = collection.chance_score()
        row: Row = {"rows": collection._state.rows, "chance_score": score}
        for name, texts in asked.items():
            row[f"{name}_noted"] = None
            if score is not None and texts:
                best, _ = collection._search_vectors(encoded(encoder, texts, progress), 1)
                row[f"{name}_noted"] = float((best[:, 0] < score).mean())
    return row


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
