from __future__ import annotations

import pytest
import torch

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.pooling import Pooling, parse_pooling, pool


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


@pytest.mark.parametrize("text", ["", "median", "mean@", "mean@a", "mean@1;2", "mean@1,", "@1"])
def test_malformed_poolings_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected cls, mean, max, pooler, last or wk"):
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
