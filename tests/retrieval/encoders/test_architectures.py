"""Every architecture, tiny and random: batched as one by one without padding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.chance import CHANCE
from tests.encoders import ARCHITECTURES, LAYERS, POSITIONS, make_tiny_model

TEXTS = [
    "the cat",
    "",
    "rain rain the dog and the cat and the rain",
    "   ",
    "a much longer text " * 400,
    "dog",
    "日本語 and ünïcödé",
]
LENGTH = 40
QUICK = ("bert", "gpt2")
"""Architectures that plain `pytest` tries, one for each runtime."""
SAMPLE = (*QUICK, "deberta-v2", "t5")
"""Architectures that `make check` tries, `make sweep` all of them."""
POOLINGS = {
    "mean@1,-1": ("mean", [1, LAYERS]),
    **{mode: (mode, [LAYERS]) for mode in ("cls", "max", "last")},
}
"""Poolings: their modes and layers."""
FIRST = next(iter(POOLINGS))
PICKED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cls": lambda state: state[0],
    "mean": lambda state: state.mean(dim=0),
    "max": lambda state: state.amax(dim=0),
    "last": lambda state: state[-1],
}


def cases() -> list[Any]:
    """Architectures and poolings: sampled, those beyond the quick ones by one pooling."""
    if CHANCE.count(1, 0):
        tried = [*product(ARCHITECTURES, POOLINGS)]
    else:
        tried = [*product(QUICK, POOLINGS), *((name, FIRST) for name in SAMPLE[2:])]
    marks = (pytest.mark.slow, pytest.mark.sweep)
    return [
        pytest.param(*case, marks=() if case[0] in QUICK and case[1] == FIRST else marks)
        for case in tried
    ]


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model, every other one with a tokenizer that pads on the left."""
    name: str = request.param
    side = "left" if list(ARCHITECTURES).index(name) % 2 else "right"
    return make_tiny_model(name, tmp_path_factory.mktemp(name), side)


class Reference:
    """One text at a time, straight from transformers, with no padding anywhere."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        config = transformers.AutoConfig.from_pretrained(folder)
        self.model = getattr(transformers, config.architectures[0]).from_pretrained(folder).eval()

    def states(self, text: str) -> list[torch.Tensor]:
        ids = self.tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]
        ids = ids or [self.tokenizer.pad_token_id or self.tokenizer.eos_token_id]
        with torch.inference_mode():
            output = self.model(input_ids=torch.tensor([ids]), output_hidden_states=True)
        return [state[0] for state in output.hidden_states]

    def vector(self, text: str, mode: str, layers: list[int]) -> np.ndarray:
        states = self.states(text)
        vector = torch.stack([PICKED[mode](states[i]) for i in layers]).mean(dim=0)
        return np.asarray(vector)


@pytest.fixture(scope="module")
def reference(model: Path) -> Reference:
    return Reference(model)


@pytest.mark.parametrize(("model", "pooling"), cases(), indirect=["model"])
def test_batched_equals_one_by_one(model: Path, reference: Reference, pooling: str) -> None:
    mode, layers = POOLINGS[pooling]
    before = logging.getLogger().level  # OpenVINO's converter sets that of all loggers
    encoder = TransformerEncoder(
        str(model), pooling=pooling, max_length=LENGTH, precision="fp32", batch_tokens=90
    )
    assert logging.getLogger().level == before
    expected = np.stack([reference.vector(text, mode, layers) for text in TEXTS])
    scale = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5 * scale)
    for text, vector in zip(TEXTS, expected, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-5 * scale)
    whole = TransformerEncoder(str(model), pooling=pooling, precision="fp32")
    assert whole.max_length == POSITIONS
    assert np.isfinite(whole.encode(["cat " * 200, "dog"])).all()
