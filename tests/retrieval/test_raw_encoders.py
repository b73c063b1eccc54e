"""A build chooses another metric only for encoders proved raw, unless the user chose one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.building import choose_settings
from slimdex.retrieval.cli.settings import SettingsOptions
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality.metric_choice import DEFAULT
from tests.encoders import WordEncoder, direction


class LopsidedEncoder(WordEncoder):
    """All texts point one way, as those of raw language models do, and differ much in length."""

    def __init__(self, lengths: float = 1.0) -> None:
        super().__init__()
        self.lengths = lengths

    def encode(self, texts: Sequence[str]) -> Matrix:
        lengths = np.array([len(text) % 97 for text in texts], dtype=np.float32)[:, None]
        unit = super().encode(texts)
        unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-9)
        out = unit + direction("all", self.dim)
        out += self.lengths * lengths / 100 * direction("n", self.dim)
        return np.asarray(out, dtype=np.float32)

    def spec(self) -> dict[str, Any]:
        return {"type": "lopsided", "dim": self.dim}


@pytest.mark.slow
def test_a_raw_encoder_gets_another_metric(tmp_path: Path, docstrings: list[Document]) -> None:
    with Collection.create(tmp_path / "x", LopsidedEncoder()) as collection:
        collection.add(docstrings)
        notes = choose_settings(collection.index)
        settings = collection.index.state.settings
        assert settings is not None
        assert (settings.beta, settings.gamma) != DEFAULT
        assert f"beta={settings.beta:g}, gamma={settings.gamma:g}: the encoder is raw" in notes[0]
        assert collection.index.state.certificate is None
        assert collection.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [SettingsOptions(gamma=0), SettingsOptions(beta=0.5), SettingsOptions(reducer="pca")]
)
def test_what_the_user_chose_stays(
    tmp_path: Path, docstrings: list[Document], asked: SettingsOptions
) -> None:
    with Collection.create(tmp_path / "x", LopsidedEncoder(), asked.settings()) as collection:
        collection.add(docstrings)
        before = collection.index.state.settings
        assert choose_settings(collection.index, keep_metric=asked.has_metric) == []
        assert collection.index.state.settings == before


def test_a_tuned_encoder_keeps_the_default(tmp_path: Path, docstrings: list[Document]) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add(docstrings)
        assert choose_settings(collection.index) == []
        settings = collection.index.state.settings
        assert settings is not None
        assert (settings.beta, settings.gamma) == DEFAULT
