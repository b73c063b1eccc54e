"""Haystack: an index as a document store, and a component that searches it."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from ..collection import Collection
from ..documents import Document as SlimdexDocument
from ..documents import Hit
from ..encoders.adapters import GivenEncoder
from ..encoders.opening import open_encoder
from ..recorded_values import encode_value
from ..search.request import SearchRequest
from .haystack_filters import META, filter_sql
from .metadata import as_columns, as_metadata

TYPES = {bool: "boolean", int: "int", float: "float"}
"""Python's type -> Haystack's name of it; others are keywords."""


class SlimdexDocumentStore:
    """A slimdex index as Haystack's document store.

    Parameters
    ----------
    path : the index's folder; created if it does not exist.
    model : the encoder of a new index; see `slimdex build --model`.
    dim : instead of a model: documents come with embeddings of this dimension.
    """

    def __init__(self, path: str, model: str | None = None, dim: int | None = None) -> None:
        self._init_parameters = {"path": path, "model": model, "dim": dim}
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
        return dict(default_to_dict(self, **self._init_parameters))

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

        # Apply the policy to documents that exist, and to those given twice.
        new = dict[str, Document]()
        for document in documents:
            if document.id not in new and document.id not in self.collection:
                new[document.id] = document
            elif policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                raise DuplicateDocumentError(f"document {document.id!r} exists already")
            elif policy == DuplicatePolicy.OVERWRITE:
                new[document.id] = document
            # Otherwise the policy is to skip it.

        if new:
            rows = as_columns([document.meta for document in new.values()], self._columns)
            converted = []
            for document, row in zip(new.values(), rows, strict=True):
                text = document.content or ""
                converted.append(SlimdexDocument(document.id, text, metadata=row))
            self.collection.add(converted, vectors=self._vectors([*new.values()]))
        return len(new)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by their ids; ignore unknown ids."""
        known = [id for id in dict.fromkeys(document_ids) if id in self.collection]
        if known:
            self.collection.delete(known)

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        self.collection.delete(where="true")

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match filters; return their number.

        Raises `FilterError` if there are no filters.
        """
        return self.collection.delete(where=self._require_filter(filters))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set these metadata in the documents that match filters; keep their other metadata.

        Returns the number of documents. Raises `FilterError` if there are no filters.
        """
        has_encoder = self.collection.index.has_encoder
        matches = self.collection.get(where=self._require_filter(filters), vectors=not has_encoder)
        if not matches:
            return 0
        metadata = [as_metadata(document.metadata) | meta for document in matches]
        rows = as_columns(metadata, self._columns)
        changed = []
        for document, row in zip(matches, rows, strict=True):
            changed.append(replace(document, metadata=row))

        # Without a model, the stored vectors are added again.
        vectors = None if has_encoder else np.stack([*map(_only_vector, matches)])
        self.collection.add(changed, vectors=vectors)
        return len(changed)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Number of the documents that match filters."""
        return self.collection.count(self._where(filters))

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Number of different values of fields, in the documents that match filters."""
        metadata = [*self._metadata(filters)]
        names = [field.removeprefix(META) for field in metadata_fields]
        return {name: len(_distinct(metadata, name)) for name in names}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Type of each field: boolean, int, float, or keyword."""
        types = dict[str, set[str]]()
        for metadata in self._metadata(None):
            for name, value in metadata.items():
                if value is not None:
                    types.setdefault(name, set()).add(TYPES.get(type(value), "keyword"))

        # A field with values of several types is reported as a keyword.
        info = {}
        for name, types_of_values in types.items():
            type_ = types_of_values.pop() if len(types_of_values) == 1 else "keyword"
            info[name] = {"type": type_}
        return info

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The least and the greatest value of a field; None without values, or if they differ in
        kind."""
        values = [*_distinct(self._metadata(None), metadata_field.removeprefix(META)).values()]
        ordered = [value for value in values if isinstance(value, int | float | str | date)]
        try:
            return {"min": min(ordered), "max": max(ordered)}
        except (TypeError, ValueError):
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """A page of the different values of a field, ordered as texts, and the number of all.

        Parameters
        ----------
        search_term : part of the value as text, in any case.
        from_, size : number of values to skip, and to return.
        filters : of the documents.
        """
        values = _distinct(self._metadata(filters), metadata_field.removeprefix(META)).values()
        term = (search_term or "").lower()
        matches = [value for value in values if term in str(value).lower()]
        matches.sort(key=lambda value: (str(value), type(value).__name__))
        return matches[from_ : from_ + size], len(matches)

    def search(
        self,
        query: str | None = None,
        embedding: list[float] | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> list[Document]:
        """Return the documents closest to a text in words and meaning, best first, with cosines.

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

    async def count_documents_async(self) -> int:
        """`count_documents` in a thread."""
        return await to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """`filter_documents` in a thread."""
        return await to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """`write_documents` in a thread."""
        return await to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """`delete_documents` in a thread."""
        await to_thread(self.delete_documents, document_ids)

    async def delete_all_documents_async(self) -> None:
        """`delete_all_documents` in a thread."""
        await to_thread(self.delete_all_documents)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """`delete_by_filter` in a thread."""
        return await to_thread(self.delete_by_filter, filters)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """`update_by_filter` in a thread."""
        return await to_thread(self.update_by_filter, filters, meta)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """`count_documents_by_filter` in a thread."""
        return await to_thread(self.count_documents_by_filter, filters)

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """`count_unique_metadata_by_filter` in a thread."""
        return await to_thread(self.count_unique_metadata_by_filter, filters, metadata_fields)

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """`get_metadata_fields_info` in a thread."""
        return await to_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        """`get_metadata_field_min_max` in a thread."""
        return await to_thread(self.get_metadata_field_min_max, metadata_field)

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """`get_metadata_field_unique_values` in a thread."""
        return await to_thread(
            self.get_metadata_field_unique_values,
            metadata_field,
            search_term=search_term,
            from_=from_,
            size=size,
            filters=filters,
        )

    def _vectors(self, documents: list[Document]) -> Any:
        """Return the documents' embeddings (n, d), or None if the store has a model.

        Raises `DocumentStoreError` if a document has none.
        """
        if self.collection.index.has_encoder:
            return None
        for document in documents:
            if document.embedding is None:
                raise DocumentStoreError(
                    f"document {document.id!r} has no embedding; expected one, or a store with a "
                    "model"
                )
        return np.array([d.embedding for d in documents], dtype=np.float32)

    def _where(self, filters: dict[str, Any] | None) -> str | None:
        return None if not filters else filter_sql(filters, self._columns)

    def _require_filter(self, filters: dict[str, Any]) -> str:
        """Return filters as an expression; raise `FilterError` if there are none."""
        where = self._where(filters)
        if where is None:
            raise FilterError("no filters; expected some: delete_all_documents deletes all")
        return where

    def _metadata(self, filters: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
        """Yield the metadata of each document that matches filters."""
        where = self._where(filters)
        documents = self.collection if where is None else self.collection.get(where=where)
        for document in documents:
            yield as_metadata(document.metadata)

    @property
    def _columns(self) -> Mapping[str, str]:
        return self.collection.index.snapshot.columns


def _only_vector(document: SlimdexDocument) -> Any:
    assert document.vectors is not None
    return document.vectors[0]


def _distinct(metadata: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the distinct values of a name, by their JSON.

    The values 1, 1.0, True and "1" are distinct.
    """
    distinct = {}
    for row in metadata:
        value = row.get(name)
        if value is not None:
            distinct[json.dumps(encode_value(value), sort_keys=True)] = value
    return distinct


def _document(hit: Hit | SlimdexDocument, score: float | None = None) -> Document:
    meta = as_metadata(hit.metadata)
    return Document(id=hit.id, content=hit.text or None, meta=meta, score=score)


@component
class SlimdexRetriever:
    """Finds the documents closest to a query.

    Parameters
    ----------
    document_store : the store to search.
    top_k : number of results.
    """

    def __init__(self, document_store: SlimdexDocumentStore, top_k: int = 10) -> None:
        self.document_store = document_store
        self.top_k = top_k

    def to_dict(self) -> dict[str, Any]:
        """Serialise for a pipeline's file."""
        store = self.document_store.to_dict()
        return dict(default_to_dict(self, document_store=store, top_k=self.top_k))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create from the result of `to_dict`."""
        values = data["init_parameters"]
        values["document_store"] = SlimdexDocumentStore.from_dict(values["document_store"])
        retriever: Self = default_from_dict(cls, data)
        return retriever

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

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """`run` in a thread."""
        return await to_thread(self.run, query, query_embedding, filters, top_k)
