"""SBERT-WK against the definition, one word at a time, by QR decompositions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.pooling import parse_pooling, pool

Array = NDArray[np.float64]


def word_by_qr(layers: Array) -> Array:
    """A word (layers, width) as one vector, as the authors write it down."""
    count = len(layers)
    alignment, novelty = np.zeros(count), np.zeros(count)
    for k in range(count):
        others = [j for j in range(max(0, k - 2), min(count, k + 3)) if j != k]
        R = np.linalg.qr(np.stack([*layers[others], layers[k]]).T)[1]
        columns, last = R[:-1, :-1] / np.linalg.norm(R[:-1, :-1], axis=0), R[:, -1]
        agreement = columns.mean(axis=1) @ last[:-1] / np.linalg.norm(last[:-1])
        alignment[k] = 1 / (agreement * (len(others) + 1) * 2)
        novelty[k] = abs(last[-1]) / np.linalg.norm(last)
    weights = alignment / alignment.sum() + novelty / novelty.sum()
    vector: Array = weights @ layers / weights.sum()
    return vector


def text_by_qr(words: Array) -> Array:
    """Words (words, layers, width), the separator left out, as one vector."""
    changes = []
    for word in words:
        units = word / np.linalg.norm(word, axis=1, keepdims=True)
        changes.append(np.var((units[1:] * units[:-1]).sum(axis=1), ddof=1))
    vectors = np.stack([word_by_qr(word) for word in words])
    vector: Array = np.array(changes) @ vectors / np.sum(changes)
    return vector


@pytest.mark.parametrize(("layers", "pooling"), [(3, "wk"), (7, "wk"), (13, "wk@4,5,6,7,-1")])
def test_every_word_by_its_definition(layers: int, pooling: str) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(2, 6, 1, 24)) + 1  # layers of one word agree with each other
    words = base + 0.3 * rng.normal(size=(2, 6, layers, 24)).cumsum(axis=2)
    mask = np.array([[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0]])
    states = [torch.from_numpy(words[:, :, i]) for i in range(layers)]
    found = pool(states, torch.from_numpy(mask), parse_pooling(pooling)).numpy()
    chosen = [*parse_pooling(pooling).layers] or [*range(layers)]
    expected = [text_by_qr(words[0, :5][:, chosen]), text_by_qr(words[1, 1:4][:, chosen])]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_word_that_never_changes_has_no_weight() -> None:
    """By hand: the first word is the same in all layers, so the second one is the text's."""
    still, moving = [[1.0, 0, 0]] * 3, [[0.0, 1, 0], [0, 1, 1], [0, 1, 0.5]]
    words = torch.tensor([[still, moving, [[9.0, 9, 9]] * 3]])
    states = [words[:, :, i] for i in range(3)]
    (found,) = pool(states, torch.ones(1, 3, dtype=torch.int64), parse_pooling("wk")).numpy()
    assert found[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(found, word_by_qr(np.array(moving)), atol=1e-5)


def test_one_token_alone_is_the_text() -> None:
    states = [torch.tensor([[[1.0, 0, i], [5, 5, 5]]]) for i in (1, 2, 4)]
    found = pool(states, torch.tensor([[1, 0]]), parse_pooling("wk"))
    assert torch.isfinite(found).all()
    assert found[0, 1] == 0


@pytest.mark.parametrize(("pooling", "count"), [("wk", 1), ("wk@0,-1", 6)])
def test_too_few_layers_are_refused(pooling: str, count: int) -> None:
    with pytest.raises(InputError, match="pooling 'wk' over 2 layers; expected 3 or more"):
        parse_pooling(pooling).check_layers(count)
