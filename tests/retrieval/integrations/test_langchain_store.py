"""LangChain's own tests of a vector store, and what they do not look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from slimdex.indexes.errors import InputError
from slimdex.langchain import SlimdexVectorStore

TEXTS = ["the cat sat", "stocks fell", "a dog slept"]


class TestLangChain(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = SlimdexVectorStore(tmp_path / "i", self.get_embeddings())
        yield store
        store.collection.close()


def test_words_count_beside_meaning(tmp_path: Path) -> None:
    class Alike(DeterministicFakeEmbedding):
        """Texts that differ in their digits have the same vector."""

        def embed_query(self, text: str) -> list[float]:
            return super().embed_query(re.sub(r"\d", "", text))

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

    embeddings = Alike(size=16)
    texts = [f"error E{4000 + i}" for i in range(99)]
    store = SlimdexVectorStore.from_texts(texts, embeddings, path=tmp_path / "i")
    assert store.similarity_search("E4031", k=1)[0].page_content == "error E4031"


def test_conditions_scores_and_what_is_kept(tmp_path: Path) -> None:
    embeddings = DeterministicFakeEmbedding(size=16)
    rows = [{"id": i, "year": 1990 + i, "tags": ["a", "b"][:i]} for i in range(3)]
    store = SlimdexVectorStore.from_texts(
        TEXTS, embeddings, rows, ids=["x", "y", "z"], path=tmp_path / "i"
    )
    ((found, score),) = store.similarity_search_with_score(TEXTS[0], k=1)
    assert found == Document(id="x", page_content=TEXTS[0], metadata=rows[0])
    assert score == pytest.approx(1, abs=1e-3)
    some = store.similarity_search(TEXTS[0], k=3, where="year > 1990")
    assert sorted(str(document.id) for document in some) == ["y", "z"]
    one = store.similarity_search(TEXTS[0], k=3, filter={"year": [1991, 1992], "id": 2})
    assert [document.id for document in one] == ["z"]
    both = store.similarity_search(TEXTS[0], 3, {"year": [1990, 1991]}, where="year > 1990")
    assert [document.id for document in both] == ["y"]
    with pytest.raises(InputError, match=r"value \{'\$gt': 1990\}; expected a text, a number"):
        store.similarity_search(TEXTS[0], filter={"year": {"$gt": 1990}})
    by_vector = store.similarity_search_by_vector(embeddings.embed_query(TEXTS[2]), k=1)
    assert by_vector[0].id == "z"
    assert {d.id for d in store.max_marginal_relevance_search(TEXTS[0], k=2)} <= {*"xyz"}
    assert store.as_retriever(search_kwargs={"k": 1}).invoke(TEXTS[1])[0].id == "y"
    with pytest.raises(InputError, match="3 texts, 1 ids, 3 metadata"):
        store.add_texts(TEXTS, ids=["x"])
    store.collection.close()
    again = SlimdexVectorStore(tmp_path / "i", embeddings)
    assert [document.id for document in again.get_by_ids(["z", "none", "x"])] == ["z", "x"]
    again.delete(delete_all=True)
    assert again.similarity_search("a dog") == []
    again.collection.close()
