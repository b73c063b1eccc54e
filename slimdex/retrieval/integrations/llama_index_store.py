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

from ..collection import Collection
from ..documents import Document, id_text
from ..encoders.adapters import GivenEncoder
from ..search.request import SearchRequest
from ..store.where.conditions import ALWAYS, NEVER, And, Compare, Condition, Not, Or, as_sql
from .metadata import as_columns, as_metadata, column_of

OPERATORS = {
    FilterOperator.EQ: "=",
    FilterOperator.NE: "=",
    FilterOperator.GT: ">",
    FilterOperator.GTE: ">=",
    FilterOperator.LT: "<",
    FilterOperator.LTE: "<=",
    FilterOperator.IN: "IN",
    FilterOperator.NIN: "IN",
    FilterOperator.IS_EMPTY: "IS NULL",
    FilterOperator.TEXT_MATCH: "CONTAINS",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "CONTAINS IN ANY CASE",
}
NEGATED = (FilterOperator.NE, FilterOperator.NIN)
TEXTS = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)
SOURCE = "ref_doc_id"


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
        if self._collection is None:
            encoder = GivenEncoder(vectors.shape[1])
            self._collection = Collection.create(self.path, encoder, self._settings)
        self._collection.add([_document(node) for node in last.values()], vectors=vectors)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str) -> None:
        """Delete the nodes of a document."""
        if self._collection is not None and SOURCE in self._collection.index.snapshot.columns:
            self._collection.delete(where=as_sql(Compare(SOURCE, "=", ref_doc_id)))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
    ) -> None:
        """Delete nodes by ids, by filters, or by both.

        Raises `InputError` if there are neither: `clear` deletes all nodes.
        """
        if node_ids is None and (filters is None or not filters.filters):
            raise InputError("delete_nodes: expected node_ids or filters; clear() deletes all")
        if self._collection is not None:
            self._collection.delete(where=self._where(node_ids, filters))

    def clear(self) -> None:
        """Delete all nodes."""
        if self._collection is not None:
            self._collection.delete(where="true")

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by ids, by filters, or by both."""
        if self._collection is None:
            return []
        found = self._collection.get(where=self._where(node_ids, filters) or "true")
        return [_node(one.text, one.metadata) for one in found]

    def query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """Nodes that the query's embedding and words find, best first, with their cosines."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise InputError(f"mode {query.mode.value!r}; expected default")
        if query.query_embedding is None:
            raise InputError("a query without an embedding; expected one")
        if self._collection is None or not len(self._collection):
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        where = self._where(query.node_ids or None, query.filters, query.doc_ids)
        texts = [query.query_str] if query.query_str else None
        vectors = np.array([query.query_embedding], dtype=np.float32)
        (hits,) = self._collection.answer(
            SearchRequest(texts=texts, vectors=vectors, limit=query.similarity_top_k, where=where)
        )
        return VectorStoreQueryResult(
            nodes=[_node(hit.text, hit.metadata) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=[hit.id for hit in hits],
        )

    def _where(
        self,
        ids: Sequence[str] | None,
        filters: MetadataFilters | None,
        sources: Sequence[str] | None = None,
    ) -> str | None:
        parts: list[Condition] = []
        if ids is not None:  # an empty list means no nodes, not all
            parts.append(Compare("id", "IN", [*map(id_text, ids)]) if ids else NEVER)
        if filters is not None and filters.filters:
            assert self._collection is not None
            parts.append(condition(filters, self._collection.index.snapshot.columns))
        if sources:
            parts.append(Compare(SOURCE, "IN", sources))
        return as_sql(And(tuple(parts))) if parts else None


def condition(filters: MetadataFilters, columns: Any) -> Condition:
    """Translate filters; a column that no document has is missing everywhere.

    Raises `InputError` for an unsupported operator.
    """
    if not filters.filters:
        raise InputError("filters without any filter; expected at least one")
    parts = tuple(
        condition(one, columns) if isinstance(one, MetadataFilters) else _compared(one, columns)
        for one in filters.filters
    )
    if filters.condition == FilterCondition.NOT:
        return Not(Or(parts))
    return Or(parts) if filters.condition == FilterCondition.OR else And(parts)


def _compared(one: MetadataFilter, columns: Any) -> Condition:
    column, operator = column_of(one.key), OPERATORS.get(one.operator)
    if operator is None or (one.operator in TEXTS and not isinstance(one.value, str)):
        raise InputError(
            f"filter {one.operator.value!r} on {one.key}; expected a comparison or is_empty"
        )
    found: Condition = Compare(column, operator, one.value)
    if column not in columns:
        found = ALWAYS if operator == "IS NULL" else NEVER
    return Not(found) if one.operator in NEGATED else found


def _document(node: BaseNode) -> Document:
    rows = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    return Document(node.node_id, text, metadata=as_columns(rows))


def _node(text: str, columns: Any) -> BaseNode:
    node = metadata_dict_to_node(as_metadata(columns))
    node.set_content(text)
    return node
