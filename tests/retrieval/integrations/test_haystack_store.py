"""Haystack's own tests of a document store, and a pipeline that searches one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.testing.document_store import (
    CountDocumentsTest,
    DeleteDocumentsTest,
    FilterDocumentsTest,
    WriteDocumentsTest,
)

from slimdex.haystack import SlimdexDocumentStore, SlimdexRetriever
from tests.retrieval.server.running import word_vectors

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]


class TestHaystack(
    CountDocumentsTest, WriteDocumentsTest, DeleteDocumentsTest, FilterDocumentsTest
):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> Iterator[SlimdexDocumentStore]:
        store = SlimdexDocumentStore(str(tmp_path / "i"), model=str(word_vectors(tmp_path)))
        yield store
        store.collection.close()

    def assert_documents_are_equal(
        self, received: list[Document], expected: list[Document]
    ) -> None:
        """But for embeddings, which the index makes itself and keeps as it needs them."""

        def plain(documents: list[Document]) -> list[dict[str, object]]:
            facts = (document.to_dict(flatten=False) for document in documents)
            return [{**fact, "embedding": None} for fact in facts]

        assert plain(received) == plain(expected)

    def test_write_documents(self, document_store: SlimdexDocumentStore) -> None:
        """Without a policy one that is there already is refused, and stays."""
        document = Document(content="a cat")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError, match="exists already"):
            document_store.write_documents([document])
        assert document_store.count_documents() == 1


def test_words_count_beside_meaning(tmp_path: Path) -> None:
    same = [1.0] * 8
    store = SlimdexDocumentStore(str(tmp_path / "i"), dim=8)
    store.write_documents(
        [Document(content=f"error E{4000 + i}", embedding=same) for i in range(99)]
    )
    retriever = SlimdexRetriever(store, top_k=1)
    found = retriever.run("E4031", query_embedding=same)
    assert found["documents"][0].content == "error E4031"
    store.collection.close()


def test_a_pipeline(tmp_path: Path) -> None:
    store = SlimdexDocumentStore(str(tmp_path / "i"), model=str(word_vectors(tmp_path)))
    store.write_documents([Document(content=t, meta={"n": i}) for i, t in enumerate(TEXTS)])
    pipeline = Pipeline()
    pipeline.add_component("retriever", SlimdexRetriever(store, top_k=2))
    found = pipeline.run({"retriever": {"query": "a dog on a rug"}})["retriever"]["documents"]
    assert (found[0].content, found[0].meta, len(found)) == (TEXTS[2], {"n": 2}, 2)
    assert found[0].score > found[1].score
    few = {"field": "meta.n", "operator": "<", "value": 2}
    asked = {"retriever": {"query": "a dog on a rug", "filters": few, "top_k": 5}}
    some = pipeline.run(asked)["retriever"]["documents"]
    assert sorted(document.meta["n"] for document in some) == [0, 1]
    text = pipeline.dumps()
    store.collection.close()
    again = Pipeline.loads(text, allowed_modules=["slimdex.*"])
    found = again.run({"retriever": {"query": "stocks"}})["retriever"]["documents"]
    assert found[0].content == TEXTS[1]
    again.get_component("retriever").document_store.collection.close()


def test_embeddings_come_from_haystack(tmp_path: Path) -> None:
    store = SlimdexDocumentStore(str(tmp_path / "i"), dim=8)
    rows = [[float(i == j) for j in range(8)] for i in range(3)]
    store.write_documents(
        [Document(content=t, embedding=row) for t, row in zip(TEXTS, rows, strict=True)]
    )
    found = SlimdexRetriever(store, 1).run(query_embedding=[0.0, 0.9, 0.1, *[0.0] * 5])
    assert found["documents"][0].content == TEXTS[1]
    with pytest.raises(DocumentStoreError, match="has no embedding; expected one"):
        store.write_documents([Document(content="x")])
    with pytest.raises(ValueError, match="neither query nor query_embedding"):
        SlimdexRetriever(store).run()
    store.collection.close()
