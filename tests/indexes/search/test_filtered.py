"""Search among given rows, by every method, against brute force."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows, without
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.search.filtered_search import EXACT_ROWS, FilteredSearch
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Metric
from slimdex.indexes.vectors.vector_file import VectorFile
from tests.chance import CHANCE

from .test_reduced_index import D, N, build, oracle

SLOW = ("sq8", "rabitq", "hnsw")
KINDS = ["flat", "pq", "ivf-pq", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)]
subsets = st.one_of(
    st.sets(st.integers(0, N - 1)),
    st.tuples(st.integers(0, N), st.integers(0, 2**32 - 1)).map(
        lambda drawn: set(np.random.default_rng(drawn[1]).choice(N, drawn[0], False).tolist())
    ),
)


@pytest.fixture(scope="module")
def X() -> Matrix:
    """Rows around a few centres, some of them twice: neighbours, and ties."""
    rng = np.random.default_rng(6)
    centres = 2 * rng.normal(size=(40, D))
    rows = centres[rng.integers(40, size=N)] + rng.normal(size=(N, D)) * np.linspace(2, 0.3, D)
    rows[-20:] = rows[:20]
    return (rows + 1).astype(np.float16).astype(np.float32)


class Built(dict[str, ReducedIndex]):
    """An index of each kind, built when it is first asked for."""

    def __init__(self, X: Matrix, folder: Path, candidates: int) -> None:
        self.X, self.folder, self.candidates = X, folder, candidates

    def __missing__(self, kind: str) -> ReducedIndex:
        self[kind] = build(self.X, self.folder, kind, self.candidates)
        return self[kind]


@pytest.fixture(scope="module")
def rescoring(X: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(X, tmp_path_factory.mktemp("rescoring"), 100)


@pytest.fixture(scope="module")
def codes_only(X: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(X, tmp_path_factory.mktemp("codes"), 0)


def filtered(index: ReducedIndex, exact_rows: int = EXACT_ROWS) -> FilteredSearch:
    assert index.metric is not None
    candidates = index.candidates
    return FilteredSearch(index.reducer, index.index, index.metric, candidates, exact_rows)


def sorted_rows(rows: set[int]) -> Rows:
    return np.array(sorted(rows), dtype=np.int64)


def check(scores: Matrix, found: Rows, cosines: Matrix, allowed: Rows) -> None:
    """Scores and rows (q, k) are the best of cosines (q, N) among the allowed rows, in order."""
    queries, k = found.shape
    size = min(k, len(allowed))
    best = -np.sort(-cosines[:, allowed], axis=1)[:, :size]
    np.testing.assert_allclose(scores[:, :size], best, atol=1e-5)
    assert np.isneginf(scores[:, size:]).all()
    assert (found[:, size:] == -1).all()
    assert np.isin(found[:, :size], allowed).all()
    for row in found[:, :size]:
        assert len(set(row.tolist())) == size
    own = np.take_along_axis(cosines, found[:, :size], axis=1)
    np.testing.assert_allclose(scores[:, :size], own, atol=1e-5)
    assert queries == len(cosines)


@pytest.mark.parametrize("kind", KINDS)
@given(subsets, subsets, st.integers(1, 40), st.integers(0, N - 8))
@settings(max_examples=CHANCE.examples(12))
def test_every_method_equals_filtering_first(
    X: Matrix,
    rescoring: Built,
    kind: str,
    chosen: set[int],
    gone: set[int],
    k: int,
    first: int,
) -> None:
    index, queries = rescoring[kind], X[first : first + 3]
    rows, exclude = sorted_rows(chosen), sorted_rows(gone)
    allowed = sorted_rows(chosen - gone)
    cosines, search = oracle(X, queries), filtered(index, 0)
    check(*index.search(queries, k, rows, exclude), cosines, allowed)
    check(*search.by_codes(queries, k, allowed), cosines, allowed)
    check(*search.search(queries, k, allowed), cosines, allowed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("near", [True, False], ids=["near", "far"])
def test_most_rows_are_searched_like_all(
    X: Matrix, rescoring: Built, kind: str, near: bool
) -> None:
    """The best of the candidates, also where few of the nearest codes are allowed."""
    index, k = rescoring[kind], 10
    queries = X[[40, int(oracle(X, X[40:41])[0].argmin())]]  # opposite
    cosines = oracle(X, queries)
    order = np.argsort(cosines[0] if near else -cosines[0], kind="stable")
    allowed = np.sort(order[N // 2 :])
    wide = replace(filtered(index, 0), wide_from=0)
    every = replace(wide, candidates=N)
    check(*every.search(queries, k, allowed), cosines, allowed)
    _, found = wide.search(queries, k, allowed)
    assert np.isin(found, allowed).all()
    short = replace(wide, candidates=k)
    alone = [short.search(query[None], k, allowed)[1] for query in queries]
    np.testing.assert_array_equal(short.search(queries, k, allowed)[1], np.concatenate(alone))
    _, codes = index.index.search(reduce_rows(index.reducer, queries), wide.candidates, allowed)
    _, expected = wide.metric.rescore(queries, k, codes)
    assert np.mean([np.isin(*each).mean() for each in zip(found, expected, strict=True)]) >= 0.9


def test_more_than_one_row_in_64_of_many_is_searched_like_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = 64 * 110
    rng = np.random.default_rng(7)
    many = rng.normal(size=(total, D)).astype(np.float16).astype(np.float32)
    index = build(many, tmp_path, "flat", 100)
    by_codes, asked = FilteredSearch.by_codes, list[int]()

    def noted(search: FilteredSearch, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        asked.append(len(rows))
        return by_codes(search, queries, k, rows)

    monkeypatch.setattr(FilteredSearch, "by_codes", noted)
    for wide_from, count in ((0, 110), (0, 111), (total, 111), (total + 1, 111)):
        search = replace(filtered(index, 0), wide_from=wide_from)
        search.search(many[:1], 5, np.sort(rng.choice(total, count, replace=False)))
    assert asked == [110, 111]


def test_codes_that_a_search_in_part_does_not_find_are_no_rows(
    X: Matrix, rescoring: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a graph or inverted lists, the index pads with -1; the last row is allowed."""
    whole = FaissIndex.search

    def in_part(
        index: FaissIndex, queries: Matrix, k: int, rows: Rows | None = None
    ) -> tuple[Matrix, Rows]:
        scores, hits = whole(index, queries, k, rows)
        if rows is None:
            scores[:, 3:], hits[:, 3:] = -np.inf, -1
        return scores, hits

    monkeypatch.setattr(FaissIndex, "search", in_part)
    search, allowed = replace(filtered(rescoring["flat"], 0), wide_from=0), np.arange(N // 2, N)
    _, found = search.search(X[:3], 10, allowed)
    assert np.isin(found, allowed).all()


@pytest.mark.parametrize("kind", KINDS)
@given(subsets, subsets, st.integers(1, 40))
@settings(max_examples=CHANCE.examples(12))
def test_without_rescoring_it_equals_filtered_codes(
    X: Matrix,
    codes_only: Built,
    kind: str,
    chosen: set[int],
    gone: set[int],
    k: int,
) -> None:
    index, queries = codes_only[kind], X[:3]
    cosines = all_codes(index, queries)
    rows, exclude = sorted_rows(chosen), sorted_rows(gone)
    check(*index.search(queries, k, rows, exclude), cosines, sorted_rows(chosen - gone))


def all_codes(index: ReducedIndex, queries: Matrix) -> Matrix:
    """The score (q, N) that the codes give each row, when nothing is left out."""
    short = normalize_rows(index.reducer.transform(queries))
    assert isinstance(index.index, FaissIndex)
    codes = index.index
    if "HNSW" in codes._core().__class__.__name__:  # whose search does not reach all rows
        rows = np.stack([codes._core().storage.reconstruct(i) for i in range(N)])
        cosines: Matrix = short @ rows.T
        return cosines
    parameters = "nprobe=9999" if "IVF" in codes._core().__class__.__name__ else ""
    codes.set_parameters(parameters)
    scores, rows = codes.search(short, N)
    out = np.full((len(queries), N), np.nan, dtype=np.float32)
    for i, actual in enumerate(rows):
        known = actual >= 0  # fast scans leave out the worst
        assert known.sum() > N - 5
        out[i, actual[known]] = scores[i, known]
        missing = np.flatnonzero(np.isnan(out[i]))
        own = codes._code_products(short[i : i + 1], missing)
        out[i, missing] = np.minimum(own, scores[i, known].min())
    return out


class Counting(VectorFile):
    """Counts the rows that are read."""

    taken = 0

    def take_into_scratch(self, rows: Rows) -> Matrix:
        self.taken += len(rows)
        return super().take_into_scratch(rows)


def counting(index: ReducedIndex) -> tuple[ReducedIndex, Counting]:
    assert index.metric is not None
    file = Counting(index.vectors.path, D, N)
    metric = Metric(index.metric.rescorer, file, index.metric.norms)
    return ReducedIndex(
        index.reducer, index.index, file, metric=metric, asked_candidates=index.candidates
    ), file


def test_the_number_of_allowed_rows_decides_the_method(X: Matrix, rescoring: Built) -> None:
    index, file = counting(rescoring["flat"])
    rows = np.arange(N)
    for count in (1, 10):
        file.taken = 0
        filtered(index, N).search(X[:count], 5, rows)
        assert file.taken == N  # once for all queries
        file.taken = 0
        filtered(index, N - 1).search(X[:count], 5, rows)
        assert 100 * count <= file.taken < N * count / 2


def test_a_query_that_needs_most_rows_is_answered_exactly(X: Matrix, rescoring: Built) -> None:
    index, file = counting(rescoring["rabitq"])
    rows = np.arange(0, N, 6)  # fewer than twice the rows that are scored at first
    check(*filtered(index, 0).by_codes(X[:4], 10, rows), oracle(X, X[:4]), rows)
    assert file.taken == len(rows)


@pytest.mark.parametrize("kind", ["flat", "pq", "rabitq"])
@given(st.integers(0, N - 9), st.lists(st.integers(0, 8), min_size=1, max_size=9), subsets)
@settings(max_examples=CHANCE.examples(20))
def test_scores_and_order_depend_on_no_other_query_and_no_other_row(
    X: Matrix, rescoring: Built, kind: str, first: int, batch: list[int], chosen: set[int]
) -> None:
    """Bit for bit; duplicate rows are ordered by number."""
    index, queries, every = rescoring[kind], X[first : first + 9], np.arange(N)
    (scores,), (order,) = index.search(queries[batch[:1]], N, every)
    score = dict(zip(order.tolist(), scores.tolist(), strict=True))
    place = {row: i for i, row in enumerate(order.tolist())}
    allowed = sorted_rows(chosen)
    searches = [index.search(queries[batch], 20), index.search(queries[batch], 5, allowed)]
    searches.append(filtered(index, 0).search(queries[batch], 5, allowed))
    for found_scores, actual in searches:
        own = actual[0][actual[0] >= 0].tolist()
        assert own == sorted(own, key=place.__getitem__)
        assert found_scores[0][: len(own)].tolist() == [score[row] for row in own]


@given(subsets, subsets)
def test_without_is_the_set_difference(rows: set[int], exclude: set[int]) -> None:
    assert without(sorted_rows(rows), sorted_rows(exclude)).tolist() == sorted(rows - exclude)


def test_concurrent_searches_have_the_same_answers(X: Matrix, rescoring: Built) -> None:
    rng = np.random.default_rng(0)
    for kind in ("pq", "ivf-pq"):
        index, _ = counting(rescoring[kind])
        cases = [(i % N, np.sort(rng.choice(N, n, False))) for i, n in enumerate([3, 150, 700] * 8)]
        with ThreadPoolExecutor(8) as pool:
            requested = [pool.submit(index.search, X[i : i + 1], 10, rows) for i, rows in cases]
        for (query, rows), future in zip(cases, requested, strict=True):
            check(*future.result(), oracle(X, X[query : query + 1]), rows)


def test_rows_of_unprobed_lists_are_found_when_most_rows_are_deleted(
    X: Matrix, codes_only: Built, rescoring: Built
) -> None:
    exclude = np.arange(20, N)
    for index in (codes_only["ivf-pq"], rescoring["ivf-pq"]):
        codes = index.index
        assert isinstance(codes, FaissIndex)
        codes.set_parameters("nprobe=1")
        _, hits = index.search(X[:3], 20, exclude=exclude)
        assert (np.sort(hits, axis=1) == np.arange(20)).all()
