"""The chance score against brute force and simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.search.random_baseline import FEWEST, SAMPLE, WIDEST, one_in

DIM, COUNT = 128, 240
PLAIN = Settings(kind="flat", gamma=0.0)
NORMAL = np.sort(np.random.default_rng(1).standard_normal(2_000_000))


def vectors(count: int = COUNT, seed: int = 0) -> np.ndarray:
    """Of unit length, with something in common, so that the scores' mean is not 0."""
    drawn = np.random.default_rng(seed).standard_normal((count, DIM)) + 0.3
    return normalize_rows(drawn.astype(np.float32))


def documents(count: int = COUNT) -> list[Document]:
    return [Document(str(i), "x", metadata={"number": i}) for i in range(count)]


def made(path: Path, X: np.ndarray, settings: Settings = PLAIN) -> Collection:
    collection = Collection.create(path, GivenEncoder(X.shape[1]), settings)
    collection.add(documents(len(X)), vectors=X)
    return collection


def brute(X: np.ndarray, count: int) -> float:
    """The deviation of all pairs' cosines, times the level that one in `count` normal values
    exceeds."""
    pairs = (X @ X.T)[np.triu_indices(len(X), 1)]
    return float(pairs.std() * NORMAL[int(len(NORMAL) * (1 - 1 / count))])


def test_the_chance_score_equals_brute_force(tmp_path: Path) -> None:
    X = vectors()
    with made(tmp_path / "x", X) as collection:
        assert collection.chance_score() == pytest.approx(brute(X, COUNT), rel=0.01)
        some = collection.chance_score("number < 120")
        assert some == pytest.approx(brute(X, 120), rel=0.01)
        collection.delete([str(i) for i in range(100)])
        assert collection.chance_score() == pytest.approx(brute(X[100:], 140), rel=0.01)


def test_the_best_random_score_reaches_it_about_half_the_time() -> None:
    drawn = np.random.default_rng(0).standard_normal((2000, 500)) * 0.08
    reached = (drawn.max(axis=1) > one_in(500, 0.08)).mean()
    assert reached == pytest.approx(1 - np.exp(-1), abs=0.03)  # of one in 500, none of 500: 1/e


def test_a_sample_stands_for_more_rows_and_is_the_same_each_time(tmp_path: Path) -> None:
    X = vectors(4 * SAMPLE)
    with made(tmp_path / "x", X) as collection:
        score = collection.chance_score()
        assert score == pytest.approx(brute(X, len(X)), rel=0.08)
        assert collection.chance_score() == score
        collection.delete([str(i) for i in range(len(X) - 300)])  # most of those drawn are gone
        assert collection.chance_score() == pytest.approx(brute(X[-300:], 300), rel=0.08)


@pytest.mark.slow
def test_there_is_no_chance_score_without_a_basis(tmp_path: Path) -> None:
    with made(tmp_path / "few", vectors(FEWEST - 1)) as collection:
        assert collection.chance_score() is None
    with made(tmp_path / "codes", vectors(), Settings(kind="flat", candidates=0)) as collection:
        assert collection.chance_score() is None
    drawn = np.random.default_rng(0).standard_normal((COUNT, 24)).astype(np.float32)
    with made(tmp_path / "wide", drawn) as collection:
        assert brute(normalize_rows(drawn), COUNT) > one_in(COUNT, WIDEST)
        assert collection.chance_score() is None
    with made(tmp_path / "where", vectors()) as collection:
        assert collection.chance_score("number < 5") is None
