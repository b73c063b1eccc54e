"""Own queries, those of others and made-up ones against what is by chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.data.datasets import Dataset
from slimdex.bench.experiments.chance_study import MADE_UP, made_up, measure_chance
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder


def dataset(name: str, count: int) -> Dataset:
    """Documents of three words of their own each; a query is a document's first two words."""
    words = [[f"{name}{i}{letter}" for letter in "abc"] for i in range(count)]
    documents = [Document(str(i), " ".join(own)) for i, own in enumerate(words)]
    queries = [(f"q{i}", " ".join(own[:2])) for i, own in enumerate(words)]
    return Dataset.of(name, documents, queries, {f"q{i}": {str(i): 1} for i in range(count)})


@pytest.mark.slow
def test_shares_are_those_of_brute_force(tmp_path: Path) -> None:
    sets, encoder = [dataset("x", 150), dataset("y", 120)], WordEncoder(256)
    x, y = measure_chance(sets, encoder)
    assert (x["set"], x["rows"], y["rows"]) == ("x", 150, 120)
    assert x["own"] == y["own"] == 0  # two of three words score 0.8
    with Collection.create(tmp_path / "x", encoder) as collection:
        pairs = zip(sets[0].ids, sets[0].texts, strict=True)
        collection.add([Document(id, text) for id, text in pairs])
        assert x["chance_score"] == collection.chance_score()
        best = [hits[0].score for hits in collection.search_many(made_up(MADE_UP), 1)]
    assert x["made_up"] == pytest.approx(np.mean(np.array(best) < x["chance_score"]))
    assert 0.1 < x["made_up"] < 0.9  # random directions: as often as not
    assert 0.1 < x["foreign"] < 0.9


def test_of_too_few_documents_nothing_is_known() -> None:
    (row,) = measure_chance([dataset("x", 50)], WordEncoder(256))
    assert (row["chance_score"], row["own"], row["foreign"]) == (None, None, None)
