"""Agreement and times of an existing index, against brute force."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.bench.command_line import app
from slimdex.bench.experiments import index_study
from slimdex.bench.experiments.index_study import (
    ALL,
    CONDITION,
    allowed_rows,
    by_candidates,
    cold_disk,
    half_remembered,
    under_condition,
)
from slimdex.bench.rows import ResultsFile
from slimdex.errors import InputError
from slimdex.indexes.reducers.linear import Whitening
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.conftest import Copies
from tests.encoders import WordEncoder


@pytest.fixture
def collection(tmp_path: Path, copied: Copies) -> Collection:
    return Collection.open(copied(tmp_path / "i", 900, Settings(k=8)), WordEncoder())


def test_agreement_is_that_of_brute_force(collection: Collection) -> None:
    texts = half_remembered(collection, 20, np.random.default_rng(3))
    rows = list(by_candidates(collection, [10, 900, None], texts))
    assert [row["candidates"] for row in rows] == [10, 900, 200]
    X = collection.index.snapshot.vectors().take(np.arange(900))
    whitening = Whitening(X.shape[1], 0.0, 0.25).fit(X)
    a, b = (
        Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12)
        for Y in map(whitening.transform, (WordEncoder().encode(texts), X))
    )
    cosines = a @ b.T
    tenth = -np.sort(-cosines, axis=1)[:, 9]
    _, found = collection.index.snapshot.index.search(
        WordEncoder().encode(texts), 10, candidates=10
    )
    shares = [
        (cosines[i, row] > tenth[i] - 1e-6).mean() for i, row in enumerate(found)
    ]  # equal texts may take each other's place
    assert rows[0]["agreement@10"] == pytest.approx(float(np.mean(shares)), abs=0.02)
    assert rows[1]["agreement@10"] == 1
    assert 0 < rows[0]["agreement@10"] < rows[2]["agreement@10"] <= 1
    for row in rows:
        for part in ("hits", "text", "text_all"):
            assert 0 < row[f"p50_ms_{part}"] <= row[f"p95_ms_{part}"] <= row[f"p99_ms_{part}"]


def test_conditions_are_measured_among_what_they_allow(tmp_path: Path) -> None:
    words = [f"word{i % 40} thing{i % 7} end{i}" for i in range(900)]
    with Collection.create(tmp_path / "i", WordEncoder(), Settings(k=8)) as made:
        made.add([Document(str(i), text, metadata={"n": i}) for i, text in enumerate(words)])
        allowed = allowed_rows(made, "n % 3 = 1")
        assert allowed.tolist() == list(range(1, 900, 3))
        row = under_condition(made, "n % 3 = 1", allowed, words[:30])
        with pytest.raises(InputError, match="n < 0"):
            allowed_rows(made, "n < 0")
    assert (row["allowed_share"], row["agreement@10"]) == (1 / 3, 1)
    assert 0 < row["p50_ms_hits"] <= row["p99_ms_hits"]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system can't drop pages")
def test_a_cold_disk_is_searched_like_a_warm_one(collection: Collection) -> None:
    row = cold_disk(collection.path, WordEncoder(), ["a cat", "a dog", "a rug", "rain"])
    assert row.keys() == {*(f"p{p}_ms_hits" for p in (50, 95, 99)), "read_query_bytes"}
    assert 0 < row["p50_ms_hits"] <= row["p99_ms_hits"]


@pytest.mark.slow
def test_on_the_command_line(
    tmp_path: Path, tiny_bert: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(index_study, "QUERIES", 10)
    with Collection.create(tmp_path / "own", TransformerEncoder(str(tiny_bert))) as made:
        made.add(docstrings[:250])
        rows = made.index.state.rows
    assert rows > 624  # some are cut into passages
    words = ["index", "own", "--candidates", "50,auto", "--where", "id <> '1'"]
    said = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    assert f"{rows:,} rows of kind pq with k=16, " in said
    found = ResultsFile(tmp_path / "bench-results" / "index-own.jsonl").rows.values()
    assert [row["candidates"] for row in found if row["way"] == ALL] == [50, 200]
    assert [row["condition"] for row in found if row["way"] == CONDITION] == ["id <> '1'"]
    (queries := tmp_path / "queries.jsonl").write_text('{"text": "a list"}\n' * 4)
    said = CliRunner().invoke(app, [*words[:2], "--queries", str(queries)]).stdout
    assert "id <> '1'" not in said  # the file has the last measurement
