"""Which (beta, gamma): of raw and tuned encoders, with labels and without."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.reducers.moments import Moments
from slimdex.retrieval.quality.metric_choice import DEFAULT, by_keywords, by_labels


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


def test_keywords_favour_another_metric_for_raw_encoders_only(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    cell, gain, low = by_keywords(moments(X), X, queries, targets)
    assert cell != DEFAULT
    assert gain > 0.1
    assert low > 0
    X, queries, targets = told_apart(rng, raw=False)
    _, gain, low = by_keywords(moments(X), X, queries, targets)
    assert gain < 0.1


def test_the_gain_is_that_of_mean_reciprocal_ranks(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    (beta, gamma), gain, _ = by_keywords(moments(X), X, queries, targets)
    ranks = []
    for b, g in ((beta, gamma), DEFAULT):
        shift = b * X.mean(axis=0, dtype=np.float64)
        values, axes = np.linalg.eigh((X - shift).T @ (X - shift) / len(X))
        turned = axes * values ** (-g / 2)
        unit = (X - shift) @ turned
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        scores = ((queries - shift) @ turned) @ unit.T
        own = scores[np.arange(200), targets]
        ranks.append((1 / (1 + (scores > own[:, None]).sum(axis=1))).mean())
    assert gain == pytest.approx(ranks[0] - ranks[1], abs=1e-3)


def test_labels_change_the_metric_only_for_a_significant_gain(rng: np.random.Generator) -> None:
    X, queries, targets = told_apart(rng, raw=True)
    labels = [{int(target): 1} for target in targets]
    none = np.full(200, -1)
    cell, gain, low = by_labels(moments(X), X, queries, labels, none)
    assert cell != DEFAULT
    assert 0 < low < gain
    wrong = [{int(target): 1} for target in rng.permutation(600)[:200]]
    _, gain, low = by_labels(moments(X), X, queries, wrong, none)
    assert low < 0.02
