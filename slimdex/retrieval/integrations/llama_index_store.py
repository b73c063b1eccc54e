"""LlamaIndex: an index as its vector store."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from pydantic import PrivateAttr

from slimdex.errors import InputError, check_choice
from slimdex.indexes.settings import Settings

from ..collection import Collection
from ..documents import Document, Hit, id_text
from ..encoders.adapters import GivenEncoder
from ..lexical.fusion import AUTO, OFF
from ..search.request import SearchRequest
from ..store.where.conditions import NEVER, And, Compare, Condition, Not, Or, as_sql
from .metadata import as_columns, as_metadata, compare
from .stored_vectors import vectors_of

OPERATORS = {
    FilterOperator.EQ: "=",
    FilterOperator.NE: "=",
    FilterOperator.GT: ">",
    FilterOperator.GTE: ">=",
    FilterOperator.LT: "<",
    FilterOperator.LTE: "<=",
    FilterOperator.IN: "IN",
    FilterOperator.NIN: "IN",
    FilterOperator.IS_EMPTY: "IS EMPTY",
    FilterOperator.TEXT_MATCH: "CONTAINS",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "CONTAINS IN ANY CASE",
    FilterOperator.CONTAINS: "HAS",
    FilterOperator.ANY: "HAS",
    FilterOperator.ALL: "HAS",
}
NEGATED = (FilterOperator.NE, FilterOperator.NIN)
TEXTS = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)
LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
"""Operators whose values are lists."""
SOURCE = "ref_doc_id"
NODE_KEYS = ("_node_content", "_node_type", "document_id", "doc_id", SOURCE)
"""Columns beside the metadata."""
MODES = ("default", "hybrid", "text_search", "sparse", "mmr")
"""Supported modes of a query."""
MMR_CANDIDATES = 100
"""Nearest nodes, at least, among which a query in mode mmr chooses."""


class SlimdexVectorStore(BasePydanticVectorStore):
    """A slimdex index as LlamaIndex's vector store; LlamaIndex encodes the texts.

    Parameters
    ----------
    path : the index's folder; created with the first nodes if it does not exist.
    settings : settings of a new index.
    """

    stores_text: bool = True
    path: str
    _settings: Settings | None = PrivateAttr()
    _collection: Collection | None = PrivateAttr(default=None)

    def __init__(
        self,
        path: str | Path,
        settings: Settings | None = None,
        *,
        stores_text: bool = True,
        is_embedding_query: bool = True,
    ) -> None:
        super().__init__(
            path=str(path), stores_text=stores_text, is_embedding_query=is_embedding_query
        )
        self._settings = settings
        if Path(path).exists():
            self._collection = Collection.open(path)

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex."""
        return "SlimdexVectorStore"

    @property
    def client(self) -> Collection | None:
        """The collection; None before the first nodes."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Add nodes with their embeddings, replacing those of the same ids."""
        last = {node.node_id: node for node in nodes}
        if not last:
            return []
        vectors = np.array([node.get_embedding() for node in last.values()], dtype=np.float32)

        # The first nodes determine the dimensions.
        if self._collection is None:
            encoder = GivenEncoder(vectors.shape[1])
            self._collection = Collection.open_or_create(self.path, encoder, self._settings)

        rows = as_columns([*map(_metadata, last.values())], self._columns)
        documents = []
        for node, row in zip(last.values(), rows, strict=True):
            text = node.get_content(metadata_mode=MetadataMode.NONE)
            documents.append(Document(node.node_id, text, metadata=row))
        self._collection.add(documents, vectors=vectors)
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode]) -> list[str]:
        """`add` in a thread."""
        return await to_thread(self.add, nodes)

    def delete(self, ref_doc_id: str) -> None:
        """Delete the nodes of a document."""
        if self._collection is not None:
            source = as_sql(Compare(SOURCE, "=", ref_doc_id), self._columns)
            self._collection.delete(where=source)

    async def adelete(self, ref_doc_id: str) -> None:
        """`delete` in a thread."""
        await to_thread(self.delete, ref_doc_id)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Delete nodes by ids, by filters, or by both.

        Raises `InputError` if there are neither: `clear` deletes all nodes.
        """
        if node_ids is None and (filters is None or not filters.filters):
            raise InputError("delete_nodes: expected node_ids or filters; clear() deletes all")
        if self._collection is not None:
            self._collection.delete(where=self._where(node_ids, filters))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """`delete_nodes` in a thread."""
        await to_thread(self.delete_nodes, node_ids, filters)

    def clear(self) -> None:
        """Delete all nodes."""
        if self._collection is not None:
            self._collection.delete(where="true")

    async def aclear(self) -> None:
        """`clear` in a thread."""
        await to_thread(self.clear)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by ids, by filters, or by both."""
        if self._collection is None:
            return []
        documents = self._collection.get(where=self._where(node_ids, filters) or "true")
        return [_node(document.text, document.metadata) for document in documents]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """`get_nodes` in a thread."""
        return await to_thread(self.get_nodes, node_ids, filters)

    def query(
        self, query: VectorStoreQuery, *, mmr_threshold: float | None = None
    ) -> VectorStoreQueryResult:
        """Return the nodes that match the query's embedding and words, best first, with cosines.

        Modes: "default", by the index's own fusion of meaning and words; "hybrid", where alpha is
        the weight of meaning, 0 to 1; "text_search" or "sparse", only nodes with words of the
        query; "mmr", by the embedding alone, where a threshold of 0 prefers nodes that differ from
        each other, and 1 those nearest to the query.

        Raises `InputError` for another mode, or if the embedding or text that it needs is missing.
        """
        mode = VectorStoreQueryMode(query.mode).value
        check_choice("mode", mode, MODES)
        if query.query_embedding is None and mode not in ("text_search", "sparse"):
            raise InputError(f"a query without an embedding; mode {mode!r} expects one")
        if query.query_str is None and mode in ("hybrid", "text_search", "sparse"):
            raise InputError(f"a query without a text; mode {mode!r} expects one")
        if self._collection is None or not len(self._collection):
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])

        # Search, and choose among the hits as the mode asks.
        hits = self._collection.answer(self._request(query))[0]
        if mode == "mmr":
            threshold = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            return self._diverse(query, hits, threshold)
        if mode in ("text_search", "sparse"):
            hits = [hit for hit in hits if hit.found_by != "meaning"]
        return _result(hits, [hit.score for hit in hits])

    async def aquery(
        self, query: VectorStoreQuery, *, mmr_threshold: float | None = None
    ) -> VectorStoreQueryResult:
        """`query` in a thread."""
        return await to_thread(self.query, query, mmr_threshold=mmr_threshold)

    def _request(self, query: VectorStoreQuery) -> SearchRequest:
        """Translate a query: limit, fusion, text and vector depend on its mode."""
        assert self._collection is not None
        mode = VectorStoreQueryMode(query.mode).value
        limit = query.similarity_top_k

        # Limit and fusion of the mode.
        hybrid: str | float = AUTO
        if mode == "hybrid":
            limit = query.hybrid_top_k or limit
            hybrid = AUTO if query.alpha is None else 1.0 - query.alpha  # the weight of words
        elif mode == "mmr":
            hybrid = OFF
            limit = max(MMR_CANDIDATES, 4 * limit)
        elif mode in ("text_search", "sparse"):
            hybrid = 1.0
            limit = query.sparse_top_k or limit

        # A search by words alone requires a vector too, but ignores its scores.
        any_vector = np.ones(self._collection.index.state.dim).tolist()
        vector = query.query_embedding or any_vector
        return SearchRequest(
            texts=[query.query_str] if query.query_str and mode != "mmr" else None,
            vectors=np.array([vector], dtype=np.float32),
            limit=limit,
            where=self._where(query.node_ids or None, query.filters, query.doc_ids),
            hybrid=hybrid,
        )

    def _diverse(
        self, query: VectorStoreQuery, hits: Sequence[Hit], threshold: float | None
    ) -> VectorStoreQueryResult:
        """Choose among the hits by LlamaIndex's maximal marginal relevance."""
        assert self._collection is not None
        if not hits:
            return _result([], [])
        scores, numbers = get_top_k_mmr_embeddings(
            query.query_embedding,
            [*vectors_of(self._collection, hits)],
            similarity_top_k=query.similarity_top_k,
            embedding_ids=[*range(len(hits))],
            mmr_threshold=threshold,
        )
        return _result([hits[number] for number in numbers], scores)

    @property
    def _columns(self) -> Mapping[str, str]:
        assert self._collection is not None
        return self._collection.index.snapshot.columns

    def _where(
        self,
        ids: Sequence[str] | None,
        filters: MetadataFilters | None,
        sources: Sequence[str] | None = None,
    ) -> str | None:
        """Return the expression for nodes with these ids, filters and source documents, if any."""
        parts: list[Condition] = []
        if ids is not None:  # an empty list means no nodes, not all
            parts.append(Compare("id", "IN", [*map(id_text, ids)]) if ids else NEVER)
        if filters is not None and filters.filters:
            parts.append(condition(filters, self._columns))
        if sources:
            parts.append(Compare(SOURCE, "IN", sources))
        return as_sql(And(tuple(parts)), self._columns) if parts else None


