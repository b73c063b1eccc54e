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
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from slimdex.errors import InputError, check_choice, short_repr
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings

from ..collection import Collection
from ..documents import Document as SlimdexDocument
from ..documents import Hit, id_text
from ..encoders.base import FINGERPRINT_TEXTS, encode_queries, fingerprint
from ..store.where.conditions import And, Compare, Condition, Not, Or, as_sql
from .framework import columns_of, search, vectors_of, write
from .metadata import Types, as_metadata, compare

Filter = Mapping[str, Any] | str | None
OPERATORS = {
    "$eq": "=",
    "$ne": "!=",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
    "$in": "IN",
    "$nin": "NOT IN",
    "$exists": "EXISTS",
}
JOINING = ("$and", "$or", "$not")


class EmbeddingsEncoder:
    """LangChain's embeddings as an encoder, identified by their class and a fingerprint."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        vectors = self.encode(FINGERPRINT_TEXTS)
        self.dim = vectors.shape[1]
        self._fingerprint = fingerprint(vectors)

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Encode documents to vectors (n, dim)."""
        return np.array(self.embeddings.embed_documents(list(texts)), dtype=np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim)."""
        vectors = [self.embeddings.embed_query(text) for text in texts]
        return np.array(vectors, dtype=np.float32)

    def spec(self) -> dict[str, Any]:
        """Class of the embeddings, and a fingerprint of their vectors."""
        kind = type(self.embeddings)
        name = f"{kind.__module__}.{kind.__qualname__}"
        spec = {"type": "langchain", "name": name, "dim": self.dim}
        return {**spec, "fingerprint": self._fingerprint}


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
        self.collection = Collection.open_or_create(path, encoder, settings)

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
        batch_size: int | None = None,
    ) -> list[str]:
        """Add texts, replacing those of the same ids; return the ids, random ones by default.

        All are added together, whatever `batch_size` is; LangChain's `index` passes it.
        """
        texts = list(texts)
        names = []
        for id in [None] * len(texts) if ids is None else ids:
            names.append(str(uuid4()) if id in (None, "") else id_text(id))
        write(self.collection, names, texts, metadatas or [{}] * len(texts))
        return names

    def delete(self, ids: list[str] | None = None, *, filter: Filter = None) -> bool | None:
        """Delete the documents that have one of the ids, if any exists, or that match a filter.

        Raises `InputError` unless there is one of both. The filter "true" deletes all documents.
        """
        if (ids is None) == (not filter):
            raise InputError("delete: expected ids or a filter ('true' deletes all documents)")
        where = self._where(filter)
        if ids is not None:
            where = as_sql(Compare("id", "IN", [*map(id_text, ids)]), columns_of(self.collection))
        self.collection.delete(where=where)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents with these ids; unknown ids are ignored."""
        known = [id for id in ids if id in self.collection]
        return [*map(_document, self.collection.get(known))] if known else []

    def similarity_search(self, query: str, k: int = 4, filter: Filter = None) -> list[Document]:
        """Documents closest to a query.

        `filter` is an SQL condition on the columns, or required metadata: name -> value, or a list
        of values, or {operator: value} with $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $exists;
        "$and" and "$or" -> a list of filters, "$not" -> a filter. A name with dots may lead into an
        object.
        """
        return [*map(_document, self._hits(query, None, k, filter))]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter = None
    ) -> list[tuple[Document, float]]:
        """Documents closest to a query, with their cosines."""
        return [(_document(hit), hit.score) for hit in self._hits(query, None, k, filter)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter = None
    ) -> list[Document]:
        """Documents closest to a vector."""
        return [*map(_document, self._hits(None, embedding, k, filter))]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
    ) -> list[Document]:
        """Of the `fetch_k` closest documents, k that are close to the query and far from each
        other, by their stored vectors."""
        vector = encode_queries(self.collection.encoder, [query])[0]
        hits = self._hits(query, vector, fetch_k, filter)
        if not hits:
            return []
        vectors: list[Any] = vectors_of(self.collection, hits)
        chosen = maximal_marginal_relevance(vector, vectors, lambda_mult, k)
        return [_document(hits[i]) for i in chosen]

    def _hits(self, query: str | None, vector: Any, k: int, filter: Filter) -> list[Hit]:
        return search(self.collection, query, vector, k, self._where(filter))

    def _where(self, filter: Filter) -> str | None:
        if not filter:
            return None
        if isinstance(filter, str):
            return filter
        columns = columns_of(self.collection)
        return as_sql(filter_condition(filter, columns), columns)

    def _select_relevance_score_fn(self) -> Any:
        """Return the function that converts a cosine to LangChain's relevance, from 0 to 1."""
        return lambda cosine: (1.0 + cosine) / 2


def filter_condition(filter: Any, columns: Types) -> Condition:
    """Translate a filter: name -> value, several values, or {operator: value}.

    Raises `InputError` for another filter or an unknown operator.

    >>> filter_condition({"year": {"$gte": 1990}}, {"year": "BIGINT"})
    And(parts=(And(parts=(Or(parts=(Compare(column='year', operator='>=', value=1990, \
path=()),)),)),))
    """
    if not isinstance(filter, Mapping) or not filter:
        raise InputError(f"filter {short_repr(filter)}; expected required metadata")
    return And(tuple(_part(name, value, columns) for name, value in filter.items()))


def _part(name: str, value: Any, columns: Types) -> Condition:
    """Translate one item of a filter, a name or a joining operator with its value."""
    if name in ("$and", "$or"):
        if not isinstance(value, list | tuple) or not value:
            raise InputError(f"filter {name} {short_repr(value)}; expected a list of filters")
        filters = tuple(filter_condition(part, columns) for part in value)
        return And(filters) if name == "$and" else Or(filters)
    if name == "$not":
        return Not(filter_condition(value, columns))
    if name.startswith("$"):
        check_choice("filter operator", name, JOINING)

    # A name with a list of values, a value, or operators. An object without operators is a value.
    if isinstance(value, list | tuple):
        return compare(name, "IN", value, columns)
    if not isinstance(value, Mapping) or not any(str(key).startswith("$") for key in value):
        return compare(name, "=", value, columns)
    parts = []
    for sign, constant in value.items():
        check_choice(f"filter on {name}: operator", sign, [*OPERATORS])
        is_missing = sign == "$exists" and not constant
        operator = "IS NULL" if is_missing else OPERATORS[sign]
        parts.append(compare(name, operator, constant, columns))
    return And(tuple(parts))


def _document(hit: Hit | SlimdexDocument) -> Document:
    metadata = as_metadata(hit.metadata)
    return Document(id=hit.id, page_content=hit.text, metadata=metadata)
