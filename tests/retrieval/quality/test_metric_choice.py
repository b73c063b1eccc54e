"""Which (beta, gamma): of raw and tuned encoders, with labels and without."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.reducers.moments import Moments
from slimdex.retrieval.quality.metric_choice import DEFAULT, LEAST_TIMES, by_keywords, by_labels


def moments(X: Matrix) -> Moments:
    return Moments(X.shape[1]).update(X)


def told_apart(rng: np.random.Generator, raw: bool) -> tuple[Matrix, Matrix, Rows]:
    """Documents and queries about them; of a raw encoder, a few directions drown the others."""
    X = rng.normal(size=(600, 32)).astype(np.float32)
    queries = X[:200] + 0.7 * rng.normal(size=(200, 32)).astype(np.float32)
    if raw:
        for each in (X, queries):
            each[:, :3] += 6 * rng.normal(size=(len(each), 3)).astype(np.float32)
            each[:, :3] *= 3
            each += 4
    return X, queries, np.arange(200)


def test_keywords_prove_raw_encoders_only(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    cell, _, bound = by_keywords(moments(X), X, queries, targets)
    assert cell != DEFAULT
    assert bound > 0
    X, queries, targets = told_apart(rng, raw=False)
    _, times, bound = by_keywords(moments(X), X, queries, targets)
    assert times < 1.2
    assert bound < 0


def test_the_gain_is_that_of_mean_reciprocal_ranks(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    cell, times, bound = by_keywords(moments(X), X, queries, targets)
    measured = []
    for b, g in (cell, DEFAULT):
        shift = b * X.mean(axis=0, dtype=np.float64)
        values, axes = np.linalg.eigh((X - shift).T @ (X - shift) / len(X))
        turned = axes * values ** (-g / 2)
        unit = (X - shift) @ turned
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        scores = ((queries - shift) @ turned) @ unit.T
        own = scores[np.arange(200), targets]
        measured.append(1 / (1 + (scores > own[:, None]).sum(axis=1)))
    best, default = measured
    assert times == pytest.approx(best.mean() / default.mean(), rel=1e-2)
    gains = best - LEAST_TIMES * default
    error = float(scipy.stats.sem(gains))
    low, _ = scipy.stats.norm.interval(1 - 0.05 / 24, float(gains.mean()), error)
    assert bound == pytest.approx(low, abs=2e-3)


def test_labels_change_the_metric_only_for_a_significant_gain(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    labels = [{int(target): 1} for target in targets]
    none = np.full(200, -1)
    found = by_labels(moments(X), X, queries, labels, none)
    assert found.is_proved
    assert 0 < found.bound < found.mean
    wrong = [{int(target): 1} for target in rng.permutation(600)[:200]]
    assert by_labels(moments(X), X, queries, wrong, none).bound < 0.02


def test_the_best_of_equal_metrics_gains_nothing() -> None:
    """If all axes have the same variance, metrics differ only by noise, and the best of 25 seems to
    gain nearly a point."""
    gains = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 8)).astype(np.float32)
        targets = rng.integers(80, size=100)
        queries = X[targets] + 1.2 * rng.normal(size=(100, 8)).astype(np.float32)
        labels = [{int(target): 1} for target in targets]
        gains.append(by_labels(moments(X), X, queries, labels, np.full(100, -1)).mean)
    assert np.mean(gains) < 0.005
