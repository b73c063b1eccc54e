"""Haystack: an index as a document store, and a component that searches it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from ..collection import Collection
from ..documents import Document as OwnDocument
from ..documents import Hit
from ..encoders.adapters import GivenEncoder
from ..encoders.opening import open_encoder
from ..search.request import SearchRequest
from ..store.where.conditions import ALWAYS, NEVER, And, Compare, Condition, Not, Or, as_sql
from .metadata import as_columns, as_metadata, column_of

ORDERED = (">", ">=", "<", "<=")
NEGATED = ("!=", "not in")
OPERATORS = {"==": "=", "!=": "=", "in": "IN", "not in": "IN"} | {sign: sign for sign in ORDERED}
META = "meta."


class SlimdexDocumentStore:
    """A slimdex index as Haystack's document store.

    Parameters
    ----------
    path : the index's folder; created if it does not exist.
    model : the encoder of a new index; see `slimdex build --model`.
    dim : instead of a model: documents come with embeddings of this dimension.
    """

    def __init__(self, path: str, model: str | None = None, dim: int | None = None) -> None:
        self._asked = {"path": path, "model": model, "dim": dim}
        if Path(path).exists():
            self.collection = Collection.open(path)
        elif dim is not None:
            self.collection = Collection.create(path, GivenEncoder(dim))
        else:
            self.collection = Collection.create(
                path, None if model is None else open_encoder(model)
            )

    def to_dict(self) -> dict[str, Any]:
        """Serialise for a pipeline's file."""
        return dict(default_to_dict(self, **self._asked))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create from the result of `to_dict`."""
        store: Self = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """Number of documents."""
        return len(self.collection)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match filters; all documents without filters."""
        if not len(self.collection):
            return []
        return [*map(_document, self.collection.get(where=self._where(filters) or "true"))]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents; return their number.

        Raises `DuplicateDocumentError` if one exists and the policy is to fail, as by default.
        """
        if not isinstance(documents, list) or not all(isinstance(d, Document) for d in documents):
            raise ValueError(f"{documents!r:.100}; expected a list of Haystack's documents")
        new = dict[str, Document]()
        for document in documents:
            if document.id not in new and document.id not in self.collection:
                new[document.id] = document
            elif policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                raise DuplicateDocumentError(f"document {document.id!r} exists already")
            elif policy == DuplicatePolicy.OVERWRITE:
                new[document.id] = document
        if new:
            own = [
                OwnDocument(d.id, d.content or "", metadata=as_columns(d.meta))
                for d in new.values()
            ]
            self.collection.add(own, vectors=self._vectors([*new.values()]))
        return len(new)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by their ids; ignore unknown ids."""
        if known := [id for id in dict.fromkeys(document_ids) if id in self.collection]:
            self.collection.delete(known)

    def search(
        self,
        query: str | None = None,
        embedding: list[float] | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> list[Document]:
        """Documents that a text's words and meaning find, best first, with their cosines.

        `embedding` is the text's vector, which a store without a model requires.
        """
        if not len(self.collection):
            return []
        texts = None if query is None else [query]
        vectors = None if embedding is None else np.array([embedding], dtype=np.float32)
        request = SearchRequest(
            texts=texts, vectors=vectors, limit=top_k, where=self._where(filters)
        )
        (hits,) = self.collection.answer(request)
        return [_document(hit, hit.score) for hit in hits]

    def _vectors(self, documents: list[Document]) -> Any:
        if self.collection.index.has_encoder:
            return None
        if lacking := [d.id for d in documents if d.embedding is None]:
            raise DocumentStoreError(
                f"document {lacking[0]!r} has no embedding; expected one, or a store with a model"
            )
        return np.array([d.embedding for d in documents], dtype=np.float32)

    def _where(self, filters: dict[str, Any] | None) -> str | None:
        if not filters:
            return None
        return as_sql(condition(filters, self.collection.index.snapshot.columns))


def condition(filters: Mapping[str, Any], columns: Any) -> Condition:
    """Translate Haystack's filters; raises `FilterError` if they are invalid."""
    operator = filters.get("operator")
    if operator is None:
        raise FilterError(f"{filters!r:.200}: no operator; expected one")
    if "field" in filters:
        return _compared(filters, str(operator), columns)
    if not filters.get("conditions"):
        raise FilterError(f"{filters!r:.200}: no conditions; expected some")
    parts = tuple(condition(part, columns) for part in filters["conditions"])
    if operator not in ("AND", "OR", "NOT"):
        raise FilterError(f"operator {operator!r}; expected AND, OR or NOT")
    if operator == "OR":
        return Or(parts)
    return And(parts) if operator == "AND" else Not(And(parts))


def _compared(filters: Mapping[str, Any], operator: str, columns: Any) -> Condition:
    if "value" not in filters or operator not in OPERATORS:
        raise FilterError(f"{filters!r:.200}; expected a value, and one of {', '.join(OPERATORS)}")
    value, name = filters["value"], str(filters["field"])
    column = column_of(name.removeprefix(META)) if name.startswith(META) else name
    column = {"content": "text"}.get(column, column)
    there = column in columns or column in ("id", "text")
    _check(operator, value)
    found: Condition = NEVER
    if value is None and operator not in ORDERED:
        found = Compare(column, "IS NULL") if there else ALWAYS
    elif there and value not in (None, []):
        found = Compare(column, OPERATORS[operator], value)
    return Not(found) if operator in NEGATED else found


def _check(operator: str, value: Any) -> None:
    """Raise `FilterError` for a value that is invalid for the operator."""
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"{operator} {value!r:.100}; expected a list")
    if operator not in ORDERED:
        return
    if isinstance(value, list):
        raise FilterError(f"{operator} {value!r:.100}; expected a number or a date")
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError as error:
            raise FilterError(f"{operator} {value!r:.100}; expected a number or a date") from error


def _document(found: Hit | OwnDocument, score: float | None = None) -> Document:
    meta = as_metadata(found.metadata)
    return Document(id=found.id, content=found.text or None, meta=meta, score=score)


@component
class SlimdexRetriever:
    """Finds the documents closest to a query.

    Parameters
    ----------
    document_store : the store to search.
    top_k : number of results.
    """

    def __init__(self, document_store: SlimdexDocumentStore, top_k: int = 10) -> None:
        self.document_store, self.top_k = document_store, top_k

    def to_dict(self) -> dict[str, Any]:
        """Serialise for a pipeline's file."""
        store = self.document_store.to_dict()
        return dict(default_to_dict(self, document_store=store, top_k=self.top_k))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create from the result of `to_dict`."""
        values = data["init_parameters"]
        values["document_store"] = SlimdexDocumentStore.from_dict(values["document_store"])
        made: Self = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Documents found by a text, and by its vector if the store has embeddings only."""
        if query is None and query_embedding is None:
            raise ValueError("neither query nor query_embedding; expected one or both")
        count = self.top_k if top_k is None else top_k
        return {"documents": self.document_store.search(query, query_embedding, count, filters)}
