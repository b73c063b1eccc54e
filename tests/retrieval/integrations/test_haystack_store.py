"""Haystack's own tests of a document store, and a pipeline that searches one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.errors import FilterError
from haystack.testing import document_store as mixins
from haystack.testing import document_store_async as async_mixins

from slimdex.haystack import SlimdexDocumentStore, SlimdexRetriever
from tests.chance import CHANCE, sweep
from tests.retrieval.server.running import word_vectors

NOT_ASYNCHRONOUS = ("to_dict", "from_dict", "search")
TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug"]


class TestHaystack(
    mixins.CountDocumentsTest,
    mixins.WriteDocumentsTest,
    mixins.DeleteDocumentsTest,
    mixins.FilterDocumentsTest,
    mixins.DeleteAllTest,
    mixins.DeleteByFilterTest,
    mixins.UpdateByFilterTest,
    mixins.CountDocumentsByFilterTest,
    mixins.CountUniqueMetadataByFilterTest,
    mixins.GetMetadataFieldsInfoTest,
    mixins.GetMetadataFieldMinMaxTest,
    mixins.GetMetadataFieldUniqueValuesTest,
    async_mixins.CountDocumentsAsyncTest,
    async_mixins.WriteDocumentsAsyncTest,
    async_mixins.DeleteDocumentsAsyncTest,
    async_mixins.FilterDocumentsAsyncTest,
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

    async def test_write_documents_async(self, document_store: SlimdexDocumentStore) -> None:
        """Without a policy an existing document is refused, as by `write_documents`."""
        document = Document(content="a cat")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError, match="exists already"):
            await document_store.write_documents_async([document])


def test_each_asynchronous_method_is_the_other_in_a_thread() -> None:
    own = vars(SlimdexDocumentStore)
    for name, method in own.items():
        if name.startswith("_") or name.endswith("_async") or name in NOT_ASYNCHRONOUS:
            continue
        assert own[f"{name}_async"].__wrapped__ is method


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
    assert [document.embedding for document in store.filter_documents()] == rows
    with pytest.raises(DocumentStoreError, match="has no embedding; expected one"):
        store.write_documents([Document(content="x")])
    store.collection.close()


@pytest.mark.parametrize(
    "part", [{"blob": ByteStream(b"\x89PNG")}, {"sparse_embedding": SparseEmbedding([1], [0.5])}]
)
def test_what_an_index_cannot_store_is_refused(tmp_path: Path, part: dict[str, Any]) -> None:
    store = SlimdexDocumentStore(str(tmp_path / "i"), dim=2)
    plain = Document(content="a cat", embedding=[1.0, 0.0])
    with pytest.raises(DocumentStoreError):
        store.write_documents([plain, Document(content="a dog", embedding=[0.0, 1.0], **part)])
    assert store.count_documents() == 0
    store.collection.close()


META: list[dict[str, Any]] = [
    {"content": "draft", "author": {"name": "Ann", "age": 40}, "tags": [], "page": 1, "year": 1990},
    {
        "content": "final",
        "author": {"name": "Bob"},
        "tags": ["a"],
        "page": "iv",
        "day": "2024-01-01",
    },
    {},
    {"tags": ["a", 1], "page": "1", "author": "Ann", "flag": True, "day": "2024-01-01T00:00:00"},
    {"tags": None, "page": 2, "flag": False, "day": "2024-06-01", "year": 2000, "id": "mine"},
]
FIELDS = (
    "id", "meta.content", "meta.author", "meta.author.name", "meta.author.age",
    "meta.tags", "meta.page", "meta.year", "meta.flag", "meta.day", "meta.id", "meta.nobody",
    "meta.nobody.name", "year", "nobody",
)  # fmt: skip
EQUAL: tuple[Any, ...] = (
    None, "", "draft", "tea", "1", 1, 1.0, 2.5, True, 1990, "abc", [], ["a"], ["a", 1], ["a", 1.0],
    {"name": "Bob"}, {"name": "Ann", "age": 40}, "mine",
)  # fmt: skip
AMONG: tuple[list[Any], ...] = (
    [], [None], [None, 1], [1, "iv"], ["Ann", "Bob"], [["a"], []], [True, 2.5],
)  # fmt: skip


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[InMemoryDocumentStore, SlimdexDocumentStore]]:
    theirs = InMemoryDocumentStore(shared=False)
    ours = SlimdexDocumentStore(str(tmp_path_factory.mktemp("both") / "i"), dim=2)
    for i, meta in enumerate(META):  # one by one: the types of columns are those of the first
        content = None if i == 2 else "tea"
        for store in (theirs, ours):
            embedding = [1.0, i / 10]
            document = Document(id=str(i), content=content, meta=dict(meta), embedding=embedding)
            store.write_documents([document])
    yield theirs, ours
    ours.collection.close()


@sweep
@pytest.mark.parametrize("field", FIELDS)
def test_filters_find_the_same_documents_as_in_memory(both: Any, field: str) -> None:
    asked = [(sign, value) for sign in ("==", "!=") for value in EQUAL]
    asked += [(sign, value) for sign in ("in", "not in") for value in AMONG]
    differences = []
    for operator, value in CHANCE.sample(asked, 17):
        filters = {"field": field, "operator": operator, "value": value}
        theirs, ours = (sorted(d.id for d in store.filter_documents(filters)) for store in both)
        if theirs != ours:
            differences.append((operator, value, theirs, ours))
    assert differences == []


@pytest.mark.parametrize(
    ("value", "later"),
    [("2023-12-31", "134"), ("2024-01-01", "4"), (datetime(2024, 3, 1), "4"), ("2025-01-01", "")],
)
def test_texts_are_ordered_as_dates(both: Any, value: Any, later: str) -> None:
    for store in both:
        filters = {"field": "meta.day", "operator": ">", "value": value}
        assert sorted(d.id for d in store.filter_documents(filters)) == [*later]


def test_invalid_filters_are_refused(both: Any) -> None:
    _, ours = both
    for operator, value in (("==", object()), ("==", float("nan")), (">", "soon")):
        with pytest.raises(FilterError, match="expected"):
            ours.filter_documents({"field": "meta.year", "operator": operator, "value": value})
    with pytest.raises(FilterError, match="no filters; expected some"):
        ours.delete_by_filter({})
    with pytest.raises(FilterError, match="no filters; expected some"):
        ours.update_by_filter({}, {"a": 1})
    assert ours.count_documents() == len(META)


def test_updates_keep_vectors_and_texts(tmp_path: Path) -> None:
    store = SlimdexDocumentStore(str(tmp_path / "i"), dim=3)
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    store.write_documents(
        [
            Document(id=str(i), content=text, meta={"n": i}, embedding=row)
            for i, (text, row) in enumerate(zip(TEXTS, rows, strict=True))
        ]
    )
    few = {"field": "meta.n", "operator": ">", "value": 0}
    assert store.update_by_filter(few, {"n": "many", "seen": True}) == 2
    found = store.search(embedding=rows[1], top_k=1)[0]
    assert (found.content, found.meta) == (TEXTS[1], {"n": "many", "seen": True})
    assert store.search(embedding=rows[0], top_k=1)[0].meta == {"n": 0}
    store.collection.close()
