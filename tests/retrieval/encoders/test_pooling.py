from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.retrieval.encoders.pooling import Pooling, parse_pooling
from slimdex.retrieval.encoders.runtimes.torch_pooling import pool


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean@-1", Pooling("mean", (-1,))),
        ("mean@1,-1", Pooling("mean", (1, -1))),
        ("cls", Pooling("cls", (-1,))),
        ("max@1,2,-1", Pooling("max", (1, 2, -1))),
        ("last", Pooling("last")),
        ("pooler@-1", Pooling("pooler")),
        ("wk", Pooling("wk", ())),
        ("wk@4,-1", Pooling("wk", (4, -1))),
    ],
)
def test_parse(text: str, expected: Pooling) -> None:
    assert parse_pooling(text) == expected
    assert parse_pooling(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "median", "mean@", "mean@a", "mean@1;2", "mean@1,", "@1", "cls+", "cls+wk"]
)
def test_malformed_poolings_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected cls, mean, max,"):
        parse_pooling(text)


def test_the_pooler_has_no_layers() -> None:
    with pytest.raises(InputError, match="'pooler@1,-1'; expected 'pooler' without layers"):
        parse_pooling("pooler@1,-1")


def test_layers_that_do_not_exist_are_refused() -> None:
    parse_pooling("mean@0,6,-7").check_layers(6)
    with pytest.raises(InputError, match="layer 7; the model has layers 0 to 6"):
        parse_pooling("mean@7").check_layers(6)
    with pytest.raises(InputError, match="layer -8"):
        parse_pooling("mean@-8").check_layers(6)


def test_worked_by_hand_with_padding_on_either_side() -> None:
    first = torch.tensor([[[1.0, 2], [3, 4], [9, 9]], [[9, 9], [5, 6], [7, 8]]])
    last = first * 10
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    states = [torch.zeros(2, 3, 2), first, last]
    assert pool(states, mask, parse_pooling("mean@1")).tolist() == [[2, 3], [6, 7]]
    assert pool(states, mask, parse_pooling("cls@1")).tolist() == [[1, 2], [5, 6]]
    assert pool(states, mask, parse_pooling("cls@-1")).tolist() == [[10, 20], [50, 60]]
    assert pool(states, mask, parse_pooling("max@1")).tolist() == [[3, 4], [7, 8]]
    assert pool([-s for s in states], mask, parse_pooling("max@1")).tolist() == [[-1, -2], [-5, -6]]
    assert pool(states, mask, parse_pooling("last@1")).tolist() == [[3, 4], [7, 8]]
    assert pool(states, mask, parse_pooling("mean@1,-1")).tolist() == [[11, 16.5], [33, 38.5]]


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
