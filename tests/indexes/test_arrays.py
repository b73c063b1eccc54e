from __future__ import annotations

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import as_matrix, batches, normalize_rows


@pytest.mark.parametrize(
    "value",
    [[1.0, 2.0], [[1.0, 2.0], [3.0]], [[1.0, float("inf")]], [["a", "b"]], np.zeros((1, 3))],
)
def test_as_matrix_refuses_all_but_rows_of_finite_numbers(value: object) -> None:
    with pytest.raises(InputError):
        as_matrix(value, dim=2)


def test_numbers_whose_squares_overflow_are_accepted() -> None:
    X = np.full((2, 3), 3e38, dtype=np.float32)
    assert as_matrix(X) is X


def test_as_matrix_refuses_numbers_above_the_largest() -> None:
    X = np.full((1, 100), 7.0, dtype=np.float32)  # squares add up to more than 8 squared
    assert as_matrix(X, largest=8.0) is X
    with pytest.raises(InputError, match=r"value 7; expected at most 6\.5"):
        as_matrix(X, largest=6.5)
    with pytest.raises(InputError, match="row 0, column 3 is nan"):
        as_matrix([[1.0, 2.0, 3.0, float("nan")]], largest=8.0)


def test_as_matrix_makes_rows_contiguous() -> None:
    out = as_matrix(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert out.flags.c_contiguous
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_normalize_rows_against_numpy(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 5)).astype(np.float32) * 100
    expected = X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(normalize_rows(X), expected, rtol=1e-6)


def test_batches_cover_each_row_once() -> None:
    rows = [i for part in batches(23, 5, start=4) for i in range(part.start, part.stop)]
    assert rows == list(range(4, 23))
