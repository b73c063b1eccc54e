from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.codes.kinds import IVF_PQ, kind_named
from slimdex.indexes.reducers.linear import Identity, Whitening
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.search.reduced_index import ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system import spare_threads
from tests.chance import CHANCE

N, D, BETA, GAMMA = 900, 24, 0.5, 0.25


@pytest.fixture(scope="module")
def X() -> Matrix:
    rng = np.random.default_rng(5)
    spread = rng.normal(size=(N, D)) * np.linspace(3, 0.5, D)
    return (spread @ rng.normal(size=(D, D)) + 1).astype(np.float16).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reduced")


def build(X: Matrix, folder: Path, kind: str, candidates: int, k: int = 12) -> ReducedIndex:
    vectors = VectorFile(folder / f"{kind}-{candidates}.f16", D)
    vectors.append(X)
    moments = Moments(D).update(X)
    reducer = Whitening(k, BETA, GAMMA).fit_moments(moments)
    metric = None
    if candidates:
        norms = VectorFile(folder / f"{kind}.f32", 1, format=FLOAT32)
        metric = Metric(Rescorer.fit(moments, BETA, GAMMA), vectors, norms)
    codes = train_index(kind_named(kind), reducer, vectors)
    index = ReducedIndex(reducer, codes, vectors, metric=metric, asked_candidates=candidates)
    index.extend()
    return index


@pytest.fixture(scope="module")
def rescored(X: Matrix, folder: Path) -> ReducedIndex:
    return build(X, folder, "pq", candidates=200)


def oracle(X: Matrix, queries: Matrix, rows: np.ndarray | None = None) -> Matrix:
    """Cosines after whitening at full dimension, -inf outside `rows`."""
    whitening = Whitening(D, BETA, GAMMA).fit(X)
    unit = normalize_rows(whitening.transform(X))
    cosines = normalize_rows(whitening.transform(queries)) @ unit.T
    if rows is not None:
        cosines[:, np.setdiff1d(np.arange(len(X)), rows)] = -np.inf
    return cosines


def test_rescoring_all_rows_is_exact_search(X: Matrix, folder: Path) -> None:
    index = build(X, folder, "sq4", candidates=N)
    cosines = oracle(X, X[:30])
    scores, rows = index.search(X[:30], 10)
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :10], atol=1e-5)
    assert (rows[:, 0] == np.arange(30)).all()


