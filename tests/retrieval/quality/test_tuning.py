"""Tuning: what it chooses reaches what it says, on queries that it has not seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality import query_pools, tuning, tuning_targets
from slimdex.retrieval.quality.query_pools import document_pool
from slimdex.retrieval.quality.recall_trials import Trials
from slimdex.retrieval.quality.tuning_targets import Target
from tests.conftest import Copies
from tests.encoders import WordEncoder


@pytest.fixture(autouse=True)
def _fewer_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as prove .95, so that the tests are quick."""
    monkeypatch.setattr(tuning, "CHOOSING", 150)
    monkeypatch.setattr(tuning_targets, "PROVING", 500)


@pytest.fixture
def path(tmp_path: Path, copied: Copies) -> Path:
    return copied(tmp_path / "x")


@pytest.fixture
def collection(path: Path) -> Iterator[Collection]:
    with Collection.open(path, WordEncoder()) as opened:
        yield opened


def agreement(collection: Collection, folder: Path, seed: int) -> float:
    """Of the settings in force, by queries that nothing was chosen or proved on."""
    snapshot, rng = collection.index.snapshot, np.random.default_rng(seed)
    pool = document_pool(snapshot, WordEncoder(), 500, rng)
    trials = Trials(snapshot, folder)
    metric = snapshot.index.metric
    assert metric is not None
    shares, _ = trials.measure(snapshot.index, pool, trials.exact(pool, metric.rescorer))
    return float(shares.mean())


def test_applied_settings_reach_the_target_on_unseen_queries(
    collection: Collection, tmp_path: Path
) -> None:
    before = collection.index.state
    found = collection.tune(Target(agreement=0.95))
    assert collection.index.state == before
    assert found.chosen is not None
    assert found.certificate is not None
    assert found.certificate.bound >= 0.95
    assert found.certificate.queries in (500, 1000, 2000)
    assert all(tried.ram <= found.chosen.ram for tried in found.tried)
    assert not found.applied
    applied = collection.tune(Target(agreement=0.95), apply=True)
    assert applied.applied
    assert applied.chosen is not None
    assert applied.certificate is not None
    assert collection.index.state.settings == applied.chosen.settings == found.chosen.settings
    assert collection.index.state.certificate == applied.certificate
    assert collection.info()["certificate"]["target"] == 0.95
    assert collection.index.snapshot.index.nbytes == applied.chosen.ram
    (tmp_path / "trials").mkdir()
    assert agreement(collection, tmp_path / "trials", seed=99) >= 0.95
    assert collection.verify() == []
    json.dumps(applied.as_dict())


@pytest.mark.slow
def test_what_can_not_be_reached_is_named_with_the_nearest_settings(
    collection: Collection,
) -> None:
    low, nearest = (collection.tune(Target(agreement=share)).chosen for share in (0.7, 0.95))
    assert low is not None
    assert nearest is not None
    assert low.ram < nearest.ram
    with pytest.raises(
        InputError, match=r"0\.95 is not proved; the best that was measured is"
    ) as raised:
        collection.tune(Target(agreement=0.95, ram=nearest.ram - 1), apply=True)
    assert collection.index.state.certificate is None
    assert f"({nearest.settings.kind}, k={nearest.settings.k}," in str(raised.value)
    slow = collection.tune(Target(agreement=0.9, p99_ms=1e-6))
    assert slow.chosen is None
    assert "over 1e-06 ms" in str(slow.lacking)


@pytest.mark.slow
def test_given_queries_choose_and_prove(collection: Collection, docstrings: list[Document]) -> None:
    texts = [query_pools.sentences(d.content)[:1] for d in docstrings]
    queries = [each[0] for each in texts if each][:650]
    found = collection.tune(Target(agreement=0.9), queries=queries)
    assert found.certificate is not None
    assert found.certificate.pool == "queries that were given"
    assert found.certificate.queries == 500
    labels = {q: {d.id: 1} for q, d in zip(queries, docstrings, strict=False)}
    with_labels = collection.tune(Target(agreement=0.9), queries=queries, labels=labels)
    assert "queries with labels" in with_labels.metric
    with pytest.raises(InputError, match="labels without queries"):
        collection.tune(labels=labels)


def test_a_target_that_queries_can_not_prove_is_refused_before_encoding(
    path: Path, docstrings: list[Document]
) -> None:
    encoder = WordEncoder()
    texts = [document.id for document in docstrings[:100]]
    with Collection.open(path, encoder) as collection:
        with pytest.raises(
            InputError, match=r"agreement=0\.999; expected above 0 and at most 0\.9"
        ):
            collection.tune(Target(agreement=0.999))
        with pytest.raises(InputError, match=r"75 of 100 queries prove 0\.9.*expected more"):
            collection.tune(Target(agreement=0.99), queries=texts)
        with pytest.raises(InputError, match=r"0 of 1 queries prove 0\.0000 at most"):
            collection.tune(queries=texts[:1])
    assert not encoder.encoded


@pytest.mark.parametrize(
    "target", [Target(agreement=float("nan")), Target(ram=0), Target(p99_ms=0.0)]
)
def test_targets_that_nothing_reaches(collection: Collection, target: Target) -> None:
    with pytest.raises(InputError, match="expected above 0"):
        collection.tune(target)


@pytest.mark.slow
def test_few_documents_are_not_tuned(tmp_path: Path, docstrings: list[Document]) -> None:
    with Collection.create(tmp_path / "few", WordEncoder()) as collection:
        with pytest.raises(InputError, match="0 documents of 48 dimensions"):
            collection.tune()
        collection.add(docstrings[:60])
        with pytest.raises(InputError, match="60 documents of 48 dimensions"):
            collection.tune(Target(agreement=0.9), apply=True)
