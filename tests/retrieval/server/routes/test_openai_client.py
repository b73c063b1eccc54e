"""The real `openai` client speaks to the service."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import openai
import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

from ..running import built, serving

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]
OTHERS = ["rain fell", "snow was on it", "it was monday", "the cat and the dog"]


def test_the_client_gets_models_and_embeddings(tmp_path: Path) -> None:
    texts = enumerate([*TEXTS, *OTHERS])
    index = built(tmp_path, [{"id": str(i), "text": text} for i, text in texts], k=4)
    with serving([index]) as running:
        client = openai.OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0)
        assert [model.id for model in client.models.list()] == ["notes"]
        assert client.models.retrieve("notes").id == "notes"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")

        answer = client.embeddings.create(model="notes", input=TEXTS)  # as base64
        vectors = np.array([one.embedding for one in answer.data])
        encoder = StaticEncoder(str(tmp_path / "words.txt"))
        expected = encoder.encode(TEXTS)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        plain = client.embeddings.create(model="notes", input=TEXTS[0], encoding_format="float")
        np.testing.assert_allclose(plain.data[0].embedding, expected[0], atol=1e-6)
        short = client.embeddings.create(model="notes", input=TEXTS, dimensions=4)
        reduced = np.array([one.embedding for one in short.data])
        copy = tmp_path / "copy.index"  # the service holds the folder itself
        shutil.copytree(index, copy, ignore=shutil.ignore_patterns("service.json"))
        with Collection.open(copy) as same:
            rows = same.index.snapshot.index.reducer.transform(expected)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(reduced, unit, atol=1e-5)
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="notes", input="a cat", dimensions=5)
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="other", input="a cat")

        # As many texts as OpenAI takes.
        many = [" ".join(OTHERS[i % 4].split()[: 1 + i % 3]) for i in range(2048)]
        answer = client.embeddings.create(model="notes", input=many)
        vectors = np.array([one.embedding for one in answer.data])
        np.testing.assert_allclose(vectors, encoder.encode(many), atol=1e-6)
        with pytest.raises(openai.APIStatusError, match=r"2,049 texts; expected 2,048"):
            client.embeddings.create(model="notes", input=[*many, "one more"])
        with pytest.raises(openai.UnprocessableEntityError, match="valid string"):
            client.embeddings.create(model="notes", input=[1, 2, 3])
