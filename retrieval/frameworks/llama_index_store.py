"""LlamaIndex: an index as its vector store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
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

from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings

from ..collection.collection import Collection
from ..conditions import compared, joined, negated
from ..documents import Document, id_text
from ..sources.given_vectors import GivenEncoder
from ..sql import identifier, literal
from .metadata import as_columns, as_metadata, column_of

OPERATORS = {
    FilterOperator.EQ: "=",
    FilterOperator.NE: "<>",
    FilterOperator.GT: ">",
    FilterOperator.GTE: ">=",
    FilterOperator.LT: "<",
    FilterOperator.LTE: "<=",
    FilterOperator.IN: "IN",
    FilterOperator.NIN: "NOT IN",
}
SOURCE = "ref_doc_id"


class SlimdexVectorStore(BasePydanticVectorStore):
    """An index of slimdex's as a vector store of LlamaIndex's, which encodes texts itself.

    Parameters
    ----------
    path : the index's folder; made when the first nodes come, if there is none.
    settings : of a new index.
    """

    stores_text: bool = True
    path: str
    _settings: Settings | None = PrivateAttr()
    _collection: Collection | None = PrivateAttr(default=None)

    def __init__(self, path: str | Path, settings: Settings | None = None, **kwargs: Any) -> None:
        super().__init__(path=str(path), **kwargs)
        self._settings = settings
        if Path(path).exists():
            self._collection = Collection.open(path)

    @classmethod
    def class_name(cls) -> str:
        """What LlamaIndex calls it."""
        return "SlimdexVectorStore"

    @property
    def client(self) -> Collection | None:
        """The collection; None before the first nodes."""
        return self._collection

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes with their embeddings, or replace those of the same ids."""
        last = {node.node_id: node for node in nodes}
        if not last:
            return []
        vectors = np.array([node.get_embedding() for node in last.values()], dtype=np.float32)
        if self._collection is None:
            encoder = GivenEncoder(vectors.shape[1])
            self._collection = Collection.create(self.path, encoder, self._settings)
        self._collection.add([_document(node) for node in last.values()], vectors=vectors)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        if self._collection is not None and SOURCE in self._collection._store.columns.committed:
            self._collection.delete(where=compared(SOURCE, "=", ref_doc_id))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete nodes by their ids, or by filters, or those for which both hold."""
        if self._collection is not None:
            self._collection.delete(where=self._where(node_ids, filters) or "true")

    def clear(self) -> None:
        """Delete all."""
        if self._collection is not None:
            self._collection.delete(where="true")

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by their ids, or by filters, or those for which both hold."""
        if self._collection is None:
            return []
        where = self._where(node_ids, filters) or "true"
        found = self._collection.documents_where(where)
        return [_node(one.text, one.metadata) for one in found]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes nearest to the query's embedding, with their cosines."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise InputError(f"mode {query.mode.value!r}; expected default")
        if query.query_embedding is None:
            raise InputError("a query without an embedding; expected one")
        if self._collection is None or not len(self._collection):
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        where = self._where(query.node_ids or None, query.filters)
        if query.doc_ids:
            own = compared(SOURCE, "IN", query.doc_ids)
            where = own if where is None else joined("AND", [where, own])
        vector = np.array(query.query_embedding, dtype=np.float32)
        hits = self._collection.search(vector, query.similarity_top_k, where)
        return VectorStoreQueryResult(
            nodes=[_node(hit.text, hit.metadata) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=[hit.id for hit in hits],
        )

    def _where(self, ids: Sequence[str] | None, filters: MetadataFilters | None) -> str | None:
        parts = []
        if ids is not None:  # none of them are no nodes, not all
            parts.append(compared("id", "IN", [*map(id_text, ids)]) if ids else "false")
        if filters is not None and filters.filters:
            assert self._collection is not None
            parts.append(condition(filters, self._collection._store.columns.committed))
        return joined("AND", parts) if parts else None


def condition(filters: MetadataFilters, columns: Any) -> str:
    """A condition that holds where filters do; a column that nobody has is missing everywhere.

    Raises
    ------
    InputError
        For an operator that conditions on columns have not.
    """
    parts = [
        condition(one, columns) if isinstance(one, MetadataFilters) else _compared(one, columns)
        for one in filters.filters
    ]
    if filters.condition == FilterCondition.NOT:
        return negated(joined("OR", parts))
    return joined("OR" if filters.condition == FilterCondition.OR else "AND", parts)


def _compared(one: MetadataFilter, columns: Any) -> str:
    column, operator = column_of(one.key), one.operator
    there = identifier(column) if column in columns else "NULL"
    if operator == FilterOperator.IS_EMPTY:
        return f"({there} IS NULL)"
    if column not in columns:
        return "true" if operator in (FilterOperator.NE, FilterOperator.NIN) else "false"
    if operator in OPERATORS:
        found = compared(column, OPERATORS[operator], one.value)
        missing = operator in (FilterOperator.NE, FilterOperator.NIN)
        return f"({found} OR {there} IS NULL)" if missing else found
    if operator == FilterOperator.TEXT_MATCH and isinstance(one.value, str):
        return f"contains({there}, {literal(one.value)})"
    if operator == FilterOperator.TEXT_MATCH_INSENSITIVE and isinstance(one.value, str):
        return f"contains(lower({there}), {literal(one.value.lower())})"
    raise InputError(f"filter {operator.value!r} on {one.key}; expected a comparison or is_empty")


def _document(node: BaseNode) -> Document:
    rows = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return Document(node.node_id, text, metadata=as_columns(rows))


def _node(text: str, columns: Any) -> BaseNode:
    node = metadata_dict_to_node(as_metadata(columns))
    node.set_content(text)
    return node
