"""Agreement and times of an index that there is, against brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.bench.cli import app
from slimdex.bench.experiments.index_study import PARTS, half_remembered, measure_index
from slimdex.indexes.errors import InputError
from slimdex.indexes.reducers.linear import Whitening
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.conftest import Copies
from tests.encoders import WordEncoder


@pytest.fixture
def collection(tmp_path: Path, copied: Copies) -> Collection:
    return Collection.open(copied(tmp_path / "i", 900, Settings(k=8)), WordEncoder())


def test_agreement_is_that_of_brute_force(collection: Collection) -> None:
    rows = measure_index(collection, [10, 900, None], queries=20, seed=3)
    assert [row["candidates"] for row in rows] == [10, 900, 200]
    texts = half_remembered(collection, 20, np.random.default_rng(3))
    X = collection.commit_log.vectors().take(np.arange(900))
    whitening = Whitening(X.shape[1], 0.0, 0.25).fit(X)
    a, b = (
        Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)
        for Y in map(whitening.transform, (WordEncoder().encode(texts), X))
    )
    cosines = a @ b.T
    tenth = -np.sort(-cosines, axis=1)[:, 9]
    _, found = collection.reduced_index.search(WordEncoder().encode(texts), 10, candidates=10)
    shares = [
        (cosines[i, row] > tenth[i] - 1e-6).mean() for i, row in enumerate(found)
    ]  # equal texts may take each other's place
    assert rows[0]["agreement@10"] == pytest.approx(float(np.mean(shares)), abs=0.02)
    assert rows[1]["agreement@10"] == 1
    assert 0 < rows[0]["agreement@10"] < rows[2]["agreement@10"] <= 1
    for row in rows:
        for part in PARTS:
            assert 0 < row[f"p50_ms_{part}"] <= row[f"p95_ms_{part}"] <= row[f"p99_ms_{part}"]
        assert row["p50_ms_text"] > row["p50_ms_encode"]


def test_queries_have_some_words_of_their_documents(collection: Collection) -> None:
    texts = half_remembered(collection, 30, np.random.default_rng(0))
    rows = np.sort(np.random.default_rng(0).choice(900, 30, replace=False)).tolist()
    documents = collection.store.documents.read(rows)
    kept = [
        (len(text.split()), len(documents[row].content.split()))
        for text, row in zip(texts, rows, strict=True)
    ]
    assert all(few <= many for few, many in kept)
    assert 0.5 < sum(few for few, _ in kept) / sum(many for _, many in kept) < 0.7


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder(), Settings(candidates=0)) as made:
        made.add([Document(str(i), f"word{i}") for i in range(9)])
        with pytest.raises(InputError, match="candidates=0"):
            measure_index(made, [10])
        made.reduce(Settings())
        with pytest.raises(InputError, match="9 documents; expected 10 or more"):
            measure_index(made, [10])


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path, tiny_bert: Path, docstrings: list[Document]) -> None:
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    with Collection.create(tmp_path / "i", TransformerEncoder(str(tiny_bert))) as made:
        made.add(docstrings[:700])
        rows = made.state.rows
    assert rows > 700  # some are cut into passages
    done = CliRunner().invoke(
        app, ["search", str(tmp_path / "i"), "--queries", "5", "--candidates", "50,auto", "--json"]
    )
    report = json.loads(done.stdout)
    assert (report["rows"], report["kind"], report["k"]) == (rows, "pq", 16)
    assert [row["candidates"] for row in report["by_candidates"]] == [50, 200]
    table = CliRunner().invoke(app, ["search", str(tmp_path / "i"), "--queries", "5"]).stdout
    assert f"{rows:,} rows, pq, k=16, 2 bytes a vector in RAM" in table
