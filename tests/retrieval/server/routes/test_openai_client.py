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


def test_embeddings_and_vector_stores(tmp_path: Path) -> None:
    rows = [
        {"id": str(i), "title": f"T{i}", "text": t, "n": i, "day": f"2024-01-0{i + 1}"}
        for i, t in enumerate([*TEXTS, *OTHERS])
    ]
    index = built(tmp_path, rows, k=4)
    with serving([index]) as running:
        client = openai.OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0)
        assert [model.id for model in client.models.list()] == ["notes"]

        answer = client.embeddings.create(model="notes", input=TEXTS)  # as base64
        vectors = np.array([one.embedding for one in answer.data])
        expected = StaticEncoder(str(tmp_path / "words.txt")).encode(TEXTS)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        assert answer.usage.prompt_tokens > 0
        plain = client.embeddings.create(model="notes", input=TEXTS[0], encoding_format="float")
        np.testing.assert_allclose(plain.data[0].embedding, expected[0], atol=1e-6)
        short = client.embeddings.create(model="notes", input=TEXTS, dimensions=4)
        reduced = np.array([one.embedding for one in short.data])
        with Collection.open(_copied(index, tmp_path)) as same:
            transformed = same.reduced_index.reducer.transform(expected)
        np.testing.assert_allclose(reduced, unit(transformed), atol=1e-5)
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(model="notes", input="a cat", dimensions=5)
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="other", input="a cat")

        page = client.vector_stores.search("notes", query="a dog on a rug", max_num_results=2)
        first = page.data[0]
        assert (first.file_id, first.filename, first.content[0].text) == ("2", "T2", TEXTS[2])
        assert first.attributes == {"n": 2, "day": "2024-01-03"}
        assert len(page.data) == 2
        below = client.vector_stores.search(
            "notes",
            query=["a dog on a rug", "a cat on a mat"],
            filters={
                "type": "and",
                "filters": [
                    {"type": "lt", "key": "n", "value": 2},
                    {"type": "ne", "key": "title", "value": "T1"},
                ],
            },
        )
        assert [one.file_id for one in below.data] == ["0"]
        high = client.vector_stores.search(
            "notes", query="a dog", ranking_options={"score_threshold": 0.9999}
        )
        assert high.data == []
        stores = client.vector_stores.list()
        assert [(store.id, store.file_counts.total) for store in stores] == [("notes", 7)]
        assert client.vector_stores.retrieve("notes").usage_bytes > 0
        pages = client.vector_stores.files.list("notes", limit=3, order="asc")
        assert [file.id for file in pages] == [str(i) for i in range(7)]  # of three pages
        file = client.vector_stores.files.retrieve("2", vector_store_id="notes")
        assert (file.status, file.usage_bytes) == ("completed", len(TEXTS[2]))
        assert file.attributes == {"n": 2, "day": "2024-01-03"}
        content = client.vector_stores.files.content("2", vector_store_id="notes")
        assert [part.text for part in content] == [TEXTS[2]]
        with pytest.raises(openai.NotFoundError):
            client.vector_stores.files.retrieve("x", vector_store_id="notes")
        with pytest.raises(openai.BadRequestError):
            client.vector_stores.search(
                "notes", query="x", filters={"type": "eq", "key": "no", "value": 1}
            )


def _copied(index: Path, folder: Path) -> Path:
    """The index as it is on disk, for another reader: the service holds the folder itself."""
    copy = folder / "copy.index"
    shutil.copytree(index, copy, ignore=shutil.ignore_patterns("service.json"))
    return copy
