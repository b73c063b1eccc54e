"""Tuning: what it chooses reaches what it says, on queries that it has not seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repair import verify
from slimdex.retrieval.quality.tuning import targets
from slimdex.retrieval.quality.tuning import tuner as tuning
from slimdex.retrieval.quality.tuning.targets import SHARES, Target
from slimdex.retrieval.trials import query_pools
from slimdex.retrieval.trials.query_pools import document_pool
from slimdex.retrieval.trials.recall_trials import Trials
from tests.conftest import Copies
from tests.encoders import WordEncoder


@pytest.fixture(autouse=True)
def _fewer_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as prove .95, so that the tests are quick."""
    monkeypatch.setattr(tuning, "CHOOSING", 150)
    monkeypatch.setattr(targets, "PROVING", 500)
    monkeypatch.setattr(tuning, "CERTIFIED", 300)


@pytest.fixture
def path(tmp_path: Path, copied: Copies) -> Path:
    return copied(tmp_path / "x")


@pytest.fixture
def collection(path: Path) -> Iterator[Collection]:
    with Collection.open(path, WordEncoder()) as opened:
        yield opened


def agreement(collection: Collection, folder: Path, seed: int) -> float:
    """Of the settings in force, by queries that nothing was chosen or proved on."""
    pool = document_pool(
        collection.snapshot,
        collection.store,
        WordEncoder(),
        500,
        np.random.default_rng(seed),
    )
    trials = Trials(collection.snapshot, collection.commit_log.moments(), folder)
    metric = collection.reduced_index.metric
    assert metric is not None
    shares, _ = trials.found(collection.reduced_index, pool, trials.exact(pool, metric.rescorer))
    return float(shares.mean())


def test_what_is_applied_reaches_the_target(collection: Collection, tmp_path: Path) -> None:
    before = collection.state
    found = collection.tune(Target(agreement=0.95))
    assert collection.state == before
    assert found.chosen is not None
    assert found.certificate is not None
    assert found.certificate.bound >= 0.95
    assert found.certificate.queries == 500
    assert not found.applied
    applied = collection.tune(Target(agreement=0.95), apply=True)
    assert applied.applied
    assert applied.chosen is not None
    assert applied.certificate is not None
    assert collection.state.settings == applied.chosen.settings == found.chosen.settings
    assert collection.state.certificate == applied.certificate
    assert collection.info()["certificate"]["target"] == 0.95
    assert collection.reduced_index.nbytes == applied.chosen.ram
    (tmp_path / "trials").mkdir()
    assert agreement(collection, tmp_path / "trials", seed=99) >= 0.95
    assert collection.verify() == []
    json.dumps(applied.as_dict())


@pytest.mark.slow
def test_it_is_the_least_of_memory_that_was_tried_to_reach_it(collection: Collection) -> None:
    low, high = (collection.tune(Target(agreement=share)) for share in (0.7, 0.95))
    assert low.chosen is not None
    assert high.chosen is not None
    assert low.chosen.ram < high.chosen.ram
    assert all(tried.ram <= high.chosen.ram for tried in high.tried)
    assert any("holds if real queries are no harder than these" in line for line in low.said)


@pytest.mark.slow
def test_what_can_not_be_had_is_said_with_the_nearest_that_can(collection: Collection) -> None:
    found = collection.tune(Target(agreement=0.95, ram=17_000))
    assert found.chosen is None
    assert found.lacking is not None
    assert found.lacking.startswith("17 kB reach an agreement of 0.")
    assert "the nearest that reaches 0.95 takes" in found.lacking
    nearest = collection.tune(Target(agreement=0.95)).chosen
    assert nearest is not None
    assert f"({nearest.settings.kind}, k={nearest.settings.k}," in found.lacking
    with pytest.raises(InputError, match="17 kB reach an agreement of"):
        collection.tune(Target(agreement=0.95, ram=17_000), apply=True)
    assert collection.state.certificate is None


@pytest.mark.slow
def test_limits_of_time_and_disk(collection: Collection) -> None:
    for target, words in (
        (Target(agreement=0.9, p99_ms=1e-6), "1e-06 ms: no settings"),
        (Target(agreement=0.9, disk=1000), "1 kB on disk: no settings"),
    ):
        found = collection.tune(target)
        assert found.chosen is None
        assert words in (found.lacking or "")
        assert "the nearest that reaches 0.9 takes" in (found.lacking or "")
    easy = collection.tune(Target(agreement=0.9, ram=10**9, disk=10**9, p99_ms=1e5))
    assert easy.lacking is None
    assert easy.chosen is not None


