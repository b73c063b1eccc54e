"""LlamaIndex: an index as its vector store."""

from __future__ import annotations

from collections.abc import Sequence
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
from ..documents import Hit, id_text
from ..encoders.adapters import GivenEncoder
from ..lexical.fusion import AUTO, OFF
from ..store.where.conditions import And, Compare, Condition, Not, Or, as_sql
from .framework import columns_of, in_thread, search, vectors_of, write
from .metadata import Types, as_metadata, compare

OPERATORS = {
    FilterOperator.EQ: "=",
    FilterOperator.NE: "!=",
    FilterOperator.GT: ">",
    FilterOperator.GTE: ">=",
    FilterOperator.LT: "<",
    FilterOperator.LTE: "<=",
    FilterOperator.IN: "IN",
    FilterOperator.NIN: "NOT IN",
    FilterOperator.IS_EMPTY: "IS EMPTY",
    FilterOperator.TEXT_MATCH: "CONTAINS",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "CONTAINS IN ANY CASE",
    FilterOperator.CONTAINS: "HAS",
}
SOURCE = "ref_doc_id"
NODE_KEYS = ("_node_content", "_node_type", "document_id", "doc_id", SOURCE)
"""Columns beside the metadata."""
LEXICAL = ("text_search", "sparse")
MODES = ("default", "hybrid", *LEXICAL, "mmr")
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

    def __init__(self, path: str | Path, settings: Settings | None = None) -> None:
        super().__init__(path=str(path))
        self._settings = settings
        if Path(path).exists():
            self._collection = Collection.open(path)

    @property
    def client(self) -> Collection | None:
        """The collection; None before the first nodes."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Add nodes with their embeddings, replacing those of the same ids."""
        ids = [node.node_id for node in nodes]
        if not ids:
            return []
        vectors = [node.get_embedding() for node in nodes]

        # The first nodes determine the dimensions.
        if self._collection is None:
            encoder = GivenEncoder(len(vectors[0]))
            self._collection = Collection.open_or_create(self.path, encoder, self._settings)
        texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        write(self._collection, ids, texts, [*map(_metadata, nodes)], vectors)
        return ids

    def delete(self, ref_doc_id: str) -> None:
        """Delete the nodes of a document."""
        self._delete(Compare(SOURCE, "=", ref_doc_id))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Delete nodes by ids, by filters, or by both.

        Raises `InputError` if there are neither: `clear` deletes all nodes.
        """
        if node_ids is None and (filters is None or not filters.filters):
            raise InputError("delete_nodes: expected node_ids or filters; clear() deletes all")
        self._delete(self._condition(node_ids, filters))

    def clear(self) -> None:
        """Delete all nodes."""
        self._delete(And(()))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by ids, by filters, or by both."""
        if self._collection is None:
            return []
        where = as_sql(self._condition(node_ids, filters), columns_of(self._collection))
        return [_node(each.text, each.metadata) for each in self._collection.get(where=where)]

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
        if query.query_embedding is None and mode not in LEXICAL:
            raise InputError(f"a query without an embedding; mode {mode!r} expects one")
        if not self._collection:
            return _result([], [])

        # Limit and fusion of the mode.
        text = query.query_str or None
        limit = query.similarity_top_k
        hybrid: str | float = AUTO
        if mode == "hybrid" and query.alpha is not None:
            hybrid = 1.0 - query.alpha  # the weight of words
        elif mode in LEXICAL:
            hybrid = 1.0
        elif mode == "mmr":
            text = None
            hybrid = OFF
            limit = max(MMR_CANDIDATES, 4 * limit)

        # A search by words alone requires a vector too, but ignores its scores. LlamaIndex's own
        # `as_retriever` passes empty `node_ids` for no restriction; empty `doc_ids` match none.
        vector = query.query_embedding or np.ones(self._collection.index.state.dim, np.float32)
        condition = self._condition(query.node_ids or None, query.filters, query.doc_ids)
        where = as_sql(condition, columns_of(self._collection)) if condition.parts else None
        hits = search(self._collection, text, vector, limit, where, hybrid)

        # Choose among the hits as the mode asks.
        if mode == "mmr" and hits:
            threshold = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            return self._diverse(query, hits, threshold)
        if mode in LEXICAL:
            hits = [hit for hit in hits if hit.found_by != "meaning"]
        return _result(hits, [hit.score for hit in hits])

    async_add = in_thread(add)
    adelete = in_thread(delete)
    adelete_nodes = in_thread(delete_nodes)
    aclear = in_thread(clear)
    aget_nodes = in_thread(get_nodes)
    aquery = in_thread(query)

    def _diverse(
        self, query: VectorStoreQuery, hits: Sequence[Hit], threshold: float | None
    ) -> VectorStoreQueryResult:
        """Choose among the hits by LlamaIndex's maximal marginal relevance."""
        assert self._collection is not None
        scores, numbers = get_top_k_mmr_embeddings(
            query.query_embedding,
            vectors_of(self._collection, hits),
            similarity_top_k=query.similarity_top_k,
            embedding_ids=[*range(len(hits))],
            mmr_threshold=threshold,
        )
        return _result([hits[number] for number in numbers], scores)

    def _delete(self, condition: Condition) -> None:
        if self._collection is not None:
            self._collection.delete(where=as_sql(condition, columns_of(self._collection)))

    def _condition(
        self,
        ids: Sequence[str] | None,
        filters: MetadataFilters | None,
        sources: Sequence[str] | None = None,
    ) -> And:
        """Return the condition for nodes with these ids, filters and source documents, if any."""
        parts = list[Condition]()
        if ids is not None:  # an empty list means no nodes, not all
            parts.append(Compare("id", "IN", [*map(id_text, ids)]))
        if filters is not None and filters.filters:
            columns = {} if self._collection is None else columns_of(self._collection)
            parts.append(filter_condition(filters, columns))
        if sources is not None:
            parts.append(Compare(SOURCE, "IN", sources))
        return And(tuple(parts))


def filter_condition(filters: MetadataFilters, columns: Types) -> Condition:
    """Translate filters; they hold as for LlamaIndex's own `SimpleVectorStore`.

    Raises `InputError` for a value that the operator does not take, or if there are no filters.
    """
    if not filters.filters:
        raise InputError("filters without any filter; expected at least one")
    parts = []
    for part in filters.filters:
        is_one = isinstance(part, MetadataFilter)
        parts.append(_comparison(part, columns) if is_one else filter_condition(part, columns))
    if filters.condition == FilterCondition.NOT:
        return Not(Or(tuple(parts)))
    return Or(tuple(parts)) if filters.condition == FilterCondition.OR else And(tuple(parts))


def _comparison(one: MetadataFilter, columns: Types) -> Condition:
    """Translate one filter; raises `InputError` for a value that its operator does not take."""
    if one.operator in OPERATORS:
        return compare(one.key, OPERATORS[one.operator], one.value, columns, nested=False)
    if not isinstance(one.value, list):
        raise InputError(f"filter {one.operator.value} {one.value!r:.100}; expected a list")
    items = tuple(compare(one.key, "HAS", item, columns, nested=False) for item in one.value)
    return Or(items) if one.operator == FilterOperator.ANY else And(items)


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
