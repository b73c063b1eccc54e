"""Haystack: an index as a document store, and a component that searches it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from ..collection import Collection
from ..documents import Document as SlimdexDocument
from ..documents import Hit
from ..encoders.adapters import GivenEncoder
from ..encoders.opening import open_encoder
from ..store.where.conditions import Compare, as_sql
from .framework import columns_of, in_thread, search, write
from .haystack_filters import META, filter_sql
from .metadata import as_metadata

TYPES = {bool: "boolean", int: "int", float: "float"}
KEYWORD = "keyword"
"""Python's type -> Haystack's name of it; other types, and several of them, are keywords."""


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
        encoder: Any = None
        if dim is not None:
            encoder = GivenEncoder(dim)
        elif model is not None:
            encoder = open_encoder(model)
        self.collection = Collection.open_or_create(path, encoder)

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
        # Without a model, embeddings are the caller's and are returned.
        has_encoder = self.collection.index.has_encoder
        where = self._where(filters) or "true"
        return [*map(_document, self.collection.get(where=where, vectors=not has_encoder))]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents; return their number.

        Raises `DuplicateDocumentError` if one exists and the policy is to fail, as by default; and
        `DocumentStoreError` if one has a blob or a sparse embedding, which an index can't store.
        """
        if not isinstance(documents, list) or not all(isinstance(d, Document) for d in documents):
            raise ValueError(f"{documents!r:.100}; expected a list of Haystack's documents")

        for document in documents:
            if document.blob is not None or document.sparse_embedding is not None:
                raise DocumentStoreError(
                    f"document {document.id!r} has a blob or a sparse embedding; expected neither"
                )

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

        chosen = [*new.values()]
        write(
            self.collection,
            [*new],
            [document.content or "" for document in chosen],
            [document.meta for document in chosen],
            self._vectors(chosen),
        )
        return len(new)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by their ids; ignore unknown ids."""
        has_id = Compare("id", "IN", document_ids)
        self.collection.delete(where=as_sql(has_id, columns_of(self.collection)))

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
        where = self._require_filter(filters)
        matches = self.collection.get(where=where, vectors=not has_encoder)
        write(
            self.collection,
            [document.id for document in matches],
            [document.text for document in matches],
            [as_metadata(document.metadata) | meta for document in matches],
            # Without a model, the stored vectors are added again.
            None
            if has_encoder
            else [each.vectors[0] for each in matches if each.vectors is not None],
        )
        return len(matches)

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
        info = dict[str, dict[str, str]]()
        for metadata in self._metadata(None):
            for name, value in metadata.items():
                if value is not None:
                    kind = {"type": TYPES.get(type(value), KEYWORD)}
                    is_same = info.setdefault(name, kind) == kind
                    info[name] = kind if is_same else {"type": KEYWORD}
        return info

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The least and the greatest value of a field; None without values, or if they differ in
        kind."""
        values = [*_distinct(self._metadata(None), metadata_field.removeprefix(META)).values()]
        try:
            return {"min": min(values), "max": max(values)}
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
        hits = search(self.collection, query, embedding, top_k, self._where(filters))
        return [_document(hit, hit.score) for hit in hits]

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    count_documents_by_filter_async = in_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = in_thread(get_metadata_field_unique_values)

    def _vectors(self, documents: list[Document]) -> Any:
        """Return the documents' embeddings (n, d), or None if the store has a model.

        Raises `DocumentStoreError` if a document has none.
        """
        if self.collection.index.has_encoder:
            return None
        for document in documents:
            if document.embedding is None:
                raise DocumentStoreError(f"document {document.id!r} has no embedding; expected one")
        return [document.embedding for document in documents]

    def _where(self, filters: dict[str, Any] | None) -> str | None:
        return filter_sql(filters, columns_of(self.collection)) if filters else None

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


def _distinct(metadata: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the distinct values of a name, by their JSON.

    The values 1, 1.0, True and "1" are distinct.
    """
    distinct = {}
    for row in metadata:
        value = row.get(name)
        if value is not None:
            distinct[json.dumps(value, sort_keys=True, default=repr)] = value
    return distinct


def _document(hit: Hit | SlimdexDocument, score: float | None = None) -> Document:
    meta = as_metadata(hit.metadata)
    vectors = getattr(hit, "vectors", None)
    embedding = None if vectors is None else vectors[0].tolist()
    content = hit.text or None
    return Document(id=hit.id, content=content, meta=meta, score=score, embedding=embedding)


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

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str | None = None,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Documents found by a text, and by its vector if the store has embeddings only."""
        count = self.top_k if top_k is None else top_k
        return {"documents": self.document_store.search(query, query_embedding, count, filters)}
