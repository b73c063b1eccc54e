"""The similarity study: against figures worked out another way, and on real text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from slimdex.bench.data.pairs import Pairs, correlations, read_seven
from slimdex.bench.experiments.similarity_study import (
    LAST,
    TARGET,
    Way,
    measured,
    ways_of,
)
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.bench.data.test_pairs import DATA, IN_FP32, needs_data

N, WIDTH = 60, 12
SENTENCES = [f"s{i}" for i in range(2 * N)]


@pytest.fixture
def X(rng: np.random.Generator) -> Matrix:
    spread = rng.normal(size=(2 * N, WIDTH)) * np.linspace(3, 0.3, WIDTH) + 1
    return spread.astype(np.float32)


@pytest.fixture
def pairs(rng: np.random.Generator) -> Pairs:
    return Pairs("P", SENTENCES[:N], SENTENCES[N:], rng.uniform(0, 5, N), ["x"] * 20 + ["y"] * 40)


@pytest.mark.parametrize(("k", "beta", "gamma"), [(None, 1.0, 1.0), (5, 1.0, 1.0), (4, 0.5, 0.25)])
def test_whitening_worked_out_beside_it(
    X: Matrix, pairs: Pairs, k: int | None, beta: float, gamma: float
) -> None:
    """Su et al.'s algorithm, straight: SVD of the covariance of all sentences."""
    others = [SENTENCES[7]] * 30  # of a dev set, each as often as it occurs
    way = Way("mean", fit=TARGET, k=k, beta=beta, gamma=gamma)
    fitted = np.concatenate([X, X[[7] * 30]]).astype(np.float64)
    mean = beta * fitted.mean(axis=0)
    U, S, _ = np.linalg.svd((fitted - mean).T @ (fitted - mean) / len(fitted))
    white = (X - mean) @ (U * S ** (-gamma / 2))[:, :k]
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    expected = 100 * spearmanr((white[:N] * white[N:]).sum(axis=1), pairs.gold).statistic
    judged = replace(pairs, others=others, subtasks=())
    row = measured([way], [judged], lambda texts: X[[int(text[1:]) for text in texts]])[way]
    assert row == {"P": row["P"], "average": row["P"]}
    assert row["P"] == pytest.approx(expected, abs=1e-6)


def test_a_row_has_every_protocol_of_a_set_with_subtasks(X: Matrix, pairs: Pairs) -> None:
    way, bare = Way("mean"), replace(pairs, name="B", subtasks=())
    row = measured([way], [pairs, bare], lambda texts: X[[int(text[1:]) for text in texts]])[way]
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = np.vecdot(unit[:N], unit[N:])
    whole, *parts = (
        100 * spearmanr(cosines[rows], pairs.gold[rows]).statistic
        for rows in (slice(0, N), slice(0, 20), slice(20, N))
    )
    expected = {"P": whole, "P mean": np.mean(parts), "P wmean": (parts[0] + 2 * parts[1]) / 3}
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-3)
    assert correlations(pairs, X[:N], X[N:])[" mean"] == row["P mean"]
    assert not {"B mean", "B wmean"} & row.keys()
    for protocol in ("", " mean", " wmean"):
        mean = (row[f"P{protocol}"] + row["B"]) / 2
        assert row[f"average{protocol}"] == pytest.approx(mean)


@pytest.mark.slow
@pytest.mark.shared
@needs_data
def test_whitened_figures_of_one_set() -> None:
    """STS16 with all-MiniLM-L6-v2, as in docs/research/similarity.md, on any processor."""
    (sts16,) = (pairs for pairs in read_seven(DATA) if pairs.name == "STS16")
    encoder = TransformerEncoder(precision="fp32", max_length=128, pooling="mean@-1")
    places = {text: row for row, text in enumerate(sts16.sentences)}
    vectors = encoder.encode(sts16.sentences)
    (ways,) = [ways for ways in ways_of("mean", 384) if ways[0].layers == LAST]
    rows = measured(ways, [sts16], lambda texts: vectors[[places[text] for text in texts]])
    found = [row["STS16"] for row in rows.values()]
    assert found == pytest.approx([IN_FP32["STS16"], 76.38, 79.38, 78.65], abs=0.02)
