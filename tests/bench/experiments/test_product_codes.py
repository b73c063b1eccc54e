"""Product codes of our own making, against FAISS's and against numpy."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest

from slimdex.bench.experiments.product_codes import (
    Making,
    ProductCodes,
    runs_by_variance,
    runs_dealt,
)
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.faiss_index import FaissIndex
from slimdex.indexes.kinds import PQ, PQ_L2, Kind

K, RUNS = 24, 6


@pytest.fixture(scope="module")
def rows() -> Matrix:
    spread = np.arange(1, K + 1) ** -0.7
    rows = np.random.default_rng(3).normal(size=(2000, K)) * spread
    return normalize_rows(rows.astype(np.float32))


def decoded(codes: ProductCodes, rows: Matrix) -> Matrix:
    """By numpy: each codeword where its axes are, unstretched."""
    numbers = codes._coded(codes._laid(rows))
    words = codes._words / codes._scales[:, None]
    back = np.zeros((len(rows), K + 1), np.float32)
    for run, axes in enumerate(codes._axes):
        back[:, axes] += words[run, numbers[:, run]]
    return back[:, :K]


@pytest.mark.parametrize(("making", "kind"), [(Making(shorten=0), PQ), (Making(parallel=3), PQ_L2)])
def test_the_kinds_are_among_them(rows: Matrix, making: Making, kind: Kind) -> None:
    ours = ProductCodes(making, RUNS, rows)
    ours.add(rows[:1500])
    ours.add(rows[1500:])
    theirs = FaissIndex(kind, K)
    order = np.concatenate([run[:4] for run in ours._axes])
    theirs.train(rows[:, order])
    theirs.add(rows[:, order])
    scores, found = ours.search(rows[:200], 10)
    other_scores, other_found = theirs.search(rows[:200, order], 10)
    np.testing.assert_allclose(scores + making.shorten, other_scores, atol=0.03)  # a table's 8 bits
    assert np.mean([len({*a} & {*b}) for a, b in zip(found, other_found, strict=True)]) > 9


@pytest.mark.parametrize(
    "making",
    [
        Making(),
        Making(by_variance=True),
        Making(own_scale=0.5),
        Making(parallel=3.0),
        Making(by_variance=True, own_scale=1.0, parallel=1.0, shorten=0.4),
    ],
)
def test_scores_are_those_of_decoded_rows(rows: Matrix, making: Making) -> None:
    codes = ProductCodes(making, RUNS, rows)
    codes.add(rows)
    back = decoded(codes, rows)
    scores, found = codes.search(rows[:50], 20)
    wanted = rows[:50] @ back.T - making.shorten * np.square(back).sum(axis=1)
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, found, 1), atol=0.03)
    assert np.square(rows - back).sum(axis=1).mean() < 0.6
    assert codes.row_nbytes == RUNS / 2


def test_errors_along_the_row_are_less_where_they_weigh_more(rows: Matrix) -> None:
    errors = []
    for weight in (0.0, 1.0, 8.0):
        error = rows - decoded(ProductCodes(Making(parallel=weight), RUNS, rows), rows)
        errors.append((np.square(np.vecdot(error, rows)).mean(), np.square(error).sum(1).mean()))
    along, whole = zip(*errors, strict=True)
    assert list(along) == sorted(along, reverse=True)
    assert list(whole) == sorted(whole)


def test_every_axis_is_in_one_run() -> None:
    variances = np.random.default_rng(5).exponential(size=48) ** 2
    for cut in (runs_dealt, runs_by_variance):
        runs = cut(variances, 12)
        axes = [axis for run in runs for axis in run]
        assert len(runs) == 12
        assert all(runs)
        assert len(axes) == len(set(axes)) <= 48
    widths = [len(run) for run in runs_by_variance(np.sort(variances)[::-1], 12)]
    assert widths[0] < widths[-1]


def test_codewords_are_packed_as_faiss_packs_them(rows: Matrix) -> None:
    from slimdex.bench.experiments.product_codes import packed, unpacked

    coder: Any = faiss.ProductQuantizer(K, RUNS, 4)
    coder.train(rows)
    codes = coder.compute_codes(rows)
    np.testing.assert_array_equal(packed(unpacked(codes)), codes)
    words = faiss.vector_to_array(coder.centroids).reshape(RUNS, 16, 4)
    back = words[np.arange(RUNS), unpacked(codes)].reshape(len(rows), K)
    np.testing.assert_array_equal(back, coder.decode(codes))