def test_two_threads_give_the_scores_of_one(
    X: Matrix, rescored: ReducedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = rescored.metric
    assert metric is not None
    probes, rows = metric.rescorer.probes(X[:2]), np.arange(0, N, 2)
    one_by_one = np.hstack([metric.scores(probes, rows[i : i + 1]) for i in range(len(rows))])
    for cores in (1, 2):
        monkeypatch.setattr(spare_threads, "cores", lambda cores=cores: cores)
        np.testing.assert_array_equal(metric.scores(probes, rows), one_by_one)


@pytest.mark.parametrize("candidates", [0, 200])
@given(gone=st.sets(st.integers(0, N - 1), max_size=N - 1), k=st.integers(1, 15))
@settings(max_examples=CHANCE.examples(25))
def test_excluded_rows_never_come_back_and_the_answer_is_never_short(
    X: Matrix, folder: Path, candidates: int, gone: set[int], k: int
) -> None:
    index = CACHE.setdefault(candidates, None) or build(X, folder, "pq", candidates)
    CACHE[candidates] = index
    exclude = np.array(sorted(gone), dtype=np.int64)
    _, hits = index.search(X[:4], k, exclude=exclude)
    assert not np.isin(hits, exclude).any()
    assert ((hits >= 0).sum(axis=1) == min(k, N - len(gone))).all()
    for row in hits:
        assert len(set(row.tolist())) == len(row) or (row < 0).any()


CACHE: dict[int, ReducedIndex | None] = {}


def test_k_beyond_the_rows_and_no_queries(rescored: ReducedIndex) -> None:
    scores, rows = rescored.search(np.ones((2, D), dtype=np.float32), 10**12)
    assert scores.shape == rows.shape == (2, N)
    assert (np.sort(rows[0]) == np.arange(N)).all()
    nothing = np.empty((0, D), dtype=np.float32)
    for exclude in (np.arange(0), np.arange(5)):
        assert rescored.search(nothing, 3, exclude=exclude)[1].shape == (0, 3)


def test_without_rescoring_scores_are_those_of_the_codes(X: Matrix, folder: Path) -> None:
    index = build(X, folder, "flat", candidates=0)
    whitening = Whitening(12, BETA, GAMMA).fit(X)
    unit = normalize_rows(whitening.transform(X))
    scores, _ = index.search(X[:8], 5)
    expected = -np.sort(-(unit[:8] @ unit.T), axis=1)[:, :5]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    rows = np.array([3, 9, 300])
    scores, hits = index.search(X[:8], 5, rows)
    np.testing.assert_allclose(
        scores[:, :3], -np.sort(-(unit[:8] @ unit[rows].T), axis=1), atol=1e-5
    )
    assert (hits[:, 3:] == -1).all()


def test_candidates_of_one_search_do_not_change_the_index(X: Matrix, folder: Path) -> None:
    index, rows = build(X, folder, "rabitq", candidates=20), np.arange(0, N, 2)
    before, cosines = index.search(X[:20], 10)[1], oracle(X, X[:20])
    everything = index.search(X[:20], 10, candidates=N)[0]
    np.testing.assert_allclose(everything, -np.sort(-cosines, axis=1)[:, :10], atol=1e-5)
    codes = index.index.search(reduce_rows(index.reducer, X[:20]), 10)
    for hits, own in zip(index.search(X[:20], 10, candidates=0), codes, strict=True):
        np.testing.assert_array_equal(hits, own)
    for more, among in ((N, oracle(X, X[:20], rows)), (0, None)):
        scores, hits = index.search(X[:20], 10, rows, candidates=more)
        assert np.isin(hits, rows).all()
        if among is not None:
            np.testing.assert_allclose(scores, -np.sort(-among, axis=1)[:, :10], atol=1e-5)
    assert (hits != index.search(X[:20], 10, rows)[1]).any()
    np.testing.assert_array_equal(index.search(X[:20], 10)[1], before)
    assert index.candidates == 20
    alone = build(X, folder, "sq8", candidates=0)
    np.testing.assert_array_equal(
        alone.search(X[:5], 3, candidates=0)[1], alone.search(X[:5], 3)[1]
    )
    with pytest.raises(InputError, match="candidates=5: this index was built with candidates=0"):
        alone.search(X[:5], 3, candidates=5)


def test_more_results_need_more_candidates(X: Matrix, folder: Path) -> None:
    """Twenty for ten results or fewer, two for each of more."""
    index, cosines = build(X, folder, "rabitq", candidates=20), oracle(X, X[:30])
    short = reduce_rows(index.reducer, X[:30])
    agreement = []
    for k, count in ((3, 20), (10, 20), (11, 22), (60, 120), (700, 1400)):
        assert index.candidates_for(k) == count
        codes = index.index.search(short, min(count, N))[1]
        nearest = -np.sort(-np.take_along_axis(cosines, codes, axis=1), axis=1)[:, :k]
        scores, hits = index.search(X[:30], k)
        np.testing.assert_allclose(scores, nearest, atol=1e-5)
        exact = np.argsort(-cosines, axis=1)[:, :k]
        agreement.append(np.mean([np.isin(e, f).mean() for e, f in zip(exact, hits, strict=True)]))
        few = index.index.search(short, max(k, 15))[1]
        nearest = -np.sort(-np.take_along_axis(cosines, few, axis=1), axis=1)[:, :k]
        scores, _ = index.search(X[:30], k, candidates=15)  # as requested, but at least k
        np.testing.assert_allclose(scores, nearest, atol=1e-5)
    assert agreement[1] < 0.9
    assert agreement[3] >= agreement[1]
    assert agreement[4] == 1


def test_extend_adds_what_the_vector_file_gained(X: Matrix, tmp_path: Path) -> None:
    index = build(X[:800], tmp_path, "pq", candidates=300)
    index.vectors.append(X[800:])
    index.extend()
    assert len(index) == N
    assert index.metric is not None
    assert len(index.metric.norms) == N
    _, hits = index.search(X[800:], 1)
    assert (hits[:, 0] == np.arange(800, N)).mean() > 0.95


def test_lists_are_trained_on_more_rows_than_their_kind(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """FAISS refuses fewer rows than lists."""
    vectors = VectorFile(tmp_path / "v.f16", 8)
    vectors.append(rng.standard_normal((2000, 8), dtype=np.float32))
    kind = replace(IVF_PQ, max_rows=10, factory=lambda k, n: "IVF20,Flat")
    reducer = Identity(8).fit(vectors.take(np.arange(2000)))
    assert train_index(kind, reducer, vectors).probes == (20, 20)
