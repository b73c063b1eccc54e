"""The encoder with the reducer as ONNX, read back by tokenizers and onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex import Collection, InputError, Settings, StaticEncoder, TransformerEncoder, export
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.exporting import onnx_folder
from tests.encoders import make_tiny_model
from tests.slow import slow

from ..encoders.word_vectors.written_files import glove
from .conftest import TEXTS, WORDS, made, of_queries

onnx = pytest.importorskip("onnx", reason="the extra export is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra export is not installed")
TOLERANCE = 1e-5
"""Of numbers of unit vectors: OpenVINO computes in slimdex, onnxruntime here."""
WK_TOLERANCE = 5e-5
"""SBERT-WK divides by what is left of vectors that are nearly the same."""


def encoded(folder: Path, texts: list[str], batch: int = 7) -> Matrix:
    """Vectors as a program without slimdex makes them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    said = json.loads((folder / "settings.json").read_text())
    session: Any = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    found = []
    for start in range(0, len(texts), batch):
        part = tokenizer.encode_batch(
            [said["query_prompt"] + text for text in texts[start : start + batch]]
        )
        ids, mask = [each.ids for each in part], [each.attention_mask for each in part]
        inputs = dict(zip(said["inputs"], map(np.array, (ids, mask)), strict=True))
        found.append(session.run([said["output"]], inputs)[0])
    return np.concatenate(found)


def check_same(collection: Collection, folder: Path, tolerance: float = TOLERANCE) -> None:
    done = export(collection, folder, "onnx")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["model.onnx", "settings.json", "tokenizer.json"]
    network: Any = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(network)
    assert [each.version for each in network.opset_import] == [onnx_folder.OPSET]
    found = encoded(folder, TEXTS)
    assert found.shape == (len(TEXTS), done.dim)
    np.testing.assert_allclose(found, of_queries(collection), atol=tolerance)


@pytest.mark.parametrize(
    ("architecture", "pooling", "settings"),
    [
        ("bert", "mean", Settings(8, beta=0.5, kind="flat")),
        *slow(
            [
                ("bert", "wk", Settings(8, kind="flat", reducer="autoencoder")),
                ("mpnet", "max@1,-1", Settings(kind="flat", reducer="identity")),
                ("gpt2", "last", Settings(8, kind="flat", reducer="pca")),
                ("t5", "mean", Settings(8, kind="flat")),
            ]
        ),
    ],
)
def test_it_gives_the_reduced_vectors(
    tmp_path: Path, architecture: str, pooling: str, settings: Settings
) -> None:
    folder = make_tiny_model(architecture, tmp_path / "model")
    encoder = TransformerEncoder(
        str(folder), pooling=pooling, precision="fp32", max_length=20, query_prompt="the "
    )
    with made(tmp_path / "i", encoder, settings) as collection:
        check_same(collection, tmp_path / "x", WK_TOLERANCE if pooling == "wk" else TOLERANCE)


def test_word_vectors_are_a_network_without_unknown_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = glove(tmp_path / "words", WORDS[:8], rng.normal(size=(8, 10)).astype(np.float32))
    settings = Settings(4, beta=1.0, kind="flat")
    with made(tmp_path / "i", StaticEncoder(path, pooling="sif"), settings) as collection:
        check_same(collection, tmp_path / "x")
        export(collection, tmp_path / "full", "onnx", vectors="full")
        expected = collection.encoder.encode(TEXTS)
    np.testing.assert_allclose(encoded(tmp_path / "full", TEXTS), expected, atol=TOLERANCE)


def test_a_network_that_differs_or_is_too_large_is_refused(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is a network too large for one file; nothing is left of either."""
    encoder = TransformerEncoder(str(tiny_bert), precision="fp32")
    with made(tmp_path / "i", encoder, Settings(8, kind="flat")) as collection:
        with monkeypatch.context() as patch:
            patch.setattr(onnx_folder, "TOLERANCE", 0.0)
            with pytest.raises(InputError, match="differ by"):
                export(collection, tmp_path / "x", "onnx")
        monkeypatch.setattr(onnx_folder, "MOST_BYTES", 1000)
        with pytest.raises(InputError, match="bytes of weights"):
            export(collection, tmp_path / "x", "onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i"]
