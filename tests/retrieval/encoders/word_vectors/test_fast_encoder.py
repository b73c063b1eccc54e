"""Word vectors of the default model, which a user's cache keeps: `build --fast`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import normalize_rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.models import DEFAULT_MODEL, FAST_MODEL, find_model
from slimdex.retrieval.encoders.opening import is_static, open_encoder

pytestmark = pytest.mark.slow  # the vectors are made once in a run, in ten seconds

TEXTS = ["recover from a panic in a handler", "compress the body of a response", "parse a route"]


def test_its_vectors_are_the_models_own_but_for_their_mean() -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModel, AutoTokenizer

    folder = find_model(DEFAULT_MODEL).folder
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    rows = []
    for word in ("cat", "dog", "route"):
        ids = tokenizer(word, return_tensors="pt")
        assert ids["input_ids"].shape == (1, 3)
        with torch.no_grad():
            rows.append(network(**ids).last_hidden_state[0].mean(dim=0).numpy())
    encoder = open_encoder(FAST_MODEL)
    vectors = encoder.vectors  # type: ignore[attr-defined]
    ours = [
        vectors.vectors[vectors.tokenizer.token_to_id(word)] for word in ("cat", "dog", "route")
    ]
    for i in (1, 2):
        expected, actual = rows[i] - rows[0], ours[i] - ours[0]
        assert np.linalg.norm(actual - expected) < 0.03 * np.linalg.norm(expected)


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