def condition(filters: MetadataFilters, columns: Mapping[str, str]) -> Condition:
    """Translate filters; they hold as for LlamaIndex's own `SimpleVectorStore`.

    Raises `InputError` for a value that the operator does not take.
    """
    if not filters.filters:
        raise InputError("filters without any filter; expected at least one")
    parts = list[Condition]()
    for part in filters.filters:
        if isinstance(part, MetadataFilters):
            parts.append(condition(part, columns))
        else:
            parts.append(_comparison(part, columns))
    if filters.condition == FilterCondition.NOT:
        return Not(Or(tuple(parts)))
    return Or(tuple(parts)) if filters.condition == FilterCondition.OR else And(tuple(parts))


def _comparison(one: MetadataFilter, columns: Mapping[str, str]) -> Condition:
    """Translate one filter; raises `InputError` for a value that its operator does not take."""
    operator = one.operator
    value = one.value
    expected = "a text" if operator in TEXTS else "a list" if operator in LISTS else ""
    lacks_text = operator in TEXTS and not isinstance(value, str)
    lacks_list = operator in LISTS and not isinstance(value, list)
    if lacks_text or lacks_list:
        raise InputError(
            f"filter {operator.value!r} {value!r:.100} on {one.key}: {expected} expected"
        )
    if operator in (FilterOperator.ANY, FilterOperator.ALL):
        return _among(one, columns)

    # No value equals None, not even a missing one, as in LlamaIndex's own store.
    if value is None and operator != FilterOperator.IS_EMPTY:
        comparison: Condition = NEVER
    else:
        comparison = compare(one.key, OPERATORS[operator], value, columns, nested=False)
    return Not(comparison) if operator in NEGATED else comparison


