"""The search_each_step of losses against numpy, which makes every search by brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search import ablation
from slimdex.indexes.search.ablation import (
    Found,
    exact_orders,
    float16_error,
    int8_error,
    search_each_step,
)
from slimdex.indexes.search.reduced_index import ReducedIndex, trained
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.int8_rows import packed, unpacked
from slimdex.indexes.vectors.vector_file import VectorFile


def made(folder: Path, rows: Matrix, settings: Settings) -> ReducedIndex:
    vectors = VectorFile(folder / "v.f16", rows.shape[1])
    vectors.append(rows)
    moments = Moments(rows.shape[1]).update(vectors.take(np.arange(len(rows))))
    reducer = settings.fit_reducer(vectors, moments)
    metric = None
    if settings.rescores:
        norms = VectorFile(folder / "n.f32", 1, 0, np.float32)
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        metric = Metric(rescorer, vectors, norms)
    codes = trained(kind_named(settings.kind), reducer, vectors)
    index = ReducedIndex(reducer, codes, vectors, metric=metric, candidates=settings.candidates)
    index.extend()
    return index


def brute(scores: NDArray[Any], hidden: Rows, k: int) -> Rows:
    scores = scores.astype(np.float64)
    scores[:, hidden] = -np.inf
    best: Rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return best


@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 0.25), (1.0, 1.0), (0.0, 0.0)])
def test_every_step_is_what_numpy_finds(
    tmp_path: Path, rng: np.random.Generator, beta: float, gamma: float
) -> None:
    spread = rng.normal(size=(3000, 24)) * np.linspace(2, 0.2, 24) + 0.3
    rows = np.ascontiguousarray(spread, dtype=np.float32)
    settings = Settings(k=12, beta=beta, gamma=gamma, kind="pq", candidates=40)
    index = made(tmp_path, rows, settings)
    stored = rows.astype(np.float16).astype(np.float32)
    queries, hidden = rows[::60] + np.float32(0.5), np.array([0, 7, 60, 2999])
    found = search_each_step(index, queries, 10, hidden)
    assert list(found) == ["float16", "whitened", "cut to k", "codes", "index"]

    plain = normalize_rows(queries) @ normalize_rows(stored).T
    assert np.array_equal(found["float16"].rows, brute(plain, hidden, 10))

    moments = Moments(24).update(stored)
    values, axes = np.linalg.eigh(moments.covariance(beta))
    whiten = axes * values ** (-gamma / 2)
    shift = beta * moments.mean
    white = (stored - shift) @ whiten
    asked = (queries - shift) @ whiten
    cosines = (asked / np.linalg.norm(asked, axis=1)[:, None]) @ (
        white / np.linalg.norm(white, axis=1)[:, None]
    ).T
    expected = brute(cosines, hidden, 10)
    assert (found["whitened"].rows == expected).mean() > 0.999  # float32 beside float64
    best = np.take_along_axis(cosines, expected, axis=1)
    np.testing.assert_allclose(found["whitened"].scores, best, atol=1e-4)

    cut = white[:, ::-1][:, :12]
    asked = asked[:, ::-1][:, :12]
    cosines = (
        asked
        / np.linalg.norm(asked, axis=1)[:, None]
        @ (cut / np.linalg.norm(cut, axis=1)[:, None]).T
    )
    assert (found["cut to k"].rows == brute(cosines, hidden, 10)).mean() > 0.999

    for step in ("codes", "index"):
        candidates = 0 if step == "codes" else None
        _, own = index.search(queries, 10, exclude=hidden, candidates=candidates)
        assert np.array_equal(found[step].rows, own)
    for answers in found.values():
        assert not np.isin(answers.rows, hidden).any()


def test_blocks_and_many_queries_change_nothing(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rng.normal(size=(9000, 8)).astype(np.float32)  # more than one chunk of the file
    index = made(tmp_path, rows, Settings(k=8, kind="flat", candidates=20))
    steps = ["float16", "whitened", "cut to k"]
    whole = exact_orders(index, rows[:70], 5, steps)
    monkeypatch.setattr(ablation, "SCORES_AT_ONCE", 70 * 64)
    pieces = exact_orders(index, rows[:70], 5, steps)
    for step in steps:
        assert np.array_equal(whole[step].rows, pieces[step].rows)


def test_an_index_of_codes_alone_has_no_metric_and_no_rescoring(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    rows = rng.normal(size=(700, 8)).astype(np.float32)
    index = made(tmp_path, rows, Settings(k=8, kind="sq8", candidates=0))
    found = search_each_step(index, rows[:9], 10)
    assert list(found) == ["float16", "cut to k", "codes"]
    assert ablation.exact_step(index) == "cut to k"


def test_fewer_rows_than_are_asked_for(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = rng.normal(size=(5, 8)).astype(np.float32)
    index = made(tmp_path, rows, Settings(k=8, kind="flat", gamma=0.0))
    found = search_each_step(index, rows[:2], 10, hidden=np.array([1]))
    for answers in found.values():
        assert sorted(row for row in answers.rows[0].tolist() if row >= 0) == [0, 2, 3, 4]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-3, 1.0, 100.0]), st.integers(1, 40))
def test_no_cosine_moves_further_by_float16_than_is_said(seed: int, size: float, dim: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(50, dim)) * size * 10 ** rng.uniform(-2, 2, dim)).clip(-6e4, 6e4)
    stored = vectors.astype(np.float16).astype(np.float64)
    lengths = np.linalg.norm(stored, axis=1)
    kept = lengths > 0
    query = rng.normal(size=dim)
    query /= np.linalg.norm(query)
    before = vectors[kept] @ query / np.linalg.norm(vectors[kept], axis=1)
    after = stored[kept] @ query / lengths[kept]
    rows = np.arange(kept.sum())[None]
    found = Found(after[None].astype(np.float32), rows)
    reach = float16_error(found, lengths[kept][None].astype(np.float32), dim)
    assert (np.abs(before - after) <= reach[0] + 1e-12).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 80))
def test_nor_by_int8(seed: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(50, dim)) * 10 ** rng.uniform(-2, 2, dim)).astype(np.float32)
    stored = unpacked(packed(vectors), dim)
    before, after = vectors.astype(np.float64), stored.astype(np.float64)
    query = rng.normal(size=dim)
    query /= np.linalg.norm(query)
    cosines = [X @ query / np.linalg.norm(X, axis=1) for X in (before, after)]
    assert (np.abs(cosines[0] - cosines[1]) <= int8_error(stored) * (1 + 1e-6) + 1e-9).all()
