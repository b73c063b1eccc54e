"""The real `openai` client speaks to the service."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import openai
import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

from ..running import built, serving, unit

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]
OTHERS = ["rain fell", "snow was on it", "it was monday", "the cat and the dog"]


def test_embeddings_and_models(tmp_path: Path) -> None:
    rows = [{"id": str(i), "text": text} for i, text in enumerate([*TEXTS, *OTHERS])]
    index = built(tmp_path, rows, k=4)
    with serving([index]) as running:
        client = openai.OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0)
        assert [model.id for model in client.models.list()] == ["notes"]

        answer = client.embeddings.create(model="notes", input=TEXTS)  # as base64
        vectors = np.array([one.embedding for one in answer.data])
        expected = StaticEncoder(str(tmp_path / "words.txt")).encode(TEXTS)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        plain = client.embeddings.create(model="notes", input=TEXTS[0], encoding_format="float")
        np.testing.assert_allclose(plain.data[0].embedding, expected[0], atol=1e-6)
        short = client.embeddings.create(model="notes", input=TEXTS, dimensions=4)
        reduced = np.array([one.embedding for one in short.data])
        with Collection.open(_copied(index, tmp_path)) as same:
            transformed = same.index.snapshot.index.reducer.transform(expected)
        np.testing.assert_allclose(reduced, unit(transformed), atol=1e-5)
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="notes", input="a cat", dimensions=5)
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="other", input="a cat")


def test_as_many_inputs_as_openai_takes(tmp_path: Path) -> None:
    index = built(tmp_path, [{"id": "1", "text": "the cat sat"}])
    encoder = StaticEncoder(str(tmp_path / "words.txt"))
    texts = [" ".join(OTHERS[i % 4].split()[: 1 + i % 3]) for i in range(2048)]
    with serving([index]) as running:
        client = openai.OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0)
        assert client.models.retrieve("notes").id == "notes"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")
        answer = client.embeddings.create(model="notes", input=texts)
        vectors = [one.embedding for one in answer.data]
        np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-6)
        with pytest.raises(openai.APIStatusError, match=r"2,049 texts; expected 2,048"):
            client.embeddings.create(model="notes", input=[*texts, "one more"])
        with pytest.raises(openai.UnprocessableEntityError, match="valid string"):
            client.embeddings.create(model="notes", input=[1, 2, 3])


def _copied(index: Path, folder: Path) -> Path:
    """The index as it is on disk, for another reader: the service holds the folder itself."""
    copy = folder / "copy.index"
    shutil.copytree(index, copy, ignore=shutil.ignore_patterns("service.json"))
    return copy
