"""Own queries, those of others and made-up ones against what is by chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.data.datasets import Dataset
from slimdex.bench.experiments.chance_study import MADE_UP, made_up, measure_chance
from slimdex.bench.reporting.passage_tables import chance
from slimdex.bench.reporting.verdict import chance_line
from slimdex.bench.rows import ResultsFile, Row
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder


def dataset(name: str, count: int) -> Dataset:
    """Documents of three words of their own each; a query is a document's first two words."""
    words = [[f"{name}{i}{letter}" for letter in "abc"] for i in range(count)]
    documents = [Document(str(i), " ".join(own)) for i, own in enumerate(words)]
    queries = [(f"q{i}", " ".join(own[:2])) for i, own in enumerate(words)]
    return Dataset.of(name, documents, queries, {f"q{i}": {str(i): 1} for i in range(count)})


def measured(path: Path, sets: list[Dataset]) -> list[Row]:
    results = ResultsFile(path / "chance-words.jsonl")
    measure_chance(sets, "words", WordEncoder(256), results, {"seed": 0})
    return list(ResultsFile(results.path).rows.values())


@pytest.mark.slow
def test_shares_are_those_of_brute_force(tmp_path: Path) -> None:
    sets, encoder = [dataset("x", 150), dataset("y", 120)], WordEncoder(256)
    x, y = measured(tmp_path, sets)
    assert (x["set"], x["model"], x["sets"], x["rows"], y["rows"]) == (
        "x",
        "words",
        ["y"],
        150,
        120,
    )
    assert x["own_noted"] == y["own_noted"] == 0  # two of three words score 0.8
    with Collection.create(tmp_path / "x", encoder) as collection:
        pairs = zip(sets[0].ids, sets[0].texts, strict=True)
        collection.add([Document(id, text) for id, text in pairs])
        assert x["chance_score"] == pytest.approx(collection.chance_score(), rel=1e-5)
        best = [hits[0].score for hits in collection.search_many(made_up(MADE_UP), 1)]
    assert x["made_up_noted"] == pytest.approx(np.mean(np.array(best) < x["chance_score"]))
    assert 0.1 < x["made_up_noted"] < 0.9  # random directions: as often as not
    assert 0.1 < x["others_noted"] < 0.9
    assert measured(tmp_path, sets) == [x, y]  # not measured again
    (table,) = chance([x])
    shares = [f"{x[f'{name}_noted']:.1%}" for name in ("own", "others", "made_up")]
    cells = ["x", "words", "150", f"{x['chance_score']:.3f}", *shares]
    assert [cell.shown for cell in table.rows[0]] == cells
    assert chance_line([x]) == (
        f"best hits by chance: own queries 0.0% to 0.0%; made-up words {shares[2]} to {shares[2]}"
    )


def test_of_too_few_documents_nothing_is_known(tmp_path: Path) -> None:
    (row,) = measured(tmp_path, [dataset("x", 50)])
    assert (row["chance_score"], row["own_noted"], row["others_noted"]) == (None, None, None)
    assert chance_line([row]) == "best hits by chance: not known of so few documents"
