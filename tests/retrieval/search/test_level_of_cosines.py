"""Order does not depend on the level of cosines: a constant coordinate changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.search.request import SearchRequest

WORDS = [f"word{i}" for i in range(300)]
LEVELS = (0.0, 0.5, 0.9)
FUSIONS = ("off", "auto", "0.2", "0.6")


def raised(rows: Matrix, level: float) -> Matrix:
    """Rows of unit length whose cosines c are level + (1 - level) * c."""
    constant = np.full((len(rows), 1), np.sqrt(level), np.float32)
    return np.hstack([np.sqrt(1 - level).astype(np.float32) * normalize_rows(rows), constant])


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(kind="flat"), Settings(beta=1.0)], ids=str
)
def test_a_constant_coordinate_changes_no_order(settings: Settings, tmp_path: Path) -> None:
    """Of ten answers to 100 queries, 99.8% are the same at every level, as exact search has them.

    The others differ by less than float16 can say.
    """
    rng = np.random.default_rng(3)
    spectrum = 1 / np.arange(1, 49)
    rows = (rng.normal(size=(1500, 48)) * spectrum).astype(np.float32)
    asked = rng.choice(1500, 100, replace=False)
    queries = rows[asked] + (rng.normal(size=(100, 48)) * spectrum / 2).astype(np.float32)
    chosen = [rng.choice(WORDS, 12) for _ in rows]
    documents = [Document(str(i), " ".join(words)) for i, words in enumerate(chosen)]
    texts = [" ".join(rng.choice(chosen[i], 4)) for i in asked.tolist()]
    found = dict[tuple[float, str], list[list[str]]]()
    for level in LEVELS:
        path = tmp_path / f"{level}.index"
        with Collection.create(path, GivenEncoder(49), settings) as collection:
            collection.add(documents, vectors=raised(rows, level))
            for hybrid in FUSIONS:
                request = SearchRequest(texts=texts, vectors=raised(queries, level), hybrid=hybrid)
                answers = collection.answer(request)
                found[level, hybrid] = [[hit.id for hit in hits] for hits in answers]
    if not settings.beta:
        best = np.argsort(-(normalize_rows(queries) @ normalize_rows(rows).T), kind="stable")
        assert same(found[0.0, "off"], [[str(i) for i in row[:10]] for row in best]) >= 0.998
    for level in LEVELS[1:]:
        for hybrid in FUSIONS:
            assert same(found[level, hybrid], found[0.0, hybrid]) >= 0.998, (level, hybrid)


def same(some: list[list[str]], others: list[list[str]]) -> float:
    """Share of answers that are the same."""
    pairs = zip(some, others, strict=True)
    return float(np.mean([len({*a} & {*b}) / len(a) for a, b in pairs]))