def _among(one: MetadataFilter, columns: Mapping[str, str]) -> Condition:
    """Return the condition that a list, or a text, has any or all of several items."""
    items = list[Condition]()
    for item in one.value or ():
        items.append(compare(one.key, "HAS", item, columns, nested=False))
    if one.operator == FilterOperator.ANY:
        return Or(tuple(items))

    # A missing value does not have all items, not even if none are required.
    is_missing = compare(one.key, "IS NULL", None, columns, nested=False)
    return And((Not(is_missing), *items))


def _metadata(node: BaseNode) -> dict[str, Any]:
    """Return a node's metadata, and in `NODE_KEYS` all else that LlamaIndex needs to restore it."""
    written = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    return {**node.metadata, **{name: written[name] for name in NODE_KEYS}}


def _node(text: str, columns: Any) -> BaseNode:
    """Restore a node from its text and the columns of its document."""
    metadata = as_metadata(columns)
    node = metadata_dict_to_node(metadata)
    node.set_content(text)
    for name in node.metadata.keys() & metadata.keys() - {*NODE_KEYS}:
        node.metadata[name] = metadata[name]  # LlamaIndex writes dates as texts
    return node


def _result(hits: Sequence[Hit], scores: list[float]) -> VectorStoreQueryResult:
    """Convert hits, with a score for each, to LlamaIndex's result."""
    return VectorStoreQueryResult(
        nodes=[_node(hit.text, hit.metadata) for hit in hits],
        similarities=scores,
        ids=[hit.id for hit in hits],
    )
