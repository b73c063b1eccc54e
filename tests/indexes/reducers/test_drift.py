"""Drift in numbers: variance kept and code errors, against numpy and cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import KINDS, kind_named
from slimdex.indexes.reducers.drift import code_error, variance_kept
from slimdex.indexes.reducers.linear import (
    Identity,
    Linear,
    Pca,
    RandomProjection,
    Truncate,
    Whitening,
)
from slimdex.indexes.reducers.moments import Moments


def lopsided(rng: np.random.Generator, n: int = 900, d: int = 16) -> Matrix:
    rows = rng.normal(size=(n, d)) * np.linspace(2, 0.1, d) + np.linspace(1, -1, d)
    return np.ascontiguousarray(rows, dtype=np.float32)


@pytest.mark.parametrize(
    "reducer",
    [Whitening(5), Whitening(5, beta=1, gamma=1), Pca(3), RandomProjection(7), Truncate(4)],
    ids=lambda reducer: reducer.name,
)
def test_variance_kept_is_that_of_the_projected_rows(
    reducer: Linear, rng: np.random.Generator
) -> None:
    """Of rows that it was fitted on, and of others: the projection is made here row by row."""
    fitted, later = lopsided(rng), lopsided(rng)[:, ::-1] * 3
    reducer.fit(fitted)
    for rows in (fitted, np.ascontiguousarray(later)):
        centred = rows.astype(np.float64) - reducer.shift_
        projector = reducer.components_ @ np.linalg.pinv(reducer.components_)
        expected = np.square(centred @ projector).sum() / np.square(centred).sum()
        actual = variance_kept(reducer, Moments(16).update(rows))
        assert actual == pytest.approx(expected, abs=1e-6)


def test_what_keeps_all_and_what_has_no_axes(rng: np.random.Generator) -> None:
    moments = Moments(16).update(lopsided(rng))
    assert variance_kept(Identity(16).fit_moments(moments), moments) == 1
    assert variance_kept(Whitening(16).fit_moments(moments), moments) == pytest.approx(1)
    assert variance_kept(Whitening(3).fit_moments(moments), Moments(16)) == 1  # of no rows


@pytest.mark.parametrize("kind", KINDS)
def test_code_error_of_every_kind(kind: str, rng: np.random.Generator) -> None:
    """Nearly zero where codes are float32; rows decoded one at a time have the same error."""
    rows = lopsided(rng)
    reducer = Whitening(16).fit(rows)
    short = normalize_rows(reducer.transform(rows))
    index = FaissIndex(kind_named(kind), 16, len(rows)).train(short)
    error = code_error(reducer, index, rows[:50])
    assert error is not None
    assert len(index) == 0
    expected = [np.square(short[i] - index.quantize(short[i : i + 1])[0]).sum() for i in range(50)]
    assert error == pytest.approx(np.mean(expected), rel=1e-4, abs=1e-6)
    exact = kind in ("flat", "hnsw")
    assert error < 1e-9 if exact else error > 1e-8


def test_zero_rows_have_no_error(rng: np.random.Generator) -> None:
    rows = lopsided(rng)
    reducer = Whitening(16, beta=1).fit(rows)  # whose shift gives zero rows a length
    index = FaissIndex(kind_named("sq4"), 16).train(normalize_rows(reducer.transform(rows)))
    assert code_error(reducer, index, np.zeros((3, 16), dtype=np.float32)) is None
    padded = np.vstack([rows[:40], np.zeros((9, 16), dtype=np.float32)])
    assert code_error(reducer, index, padded) == code_error(reducer, index, rows[:40])
