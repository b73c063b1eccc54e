"""Public functions refuse unknown keywords, and stores delete everything only if asked by name."""

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
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from slimdex.errors import InputError
from slimdex.langchain import SlimdexVectorStore as LangChainStore
from slimdex.llama_index import SlimdexVectorStore as LlamaIndexStore
from slimdex.retrieval.collection import Collection

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


def ids_in(collection: Collection) -> list[str]:
    return [document.id for document in collection]


async def test_langchain_refuses_unknown_keywords(chain: LangChainStore) -> None:
    unknown: dict[str, Any] = {"expr": "owner = 'ann'"}
    with pytest.raises(TypeError, match="expr"):
        chain.as_retriever(search_kwargs=unknown).invoke("a text")
    with pytest.raises(TypeError, match="expr"):
        chain.delete(**unknown)
    with pytest.raises(TypeError, match="expr"):
        await chain.adelete(**unknown)
    assert ids_in(chain.collection) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("asked", "remaining"),
    [
        ({"filter": {"owner": "ann"}}, ["2", "3"]),
        ({"filter": "owner = 'bob' -- all"}, ["1"]),
        ({"ids": ["1", "none"]}, ["2", "3"]),
        ({"ids": []}, ["1", "2", "3"]),
        ({"filter": {"owner": "eve"}}, ["1", "2", "3"]),
        ({"filter": "true"}, []),
    ],
)
def test_langchain_deletes_what_is_asked_for(
    chain: LangChainStore, asked: dict[str, Any], remaining: list[str]
) -> None:
    assert chain.delete(**asked) is True
    assert ids_in(chain.collection) == remaining


@pytest.mark.parametrize(
    "asked", [{}, {"ids": None}, {"filter": {}}, {"filter": ""}, {"filter": "   "}]
)
def test_langchain_deletes_all_only_by_name(chain: LangChainStore, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        chain.delete(**asked)
    assert ids_in(chain.collection) == ["1", "2", "3"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"filters": MetadataFilters(filters=[])},
        {"filters": MetadataFilters(filters=[MetadataFilters(filters=[])])},
    ],
)
def test_llama_index_deletes_all_only_by_name(tmp_path: Path, asked: Any) -> None:
    llama = LlamaIndexStore(tmp_path / "llama")
    nodes = [
        TextNode(id_=id, text="a", metadata={"owner": owner}, embedding=[float(id), 1.0])
        for id, owner in OWNERS.items()
    ]
    llama.add(nodes)
    collection = llama.client
    assert collection is not None
    with pytest.raises(InputError):
        llama.delete_nodes(**asked)
    assert ids_in(collection) == ["1", "2", "3"]
    bobs = MetadataFilters(filters=[MetadataFilter(key="owner", value="bob")])
    llama.delete_nodes(["1", "2"], filters=bobs)
    assert ids_in(collection) == ["1", "3"]
    llama.clear()
    assert ids_in(collection) == []
    collection.close()
