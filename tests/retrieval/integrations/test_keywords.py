"""Keyword arguments of the public classes and functions: each is used, or refused by its name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery

from slimdex.errors import InputError
from slimdex.langchain import SlimdexVectorStore as LangChainStore
from slimdex.llama_index import SlimdexVectorStore as LlamaIndexStore

MODULES = (
    "slimdex",
    "slimdex.haystack",
    "slimdex.langchain",
    "slimdex.llama_index",
    "slimdex.mteb",
)
"""Modules that programs import."""
OWNERS = {"1": "ann", "2": "bob", "3": "bob"}
"""Ids of documents, and the owner of each."""


def public_functions() -> Iterator[tuple[str, Any]]:
    """Functions that programs call, and public methods written in this package."""
    for module in map(import_module, MODULES):
        for name in module.__all__:
            public = getattr(module, name)
            if inspect.isfunction(public):
                yield name, public
            for base in getattr(public, "__mro__", ()):
                if base.__module__.startswith("slimdex."):
                    yield from methods(base)


def methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(owner).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            yield f"{owner.__name__}.{name}", function


def test_no_public_function_takes_any_keyword() -> None:
    functions = dict(public_functions())
    assert {"Collection.delete", "SlimdexVectorStore.delete", "export"} <= {*functions}
    any_keyword = inspect.Parameter.VAR_KEYWORD
    for name, function in functions.items():
        parameters = inspect.signature(function).parameters.values()
        assert any_keyword not in [parameter.kind for parameter in parameters], name


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[LangChainStore]:
    store = LangChainStore(tmp_path / "chain", DeterministicFakeEmbedding(size=16))
    documents = [
        Document(id=id, page_content=f"a text of {owner}", metadata={"owner": owner})
        for id, owner in OWNERS.items()
    ]
    store.add_documents(documents)
    yield store
    store.collection.close()


@pytest.fixture
def llama(tmp_path: Path) -> Iterator[LlamaIndexStore]:
    store = LlamaIndexStore(tmp_path / "llama")
    nodes = [
        TextNode(id_=id, text="a", metadata={"owner": owner}, embedding=[float(id), 1.0])
        for id, owner in OWNERS.items()
    ]
    store.add(nodes)
    yield store
    assert store.client is not None
    store.client.close()


def ids_in(store: LangChainStore | LlamaIndexStore) -> list[str]:
    collection = store.collection if isinstance(store, LangChainStore) else store.client
    assert collection is not None
    return [document.id for document in collection]


UNKNOWN = ("filters", "pre_filter", "expr", "score_threshold", "namespace", "wher")


@pytest.mark.parametrize("keyword", UNKNOWN)
def test_langchain_refuses_unknown_keywords(chain: LangChainStore, keyword: str) -> None:
    unknown: dict[str, Any] = {keyword: {"owner": "ann"}}
    for call in (
        lambda: chain.similarity_search("a text", **unknown),
        lambda: chain.similarity_search_with_score("a text", **unknown),
        lambda: chain.similarity_search_by_vector([1.0] * 16, **unknown),
        lambda: chain.max_marginal_relevance_search("a text", **unknown),
        lambda: chain.as_retriever(search_kwargs=unknown).invoke("a text"),
        lambda: chain.as_retriever(**unknown),
        lambda: chain.add_texts(["new"], **unknown),
        lambda: chain.delete(**unknown),
        lambda: chain.delete(["1"], **unknown),
        lambda: LangChainStore.from_texts(["new"], None, **unknown),
    ):
        with pytest.raises(TypeError, match=keyword):
            call()
    assert ids_in(chain) == ["1", "2", "3"]


async def test_langchain_refuses_unknown_keywords_of_async_methods(chain: LangChainStore) -> None:
    unknown: Any = {"expr": "owner == 'ann'"}
    with pytest.raises(TypeError, match="expr"):
        await chain.adelete(**unknown)
    with pytest.raises(TypeError, match="expr"):
        await chain.asimilarity_search("a text", **unknown)
    with pytest.raises(TypeError, match="expr"):
        await chain.aadd_texts(["new"], **unknown)
    assert ids_in(chain) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("asked", "remaining"),
    [
        ({"filter": {"owner": "ann"}}, ["2", "3"]),
        ({"where": "owner = 'bob'"}, ["1"]),
        ({"where": "owner = 'bob' -- all"}, ["1"]),
        ({"filter": {"owner": "bob"}, "where": "id = '2'"}, ["1", "3"]),
        ({"ids": ["1", "2"], "filter": {"owner": "bob"}}, ["1", "3"]),
        ({"ids": ["1", "none"]}, ["2", "3"]),
        ({"ids": []}, ["1", "2", "3"]),
        ({"ids": [], "where": "true"}, ["1", "2", "3"]),
        ({"filter": {"owner": "eve"}}, ["1", "2", "3"]),
        ({"delete_all": True}, []),
    ],
)
def test_langchain_deletes_what_is_asked_for(
    chain: LangChainStore, asked: dict[str, Any], remaining: list[str]
) -> None:
    assert chain.delete(**asked) is True
    assert ids_in(chain) == remaining


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"ids": None},
        {"filter": {}},
        {"filter": None, "where": None},
        {"where": ""},
        {"where": "   "},
        {"delete_all": True, "ids": ["1"]},
        {"delete_all": True, "filter": {"owner": "ann"}},
    ],
)
def test_langchain_deletes_all_only_by_name(chain: LangChainStore, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        chain.delete(**asked)
    assert ids_in(chain) == ["1", "2", "3"]


def test_llama_index_refuses_unknown_keywords(llama: LlamaIndexStore) -> None:
    unknown: Any = {"where": "owner = 'ann'"}
    for call in (
        lambda: llama.delete_nodes(**unknown),
        lambda: llama.delete_nodes(["1"], **unknown),
        lambda: llama.delete("d1", **unknown),
        lambda: llama.add([], **unknown),
        lambda: llama.query(VectorStoreQuery(query_embedding=[1.0, 0.0]), **unknown),
        lambda: LlamaIndexStore(llama.path, **unknown),
    ):
        with pytest.raises(TypeError, match="where"):
            call()
    assert ids_in(llama) == ["1", "2", "3"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"filters": MetadataFilters(filters=[])},
        {"filters": MetadataFilters(filters=[MetadataFilters(filters=[])])},
    ],
)
def test_llama_index_deletes_all_only_by_name(llama: LlamaIndexStore, asked: Any) -> None:
    with pytest.raises(InputError):
        llama.delete_nodes(**asked)
    assert ids_in(llama) == ["1", "2", "3"]
    bobs = MetadataFilters(filters=[MetadataFilter(key="owner", value="bob")])
    llama.delete_nodes(["1", "2"], filters=bobs)
    assert ids_in(llama) == ["1", "3"]
    llama.clear()
    assert ids_in(llama) == []


def test_a_llama_index_store_is_loaded_from_its_dict(llama: LlamaIndexStore) -> None:
    again = LlamaIndexStore.from_dict(llama.to_dict())
    assert ids_in(again) == ["1", "2", "3"]
    assert again.client is not None
    again.client.close()
