"""Filters of LlamaIndex find the same nodes in an index and in LlamaIndex's own store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from slimdex.errors import InputError
from slimdex.llama_index import SlimdexVectorStore
from tests.chance import CHANCE, sweep

Stores = tuple[SimpleVectorStore, SlimdexVectorStore]
METADATA: list[dict[str, Any]] = [
    {},
    {"n": 1, "name": "ann", "tags": ["a", "b"], "flag": True, "x": 1.5},
    {"n": 2, "name": "Bob", "tags": [], "flag": False, "x": 2.0},
    {"n": "1", "name": "", "tags": ["b"], "x": "1.5", "doc_id": "mine"},
    {"n": -1, "name": "an apple", "tags": "a tag", "mixed": [1, "a"]},
    {"n": 2.5, "name": None, "tags": None, "mixed": "a"},
    {"n": None, "name": "it's", "tags": ["c", "a"], "mixed": 1, "x": 3},
    {"n": 10, "name": "ann", "tags": ["a"], "mixed": [], "Name": "ANN"},
]
KEYS = ("n", "name", "tags", "flag", "x", "mixed", "Name", "ref_doc_id", "nobody")
VALUES: tuple[Any, ...] = (
    1, 2, 2.0, 2.5, 1.5, "1", "a", "ann", "Bob", "", "'", [], ["a"], ["b", "a"], [1], [1, 2],
    [2.5], ["1", "ann"], [""], ["a", "b"],
)  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    simple = SimpleVectorStore()
    ours = SlimdexVectorStore(tmp_path_factory.mktemp("filters") / "i")
    nodes = [
        TextNode(id_=str(i), text="a", metadata=row, embedding=[1.0, i / 10])
        for i, row in enumerate(METADATA)
    ]
    simple.add(nodes)
    ours.add(nodes[:4])  # in two additions: the types of columns are those of the first
    ours.add(nodes[4:])
    yield simple, ours
    assert ours.client is not None
    ours.client.close()


def found(store: SimpleVectorStore | SlimdexVectorStore, filters: MetadataFilters) -> list[str]:
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=99, filters=filters)
    return sorted(store.query(query).ids or [])


@cache
def stores_of_one_node() -> list[SimpleVectorStore]:
    stores = [SimpleVectorStore() for _ in METADATA]
    for i, store in enumerate(stores):
        store.add([TextNode(id_=str(i), text="a", metadata=METADATA[i], embedding=[1.0, 0.0])])
    return stores


def held(filters: list[MetadataFilter], condition: FilterCondition) -> list[str]:
    """Ids of the nodes for which filters hold by LlamaIndex, asked for one node at a time.

    A comparison that Python refuses for one node, such as "a" > 1, does not hold for it.
    """
    ids = []
    asked = MetadataFilters(filters=[*filters], condition=condition)
    for store in stores_of_one_node():
        try:
            ids += found(store, asked)
        except TypeError:
            continue
    return ids


@sweep
@pytest.mark.parametrize("operator", [*FilterOperator])
def test_each_operator_finds_the_same_nodes(stores: Stores, operator: FilterOperator) -> None:
    _, ours = stores
    differences = []
    for key, value in CHANCE.sample([*product(KEYS, VALUES)], 60):
        if operator == FilterOperator.ALL and value == []:
            continue  # holds for nodes without a value, too
        one = MetadataFilter(key=key, operator=operator, value=value)
        try:
            answer = found(ours, MetadataFilters(filters=[one]))
        except InputError:
            continue  # a value that the operator does not take
        expected = held([one], FilterCondition.AND)
        if answer != expected:
            differences.append((key, value, answer, expected))
    assert differences == []


@pytest.mark.parametrize(("operator", "value"), [("in", "ann"), ("any", "ann"), (">", [1])])
def test_values_that_an_operator_does_not_take_are_refused(
    stores: Stores, operator: str, value: Any
) -> None:
    one = MetadataFilter(key="name", operator=FilterOperator(operator), value=value)
    with pytest.raises(InputError, match="expected"):
        found(stores[1], MetadataFilters(filters=[one]))


@pytest.mark.parametrize("condition", [*FilterCondition])
def test_joined_filters_find_the_same_nodes(stores: Stores, condition: FilterCondition) -> None:
    simple, ours = stores
    filters = [
        MetadataFilter(key="name", operator=FilterOperator.TEXT_MATCH_INSENSITIVE, value="AN"),
        MetadataFilter(key="tags", operator=FilterOperator.IS_EMPTY, value=None),
        MetadataFilter(key="n", operator=FilterOperator.NIN, value=[1, 10]),
        MetadataFilter(key="nobody", operator=FilterOperator.NE, value="x"),
    ]
    for first, second in product(filters[1:], filters[1:]):
        asked = MetadataFilters(filters=[first, second], condition=condition)
        assert found(ours, asked) == found(simple, asked)
    assert held(filters[:1], condition) == found(
        ours, MetadataFilters(filters=filters[:1], condition=condition)
    )
