"""Encoders of commands that end soon: numpy first, then OpenVINO."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.encoders.runtimes import quick_runtime as module
from slimdex.retrieval.encoders.runtimes.quick_runtime import QuickRuntime, quick_start
from slimdex.retrieval.encoders.transformer import TransformerEncoder

TEXTS = ["the cat", "a dog in the rain", "", "the the the cat"]


@pytest.fixture
def quick(tiny_bert: Path) -> TransformerEncoder:
    with quick_start():
        return TransformerEncoder(str(tiny_bert), precision="fp32")


@pytest.mark.parametrize("first_tokens", [0, 6, 13, 1000])
def test_vectors_are_the_same_wherever_openvino_starts(
    quick: TransformerEncoder,
    tiny_bert: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_tokens: int,
) -> None:
    monkeypatch.setattr(module, "FIRST_TOKENS", first_tokens)
    expected = TransformerEncoder(str(tiny_bert), precision="fp32").encode(TEXTS)
    found = [quick.encode(text)[0] for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(quick.encode(TEXTS), expected, atol=1e-6)
    assert isinstance(quick._runtime, QuickRuntime)
    assert (quick._runtime._compiled is None) == (first_tokens == 1000)


def test_one_query_needs_neither_openvino_nor_torch(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = TransformerEncoder(str(tiny_bert), precision="int8").encode("the cat")
    for name in ("openvino", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with quick_start():
        found = TransformerEncoder(str(tiny_bert), precision="int8").encode_queries("the cat")
    cosine = (found @ expected.T) / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine[0, 0] > 0.999
