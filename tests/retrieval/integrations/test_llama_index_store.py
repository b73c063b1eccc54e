"""An index as LlamaIndex's vector store, by LlamaIndex's own index on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore
from llama_index.core.vector_stores.types import (
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from slimdex.errors import InputError
from slimdex.llama_index import SlimdexVectorStore
from tests.encoders import WordEncoder

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]


class Words(BaseEmbedding):
    """A bag of words as LlamaIndex's embeddings."""

    def _get_text_embedding(self, text: str) -> list[float]:
        row: list[float] = WordEncoder().encode([text])[0].tolist()
        return row

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SlimdexVectorStore]:
    made = SlimdexVectorStore(tmp_path / "i")
    nodes = [
        TextNode(id_=str(i), text=t, metadata={"year": 1990 + i, "id": f"m{i}"} if i else {})
        for i, t in enumerate(TEXTS)
    ]
    for node in nodes:
        node.embedding = Words()._get_text_embedding(node.text)
    assert made.add(nodes) == ["0", "1", "2"]
    yield made
    assert made.client is not None
    made.client.close()


def test_a_llama_index_on_top_of_the_store(tmp_path: Path) -> None:
    store = SlimdexVectorStore(tmp_path / "i")
    documents = [
        Document(doc_id=f"d{i}", text=t, metadata={"year": 1990 + i}) for i, t in enumerate(TEXTS)
    ]
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(documents, context, embed_model=Words())
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("a dog on a rug")
    assert found.text == TEXTS[2]
    assert found.metadata == {"year": 1992}
    assert found.node.ref_doc_id == "d2"
    index.delete_ref_doc("d2")
    assert store.client is not None
    assert len(store.client) == 2
    store.client.close()
    again = SlimdexVectorStore(tmp_path / "i")
    kept = VectorStoreIndex.from_vector_store(again, embed_model=Words())
    filters = MetadataFilters(filters=[MetadataFilter(key="year", value=1991)])
    (only,) = kept.as_retriever(similarity_top_k=5, filters=filters).retrieve("cat")
    assert only.text == TEXTS[1]
    assert again.client is not None
    again.client.close()


def test_nodes_are_as_they_were(store: SlimdexVectorStore) -> None:
    one, two = store.get_nodes(["1", "2"])
    assert (one.metadata, two.metadata) == ({"year": 1991, "id": "m1"}, {"year": 1992, "id": "m2"})
    assert one.get_content() == TEXTS[1]
    assert store.get_nodes([]) == []
    none_allowed = VectorStoreQuery(query_embedding=Words()._get_text_embedding("cat"), doc_ids=[])
    assert store.query(none_allowed).ids == []
    store.delete_nodes([])
    assert len(store.get_nodes()) == 3
    store.delete_nodes(["1"])
    assert [node.node_id for node in store.get_nodes()] == ["0", "2"]
    store.clear()
    assert store.get_nodes() == []


MODE_TEXTS = ["red apple", "green apple pie", "error E4031 in the log", "a blue sky"]
MODE_ROWS = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.1, 0.0, 1.0], [0.5, 0.8, 0.1]]


@pytest.fixture
def few(tmp_path: Path) -> Iterator[SlimdexVectorStore]:
    made = SlimdexVectorStore(tmp_path / "few")
    made.add(
        [
            TextNode(id_=str(i), text=text, embedding=row)
            for i, (text, row) in enumerate(zip(MODE_TEXTS, MODE_ROWS, strict=True))
        ]
    )
    yield made
    assert made.client is not None
    made.client.close()


def asked(mode: str, text: str | None = None, **options: Any) -> VectorStoreQuery:
    given: dict[str, Any] = {"query_embedding": [1.0, 0.0, 0.0], "similarity_top_k": 4} | options
    return VectorStoreQuery(query_str=text, mode=VectorStoreQueryMode(mode), **given)


def test_alpha_is_the_weight_of_meaning(few: SlimdexVectorStore) -> None:
    by_meaning = ["0", "1", "3", "2"]
    assert few.query(asked("hybrid", "E4031", alpha=1.0)).ids == by_meaning
    by_words = few.query(asked("hybrid", "E4031", alpha=0.0)).ids
    assert by_words is not None
    assert by_words[0] == "2"
    with pytest.raises(InputError, match="expected texts"):
        few.query(asked("hybrid", alpha=0.5))
    with pytest.raises(InputError, match="without an embedding"):
        few.query(asked("hybrid", "E4031", query_embedding=None))
    with pytest.raises(InputError, match="mode='svm'"):
        few.query(asked("svm"))


@pytest.mark.parametrize("mode", ["text_search", "sparse"])
def test_text_search_finds_words_alone(few: SlimdexVectorStore, mode: str) -> None:
    found = few.query(asked(mode, "apple", query_embedding=None))
    assert {*(found.ids or [])} == {"0", "1"}
    assert few.query(asked(mode, "unheard")).ids == []


@pytest.mark.parametrize("threshold", [None, 0.0, 0.5])
def test_mmr_chooses_as_llama_index_does(few: SlimdexVectorStore, threshold: float | None) -> None:
    simple = SimpleVectorStore()
    unit = np.array(MODE_ROWS) / np.linalg.norm(MODE_ROWS, axis=1, keepdims=True)
    simple.add(
        [TextNode(id_=str(i), text="", embedding=row) for i, row in enumerate(unit.tolist())]
    )
    query = asked("mmr", "E4031", similarity_top_k=3)
    expected = simple.query(query, mmr_threshold=threshold)
    found = few.query(query, mmr_threshold=threshold)
    assert found.ids == expected.ids
    assert found.similarities == pytest.approx(expected.similarities, abs=1e-3)
    by_query = few.query(asked("mmr", similarity_top_k=3, mmr_threshold=threshold))
    assert by_query.ids == expected.ids


async def test_async_methods_leave_the_loop_free(tmp_path: Path) -> None:
    store = SlimdexVectorStore(tmp_path / "i")
    rows = np.random.default_rng(0).random((300, 8)).tolist()
    nodes = [TextNode(id_=str(i), text="a", embedding=row) for i, row in enumerate(rows)]
    adding = asyncio.create_task(store.async_add(nodes))
    await asyncio.sleep(0)
    assert not adding.done()
    await adding
    assert (await store.aquery(VectorStoreQuery(query_embedding=rows[7]))).ids == ["7"]
    await store.adelete_nodes(["7"])
    assert [node.node_id for node in await store.aget_nodes(["7", "8"])] == ["8"]
    assert store.client is not None
    store.client.close()


def test_dates_come_back(tmp_path: Path) -> None:
    store = SlimdexVectorStore(tmp_path / "i")
    metadata = {"when": datetime(2024, 1, 1, tzinfo=UTC), "page": 1, "doc_id": "mine"}
    store.add([TextNode(id_="1", text="a", metadata=metadata, embedding=[1.0, 0.0])])
    store.add([TextNode(id_="2", text="a", metadata={"page": "iv"}, embedding=[1.0, 0.0])])
    one, two = store.get_nodes(["1", "2"])
    assert (one.metadata, two.metadata) == (metadata, {"page": "iv"})
    assert store.client is not None
    store.client.close()
