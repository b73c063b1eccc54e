"""Made vectors are the same however they are asked for, and queries are none of them."""

from __future__ import annotations

import numpy as np

from slimdex.bench.data.made_vectors import BLOCK, MadeVectors


def test_rows_are_the_same_in_any_order_and_pieces() -> None:
    count = 2 * BLOCK + 5
    whole = MadeVectors(48, count).rows(0, count)
    assert whole.dtype == np.float32
    pieces = MadeVectors(48, count)
    for start, stop in ((BLOCK - 3, BLOCK + 3), (2 * BLOCK, count), (0, 7), (3, 2 * BLOCK + 1)):
        np.testing.assert_array_equal(pieces.rows(start, stop), whole[start:stop])
    assert len(np.unique(whole, axis=0)) == count
    assert pieces.seconds > 0


def test_queries_are_of_the_same_topics_and_no_rows() -> None:
    made = MadeVectors(48, BLOCK)
    rows, queries = made.rows(0, BLOCK), made.queries(50)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    nearest = (queries @ rows.T).max(axis=1)
    assert nearest.max() < 0.99
    strangers = np.random.default_rng(0).normal(size=(50, 48))
    strangers /= np.linalg.norm(strangers, axis=1, keepdims=True)
    assert nearest.mean() > (strangers @ rows.T).max(axis=1).mean()


def test_the_seed_makes_the_difference() -> None:
    one, other = MadeVectors(32, 100), MadeVectors(32, 100, seed=1)
    assert one.fingerprint() == MadeVectors(32, 100).fingerprint() != other.fingerprint()
    assert not np.array_equal(one.rows(0, 9), other.rows(0, 9))
