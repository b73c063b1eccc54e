"""Word vectors of the default model, here a tiny one, in a user's cache: `build --fast`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import normalize_rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders import fast_encoder
from slimdex.retrieval.encoders.models import FAST_MODEL
from slimdex.retrieval.encoders.opening import is_static, open_encoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.encoders import WIDTH

TEXTS = ["the cat", "a dog in the rain", "rain"]


@pytest.fixture(autouse=True)
def _tiny_default(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fast_encoder, "DEFAULT_MODEL", str(tiny_bert))
    monkeypatch.setattr(fast_encoder, "DIMENSIONS", WIDTH)


def test_its_vectors_are_the_models_own_but_for_their_mean(tiny_bert: Path) -> None:
    words = ["cat", "dog", "rain"]
    rows = TransformerEncoder(str(tiny_bert), pooling="mean").encode(words)
    vectors = fast_encoder.FastEncoder().vectors
    ours = vectors.vectors[[vectors.tokenizer.token_to_id(word) for word in words]]
    np.testing.assert_allclose(ours[1:] - ours[0], rows[1:] - rows[0], atol=1e-2)


def test_an_index_is_searched_by_vectors_that_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_static(FAST_MODEL)
    encoder = open_encoder(FAST_MODEL)
    with Collection.create(tmp_path / "x", encoder) as made:
        made.add(Document(str(i), text) for i, text in enumerate(TEXTS))
        assert made.info()["passages"]["tokens"] == 128
        before = [made.search(text, 3) for text in TEXTS]
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "other"))
    with Collection.open(tmp_path / "x") as again:
        for text, hits in zip(TEXTS, before, strict=True):
            found = again.search(text, 3)
            assert [hit.id for hit in found] == [hit.id for hit in hits]
            scores = [hit.score for hit in found]
            np.testing.assert_allclose(scores, [hit.score for hit in hits], atol=1e-3)
        more = again.index.encoder.encode(TEXTS)
    np.testing.assert_allclose(
        normalize_rows(more), normalize_rows(encoder.encode(TEXTS)), atol=1e-3
    )