@pytest.mark.slow
def test_queries_of_a_log_choose_and_prove(
    collection: Collection, docstrings: list[Document]
) -> None:
    texts = [query_pools.sentences(d.content)[:1] for d in docstrings]
    queries = [each[0] for each in texts if each]
    found = collection.tune(Target(agreement=0.9), queries=queries)
    assert found.certificate is not None
    assert found.certificate.pool == "queries that were given"
    assert found.certificate.queries == 500
    labels = {q: {d.id: 1} for q, d in zip(queries, docstrings, strict=False)}
    with_labels = collection.tune(Target(agreement=0.9), queries=queries, labels=labels)
    assert "queries with labels" in with_labels.metric
    with pytest.raises(InputError, match=r"agreement=0\.99: 75 of 100 queries prove 0\.9"):
        collection.tune(Target(agreement=0.99), queries=queries[:100])
    with pytest.raises(InputError, match=r"0 of 1 queries prove 0\.0000 at most; expected more"):
        collection.tune(queries=queries[:1])
    with pytest.raises(InputError, match="labels without queries"):
        collection.tune(labels=labels)


def test_what_queries_can_not_prove_is_refused_before_one_is_encoded(
    path: Path, docstrings: list[Document]
) -> None:
    encoder = WordEncoder()
    texts = [document.id for document in docstrings[:100]]
    with Collection.open(path, encoder) as collection:
        with pytest.raises(InputError, match=r"agreement=0\.999: 500 queries prove 0\.9"):
            collection.tune(Target(agreement=0.999))
        with pytest.raises(InputError, match=r"75 of 100 queries prove 0\.9.*expected more"):
            collection.tune(Target(agreement=0.99), queries=texts)
    assert not encoder.encoded


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (Target(agreement=1.0), "agreement=1.0; expected above 0 and below 1"),
        (Target(agreement=float("nan")), "agreement=nan"),
        (Target(ram=0), "ram=0; expected above 0"),
        (Target(disk=-1), "disk=-1"),
        (Target(p99_ms=0.0), "p99_ms=0.0"),
    ],
)
def test_targets_that_nothing_reaches(collection: Collection, target: Target, match: str) -> None:
    with pytest.raises(InputError, match=match):
        collection.tune(target)


@pytest.mark.slow
def test_few_documents_keep_what_they_have(tmp_path: Path, docstrings: list[Document]) -> None:
    with Collection.create(tmp_path / "few", WordEncoder()) as collection:
        with pytest.raises(InputError, match="holds no documents"):
            collection.tune()
        collection.add(docstrings[:60])
        before = collection.state.settings
        found = collection.tune(Target(agreement=0.9), apply=True)
        assert "60 documents of 48 dimensions, fewer than 1.5 for each" in found.metric
        assert collection.state.settings == before
        assert collection.state.certificate == found.certificate
        assert found.certificate is not None
        assert found.certificate.estimate == 1
        collection.reduce(Settings(candidates=0))
        with pytest.raises(InputError, match="candidates=0"):
            collection.tune()


@pytest.mark.slow
def test_a_failed_proof_costs_error_and_the_next_is_stricter(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no room left for chance, a setting that barely promises is refused now and then."""
    assert sum(SHARES) == pytest.approx(1)
    monkeypatch.setattr(targets, "PROVING", 150)
    asked = [collection.tune(Target(agreement=share)) for share in (0.8, 0.85, 0.9)]
    for found in asked:
        assert len([t for t in found.tried if t.verdict == "not proved"]) <= len(SHARES)
        if found.certificate is not None:
            assert found.certificate.bound >= found.target.agreement


@pytest.mark.slow
def test_certify(collection: Collection, path: Path, tmp_path: Path) -> None:
    made = collection.certify()
    assert made == collection.state.certificate
    assert made.target is None
    (tmp_path / "trials").mkdir()
    assert made.bound <= agreement(collection, tmp_path / "trials", seed=5)
    assert collection.tune(Target(agreement=0.5)).certificate != made
    collection.close()
    assert verify(path) == []
    with Collection.open(path, WordEncoder()) as again:
        assert again.state.certificate == made
        assert again.tune(Target(agreement=0.5)).chosen is not None
