from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import LARGEST, Matrix
from slimdex.indexes.vectors.row_formats import (
    FLOAT32,
    INT4,
    INT8,
    LARGEST_CENTER,
    STORED,
    Blocks,
    RowFormat,
)
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.append_only import BLOCK_BYTES

either = pytest.mark.parametrize("stored", STORED)


def kept(X: Matrix, stored: str) -> Matrix:
    """Rows as they come back."""
    if stored == "fp16":
        return X.astype(np.float16).astype(np.float32)
    format = STORED[stored]
    return format.unpack(format.pack(X), X.shape[1])


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(50, 6)).astype(np.float32)


@either
def test_rows_are_read_as_stored(tmp_path: Path, X: np.ndarray, stored: str) -> None:
    file = VectorFile(tmp_path / "v", 6, 0, STORED[stored])
    file.append(X[:20])
    file.append(X[20:])
    expected = kept(X, stored)
    rows = np.array([49, 0, 20, 19])
    np.testing.assert_array_equal(file.take(rows), expected[rows])
    np.testing.assert_array_equal(np.concatenate(list(file.scan())), expected)
    np.testing.assert_array_equal(np.concatenate(list(file.scan(7))), expected[7:])
    assert list(file.scan(50)) == []
    row_bytes = {"fp16": 6 * 2, "int8": 6 + 2, "int4": 3 + 2}[stored]
    assert file.nbytes == (tmp_path / "v").stat().st_size == 50 * row_bytes


@either
def test_rewritten_rows_have_the_same_bytes(
    tmp_path: Path, rng: np.random.Generator, stored: str
) -> None:
    X = rng.normal(size=(300, 45)).astype(np.float32) * 10.0 ** rng.integers(-3, 4, size=45)
    file = VectorFile(tmp_path / "v", 45, 0, STORED[stored])
    file.append(X.astype(np.float32))
    again = VectorFile(tmp_path / "again", 45, 0, STORED[stored])
    for chunk in file.scan():
        again.append(chunk)
    order = rng.permutation(300)
    copied = file.copy(tmp_path / "copy", order)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "v").read_bytes()
    np.testing.assert_array_equal(copied.take(np.arange(300)), file.take(order))


@either
def test_leftovers_of_an_interrupted_append_are_overwritten(
    tmp_path: Path, X: np.ndarray, stored: str
) -> None:
    VectorFile(tmp_path / "v", 6, 0, STORED[stored]).append(X[:20])
    with (tmp_path / "v").open("ab") as handle:
        handle.write(b"half a row and more")
    file = VectorFile(tmp_path / "v", 6, 20, STORED[stored])
    file.append(X[20:30])
    np.testing.assert_array_equal(file.take(np.arange(30)), kept(X[:30], stored))
    assert (tmp_path / "v").stat().st_size == 30 * file.row_bytes


def test_checksums_change_in_the_damaged_block_only(tmp_path: Path) -> None:
    X = np.ones((3 * BLOCK_BYTES // 256 + 5, 64), dtype=np.float32)
    file = VectorFile(tmp_path / "v.f16", 64)
    file.append(X)
    before = file.checksums()
    assert len(before) == 2
    with (tmp_path / "v.f16").open("r+b") as handle:
        handle.seek(BLOCK_BYTES + 100)
        handle.write(b"\xff")
    after = file.checksums()
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


@either
def test_invalid_rows_and_sizes_are_refused(tmp_path: Path, X: np.ndarray, stored: str) -> None:
    file = VectorFile(tmp_path / "v", 6, 0, STORED[stored])
    with pytest.raises(InputError, match=r"vector value 70000; .* holds up to 65504"):
        file.append(np.full((1, 6), -70000, dtype=np.float32))
    with pytest.raises(InputError, match="row 0, column 2 is nan"):
        file.append(np.where(np.arange(6) == 2, np.nan, 0)[None].astype(np.float32))
    with pytest.raises(InputError, match="5 dimensions; expected 6"):
        file.append(X[:, :5])
    assert not (tmp_path / "v").exists()
    file.append(X)
    with pytest.raises(CorruptError, match=r"0 bytes; expected .* for 51 rows"):
        VectorFile(tmp_path / "v", 6, 51, STORED[stored])


@pytest.mark.parametrize("format", [*STORED.values(), FLOAT32], ids=[*STORED, "norms"])
def test_rows_read_into_scratch_memory_are_the_same(
    tmp_path: Path, X: np.ndarray, format: RowFormat
) -> None:
    """In a thread of its own, whose buffers no other format has enlarged."""
    file, numbers = VectorFile(tmp_path / "v", dim=X.shape[1], format=format), np.arange(len(X))
    file.append(X)

    def read() -> None:
        for rows in (numbers[::-1], numbers[:1], numbers[:0], numbers):
            np.testing.assert_array_equal(file.take_into_scratch(rows), file.take(rows))

    with ThreadPoolExecutor(1) as thread:
        thread.submit(read).result()


@pytest.mark.parametrize("format", [INT8, INT4], ids=["int8", "int4"])
def test_the_largest_numbers_and_center_can_be_stored_again(tmp_path: Path, format: Blocks) -> None:
    center = np.array([LARGEST_CENTER, -LARGEST_CENTER], dtype=np.float32)
    file = VectorFile(tmp_path / "v", 2, 0, format, center)
    file.append(np.array([[LARGEST, -1], [1, -LARGEST]], dtype=np.float32))
    read = file.take(np.arange(2))
    assert np.abs(read).max() <= LARGEST
    file.append(read)
    np.testing.assert_array_equal(file.take(np.array([2, 3])), read)


@pytest.mark.parametrize(("format", "half_step"), [(INT8, 0.5 / 127), (INT4, 1 / 8)])
def test_a_center_keeps_what_distinguishes_rows(
    tmp_path: Path, rng: np.random.Generator, format: Blocks, half_step: float
) -> None:
    """Rows around a large mean: errors are those of their differences from it, in steps.

    Of 4 bits, a positive number near the magnitude of the largest one is off by a whole step.
    """
    center = 20 * rng.normal(size=64).astype(np.float32)
    X = center + rng.normal(size=(500, 64)).astype(np.float32)
    file = VectorFile(tmp_path / "c", 64, 0, format, center)
    file.append(X[:300])
    file = file.reopen()
    file.append(X[300:])
    rows = np.array([7, 499, 300])
    largest = np.abs(X - center).reshape(500, 2, 32).max(axis=2).repeat(32, axis=1)
    assert (np.abs(file.take(np.arange(500)) - X) <= 1.02 * half_step * largest).all()
    np.testing.assert_array_equal(file.take_into_scratch(rows), file.take(rows))
    np.testing.assert_array_equal(np.concatenate([*file.scan()])[rows], file.take(rows))
    assert file.holds(np.arange(500), X).all()
    copy = file.copy(tmp_path / "d", rows)
    np.testing.assert_array_equal(copy.take(np.arange(3)), file.take(rows))
    # What was read is stored as the same bytes again.
    again = VectorFile(tmp_path / "e", 64, 0, format, center)
    again.append(file.take(np.arange(500)))
    assert (tmp_path / "e").read_bytes() == (tmp_path / "c").read_bytes()


def test_each_thread_has_its_own_scratch_memory(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "v.f16", dim=1)
    file.append(np.arange(64, dtype=np.float32)[:, None])
    together = Barrier(2)

    def taken(row: int) -> float:
        actual = file.take_into_scratch(np.array([row]))
        together.wait()  # the other thread has taken its row by now
        return float(actual[0, 0])

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(taken, [3, 40])) == [3.0, 40.0]
