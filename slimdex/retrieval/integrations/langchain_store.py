"""LangChain: an index as its `VectorStore`."""

# mypy: disable-error-code="override"
# LangChain's methods take any keyword; these refuse the unknown ones, which would go unnoticed.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings

from ..collection import Collection
from ..documents import Document as OwnDocument
from ..documents import Hit, id_text
from ..encoders.base import encode_queries
from ..store.where.conditions import And, Compare, as_sql
from .metadata import as_columns, as_metadata, column_of

Filter = Mapping[str, Any] | None


class EmbeddingsEncoder:
    """LangChain's embeddings as an encoder, identified by the name of their class."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self.dim = len(embeddings.embed_query("a text"))

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode documents to vectors (n, dim)."""
        return np.array(self.embeddings.embed_documents(list(texts)), dtype=np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim)."""
        found = [self.embeddings.embed_query(text) for text in texts]
        return np.array(found, dtype=np.float32)

    def spec(self) -> dict[str, Any]:
        """Class of the embeddings, and the model they report."""
        kind = type(self.embeddings)
        model = getattr(self.embeddings, "model", None) or getattr(
            self.embeddings, "model_name", None
        )
        name = f"{kind.__module__}.{kind.__qualname__}"
        return {"type": "langchain", "name": name, "model": str(model), "dim": self.dim}


class SlimdexVectorStore(VectorStore):
    """A slimdex index as LangChain's vector store.

    Parameters
    ----------
    path : the index's folder; created if it does not exist.
    embedding : LangChain's embeddings; by default slimdex's own encoder.
    settings : settings of a new index.
    """

    def __init__(
        self,
        path: str | Path,
        embedding: Embeddings | None = None,
        settings: Settings | None = None,
    ) -> None:
        encoder = None if embedding is None else EmbeddingsEncoder(embedding)
        self._embedding = embedding
        self.collection = Collection.open_or_create(path, encoder, settings)

    @property
    def embeddings(self) -> Embeddings | None:
        """Embeddings that the store was created with."""
        return self._embedding

    def as_retriever(
        self,
        *,
        search_type: str = "similarity",
        search_kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> VectorStoreRetriever:
        """Create a retriever; `search_kwargs` are arguments of `similarity_search`."""
        return super().as_retriever(
            search_type=search_type,
            search_kwargs=search_kwargs or {},
            name=name,
            tags=tags,
            metadata=metadata,
        )

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path = "langchain.index",
        settings: Settings | None = None,
    ) -> Self:
        """Create a store with these texts."""
        store = cls(path, embedding, settings)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Add texts, replacing those of the same ids; return the ids."""
        texts = list(texts)
        given = list(ids) if ids is not None else [None] * len(texts)
        rows = metadatas if metadatas is not None else [{} for _ in texts]
        if not len(texts) == len(given) == len(rows):
            raise InputError(
                f"{len(texts)} texts, {len(given)} ids, {len(rows)} metadata; expected "
                "equal numbers"
            )
        names = [str(uuid4()) if id in (None, "") else id_text(id) for id in given]
        documents = {
            id: OwnDocument(id, text, metadata=as_columns(row))
            for id, text, row in zip(names, texts, rows, strict=True)
        }
        if documents:
            self.collection.add([*documents.values()])
        return names

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        filter: Filter = None,
        where: str | None = None,
        delete_all: bool = False,
    ) -> bool | None:
        """Delete the documents that have one of the ids and match `filter` and `where`.

        Parameters
        ----------
        ids : unknown ones are ignored.
        filter, where : see `similarity_search`.
        delete_all : delete every document; only without the others.

        Raises `InputError` if nothing is given.
        """
        if ids is None and not filter and where is None and not delete_all:
            raise InputError("delete: expected ids, filter, where or delete_all=True")
        if delete_all and (ids is not None or filter or where is not None):
            raise InputError("delete: delete_all=True with ids, filter or where; expected it alone")
        if ids == []:
            return True
        parts = [] if ids is None else [as_sql(Compare("id", "IN", [*map(id_text, ids)]))]
        condition = " AND ".join([*parts, *_conditions(filter, where)])
        self.collection.delete(where=condition or "true")
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents with these ids; unknown ids are ignored."""
        known = [id for id in ids if id in self.collection]
        return [*map(_document, self.collection.get(known) if known else [])]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: Filter = None,
        *,
        where: str | None = None,
    ) -> list[Document]:
        """Documents closest to a query.

        Parameters
        ----------
        filter : required metadata: name -> value, or a list of values.
        where : a DuckDB condition on the columns.
        """
        return [_document(hit) for hit in self._hits(query, k, filter, where)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filter = None,
        *,
        where: str | None = None,
    ) -> list[tuple[Document, float]]:
        """Documents closest to a query, with their cosines."""
        return [(_document(hit), hit.score) for hit in self._hits(query, k, filter, where)]

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Filter = None,
        *,
        where: str | None = None,
    ) -> list[Document]:
        """Documents closest to a vector."""
        vector = np.array(embedding, dtype=np.float32)
        return [_document(hit) for hit in self._hits(vector, k, filter, where)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        *,
        where: str | None = None,
    ) -> list[Document]:
        """Of the `fetch_k` closest documents, k that are close to the query and far from each
        other."""
        hits = self._hits(query, fetch_k, filter, where)
        if not hits:
            return []
        encoder = self.collection.encoder
        vectors = encoder.encode([hit.text for hit in hits])
        asked = encode_queries(encoder, [query])[0]
        chosen = maximal_marginal_relevance(asked, list(vectors), lambda_mult, k)
        return [_document(hits[i]) for i in chosen]

    def _hits(self, query: Any, k: int, filter: Filter, where: str | None) -> list[Hit]:
        if not len(self.collection):
            return []
        return self.collection.search(query, k, " AND ".join(_conditions(filter, where)) or None)

    def _select_relevance_score_fn(self) -> Any:
        return lambda cosine: (1.0 + cosine) / 2


def _conditions(filter: Filter, where: str | None) -> list[str]:
    parts = [] if where is None else [f"({where}\n)"]
    if filter:
        parts.append(as_sql(And(tuple(_named(*each) for each in filter.items()))))
    return parts


def _named(name: str, value: Any) -> Compare:
    return Compare(column_of(name), "IN" if isinstance(value, list | tuple) else "=", value)


def _document(found: Hit | OwnDocument) -> Document:
    metadata = as_metadata(found.metadata)
    return Document(id=found.id, page_content=found.text, metadata=metadata)
