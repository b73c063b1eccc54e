"""Proofs: queries are added until an agreement is proved, and what is false hardly ever is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from slimdex import Collection, GivenEncoder
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.retrieval.quality import tuning, tuning_targets
from slimdex.retrieval.quality.metric_choice import DEFAULT
from slimdex.retrieval.quality.query_pools import document_queries
from slimdex.retrieval.quality.recall_trials import Pool, Trials
from slimdex.retrieval.quality.settings_search import Proving, SettingsSearch, possible_settings
from slimdex.retrieval.quality.tuning_targets import Target

DIM, DOCUMENTS = 16, 1000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of random vectors, which have no axes to leave out."""
    path = tmp_path_factory.mktemp("made") / "x"
    rng = np.random.default_rng(0)
    with Collection.create(path, GivenEncoder(DIM), lexical=False) as collection:
        texts = [{"id": i, "text": "a"} for i in range(DOCUMENTS)]
        collection.add(texts, vectors=rng.normal(size=(DOCUMENTS, DIM)))
    return path


@pytest.fixture
def collection(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.setattr(tuning, "CHOOSING", 100)
    monkeypatch.setattr(tuning_targets, "PROVING", 50)
    with Collection.open(made) as opened:
        yield opened


def test_queries_are_added_where_the_first_ones_prove_too_little(collection: Collection) -> None:
    """Fifty queries that find everything prove .92."""
    found = collection.tune(Target(agreement=0.95))
    assert found.lacking is None
    assert found.chosen is not None
    assert found.certificate is not None
    assert found.certificate.queries in (100, 200)
    assert found.certificate.bound >= 0.95
    assert found.chosen.queries == found.certificate.queries


def test_the_best_is_named_if_nothing_is_proved(
    collection: Collection, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The only settings reach the target, by too little for fifty queries to prove it."""
    snapshot = collection.index.snapshot
    trials = Trials(snapshot, tmp_path)
    settings = possible_settings(trials, DEFAULT, [("pq", (1 / 4,))])
    draw = document_queries(snapshot, None, rng)
    exact = partial(trials.exact, rescorer=Rescorer.fit(trials.moments, *DEFAULT))
    choosing = draw(100)
    truth = exact(choosing)
    (only,) = settings
    reached = float(trials.measure(trials.build(only), choosing, truth)[0].mean())
    target = Target(agreement=reached - 0.01)
    proving = Proving(target.agreement, 50, draw, exact)
    (tried,) = SettingsSearch(trials, target, [(choosing, truth)], proving).run(settings)
    assert (tried.settings, tried.verdict) == (only, "not proved")
    assert tried.estimate == reached
    assert tried.bound < target.agreement


def test_all_that_is_proved_of_many_indexes_and_stages_is_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to the error: each of twelve indexes finds a little less than the agreement."""
    monkeypatch.setattr(tuning_targets, "PROVING", 40)
    rng, wrong, runs = np.random.default_rng(3), 0, 60

    def draw(count: int) -> Pool:
        return Pool.of_queries("none", np.zeros((count, 1), np.float32))

    for _ in range(runs):
        proving = Proving(0.5, 160, draw, lambda pool: np.zeros((len(pool), 10), np.int64))
        ranks = np.repeat(rng.choice([5.0, 9.0], size=(12, 160, 1), p=[0.499, 0.501]), 10, axis=2)
        is_proved = False
        while proving.add_queries():
            is_proved |= any(
                proving.proved(each[: len(proving)], [6], place)
                for place, each in enumerate(ranks, start=1)
            )
        wrong += is_proved
    assert len(proving) == 160
    assert wrong <= 0.05 * runs + 2 * sqrt(0.05 * 0.95 * runs)
