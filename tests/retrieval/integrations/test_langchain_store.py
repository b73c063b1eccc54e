"""LangChain's own tests of a vector store, and what they do not look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from pydantic import Field

from slimdex.errors import InputError
from slimdex.langchain import SlimdexVectorStore

TEXTS = ["the cat sat", "stocks fell", "a dog slept"]


class TestLangChain(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = SlimdexVectorStore(tmp_path / "i", self.get_embeddings())
        yield store
        store.collection.close()


class TestRetriever(RetrieversIntegrationTests):
    retriever_query_example = TEXTS[0]

    @pytest.fixture(autouse=True)
    def _store(self, tmp_path: Path) -> Iterator[None]:
        embeddings = DeterministicFakeEmbedding(size=16)
        self._filled = SlimdexVectorStore.from_texts(TEXTS, embeddings, path=tmp_path / "i")
        yield
        self._filled.collection.close()

    @property
    def retriever_constructor(self) -> Any:
        return lambda k=3: self._filled.as_retriever(search_kwargs={"k": k})


def test_conditions_scores_and_what_is_kept(tmp_path: Path) -> None:
    embeddings = DeterministicFakeEmbedding(size=16)
    rows = [{"id": i, "year": 1990 + i, "tags": ["a", "b"][:i]} for i in range(3)]
    store = SlimdexVectorStore.from_texts(
        TEXTS, embeddings, rows, ids=["x", "y", "z"], path=tmp_path / "i"
    )
    ((found, score),) = store.similarity_search_with_score(TEXTS[0], k=1)
    assert found == Document(id="x", page_content=TEXTS[0], metadata=rows[0])
    assert 0.95 < score < 1
    some = store.similarity_search(TEXTS[0], k=3, filter="year > 1990")
    assert sorted(str(document.id) for document in some) == ["y", "z"]
    one = store.similarity_search(TEXTS[0], k=3, filter={"year": [1991, 1992], "id": 2})
    assert [document.id for document in one] == ["z"]
    by_vector = store.similarity_search_by_vector(embeddings.embed_query(TEXTS[2]), k=1)
    assert by_vector[0].id == "z"
    assert {d.id for d in store.max_marginal_relevance_search(TEXTS[0], k=2)} <= {*"xyz"}
    assert store.as_retriever(search_kwargs={"k": 1}).invoke(TEXTS[1])[0].id == "y"
    with pytest.raises(InputError, match="3 texts, 1 ids, 3 metadata"):
        store.add_texts(TEXTS, ids=["x"])
    store.collection.close()
    again = SlimdexVectorStore(tmp_path / "i", embeddings)
    assert [document.id for document in again.get_by_ids(["z", "none", "x"])] == ["z", "x"]
    again.delete(filter="true")
    assert again.similarity_search("a dog") == []
    again.collection.close()


def test_langchains_index_adds_changes_and_deletes(tmp_path: Path) -> None:
    store = SlimdexVectorStore(tmp_path / "i", DeterministicFakeEmbedding(size=16))
    records = InMemoryRecordManager("notes")
    records.create_schema()

    def indexed(*texts: str) -> list[str]:
        documents = [Document(page_content=t, metadata={"source": "a.md"}) for t in texts]
        for _ in range(2):  # the second call changes nothing
            index(
                documents,
                records,
                store,
                batch_size=1,
                cleanup="full",
                source_id_key="source",
                key_encoder="sha256",
            )
        return sorted(document.text for document in store.collection)

    assert indexed(*TEXTS) == sorted(TEXTS)
    assert indexed("a dog ran", TEXTS[0]) == ["a dog ran", TEXTS[0]]
    store.collection.close()


ROWS: list[dict[str, Any]] = [
    {"year": 1990, "author": {"name": "Ann"}, "page": 1},
    {"year": 1995, "author": {"name": "Bob"}, "page": "iv"},
    {"year": 2000.5, "tags": ["a"]},
]
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"year": {"$gte": 1990, "$lt": 2000}}, "xy"),
    ({"year": {"$ne": 1995}}, "xz"),
    ({"year": {"$in": [1990, 2000.5]}}, "xz"),
    ({"year": {"$nin": [1990, 2000.5]}}, "y"),
    ({"year": []}, ""),
    ({"page": "iv"}, "y"),
    ({"page": {"$exists": True}}, "xy"),
    ({"page": {"$exists": False}}, "z"),
    ({"author.name": "Ann"}, "x"),
    ({"author": {"name": "Bob"}}, "y"),
    ({"$or": [{"year": 1990}, {"page": "iv"}]}, "xy"),
    ({"$and": [{"year": {"$gt": 1990}}, {"page": "iv"}]}, "y"),
    ({"$not": {"year": 1990}}, "yz"),
    ({"nobody": {"$ne": 1}}, "xyz"),
    ({"nobody": None}, "xyz"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlimdexVectorStore]:
    made = SlimdexVectorStore(tmp_path_factory.mktemp("filters") / "i", Counting(size=16))
    for text, row, id in zip(TEXTS, ROWS, "xyz", strict=True):  # in three additions
        made.add_texts([text], [row], ids=[id])
    yield made
    made.collection.close()


class Counting(DeterministicFakeEmbedding):
    """Embeddings that keep the texts they were asked for."""

    asked: list[str] = Field(default_factory=list)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return super().embed_query(text)


@pytest.mark.parametrize(("filter", "expected"), FILTERS)
def test_filters(store: SlimdexVectorStore, filter: dict[str, Any], expected: str) -> None:
    found = store.similarity_search(TEXTS[0], k=9, filter=filter)
    assert sorted(str(document.id) for document in found) == [*expected]


@pytest.mark.parametrize(
    "filter",
    [
        {"year": {"$like": "a"}},
        {"year": {"$gt": 1, "lt": 5}},
        {"$or": []},
        7,
        {"year": {"$in": 1990}},
        {"year": object()},
    ],
)
def test_invalid_filters_are_refused(store: SlimdexVectorStore, filter: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        store.similarity_search(TEXTS[0], filter=filter)


def test_metadata_come_back(store: SlimdexVectorStore) -> None:
    assert [document.metadata for document in store.get_by_ids([*"xyz"])] == ROWS


def test_diverse_documents_by_stored_vectors(tmp_path: Path) -> None:
    embeddings = Counting(size=16)
    store = SlimdexVectorStore(tmp_path / "i", embeddings)
    texts = [f"text {i}" for i in range(30)]
    store.add_texts(texts, ids=[str(i) for i in range(30)])
    rows = np.array([DeterministicFakeEmbedding(size=16).embed_query(text) for text in texts])
    query = np.array(embeddings.embed_query("a query"))
    embeddings.asked.clear()
    chosen = store.max_marginal_relevance_search("a query", k=5, fetch_k=30, lambda_mult=0.4)
    expected = maximal_marginal_relevance(query, [*rows], 0.4, 5)
    assert [document.id for document in chosen] == [str(i) for i in expected]
    assert embeddings.asked == ["a query"]
    assert store.max_marginal_relevance_search("a query", filter={"none": 1}) == []
    store.collection.close()
