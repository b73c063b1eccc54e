"""An index as LlamaIndex's vector store, by LlamaIndex's own index on top of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding, MockEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator

from slimdex.indexes.errors import InputError
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


def test_words_count_beside_meaning(tmp_path: Path) -> None:
    store = SlimdexVectorStore(tmp_path / "i")
    documents = [Document(text=f"error E{4000 + i}") for i in range(99)]
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(documents, context, embed_model=MockEmbedding(8))
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("E4031")
    assert found.text == "error E4031"
    assert store.client is not None
    store.client.close()


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


FILTERS = {
    ("year", ">", 1990): "12",
    ("year", ">", 1991): "2",
    ("year", "!=", 1991): "02",
    ("year", "in", (1991, 1995)): "1",
    ("year", "nin", (1991,)): "02",
    ("year", "is_empty", None): "0",
    ("id", "==", "m1"): "1",
    ("none", "==", 1): "",
    ("none", "!=", 1): "012",
    ("id", "text_match", "m"): "12",
    ("id", "text_match_insensitive", "M2"): "2",
}
"""Filters and the ids of the nodes that pass."""


def test_filters(store: SlimdexVectorStore) -> None:
    def found(filters: list[Any], condition: FilterCondition = FilterCondition.AND) -> list[str]:
        asked = MetadataFilters(filters=filters, condition=condition)
        return [node.node_id for node in store.get_nodes(filters=asked)]

    second = MetadataFilter(key="id", value="m1")
    for (key, operator, given), expected in FILTERS.items():
        value: Any = [*given] if isinstance(given, tuple) else given
        one = MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
        assert found([one]) == [*expected], (key, operator)
        assert {*found([one, second], FilterCondition.OR)} == {*expected, "1"}
    empty = MetadataFilter(key="year", operator=FilterOperator.IS_EMPTY, value=None)
    assert found([empty], FilterCondition.NOT) == ["1", "2"]


def test_nodes_are_as_they_were(store: SlimdexVectorStore) -> None:
    one, two = store.get_nodes(["1", "2"])
    assert (one.metadata, two.metadata) == ({"year": 1991, "id": "m1"}, {"year": 1992, "id": "m2"})
    assert one.get_content() == TEXTS[1]
    assert store.get_nodes([]) == []
    store.delete_nodes([])
    assert len(store.get_nodes()) == 3
    store.delete_nodes(["1"])
    assert [node.node_id for node in store.get_nodes()] == ["0", "2"]
    store.clear()
    assert store.get_nodes() == []
    contains = MetadataFilter(key="year", operator=FilterOperator.CONTAINS, value=1)
    with pytest.raises(InputError, match="filter 'contains' on year"):
        store.get_nodes(filters=MetadataFilters(filters=[contains]))
