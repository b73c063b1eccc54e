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

from slimdex.errors import InputError, check_choice, short_repr
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings

from ..collection import Collection
from ..documents import Document as SlimdexDocument
from ..documents import Hit, id_text
from ..encoders.base import encode_queries
from ..search.request import SearchRequest
from ..store.where.conditions import ALWAYS, And, Compare, Condition, Not, Or, as_sql
from .metadata import as_columns, as_metadata, compare
from .stored_vectors import vectors_of

Filter = Mapping[str, Any] | None
OPERATORS = {
    "$eq": "=",
    "$ne": "=",
    "$gt": ">",
    "$gte": ">=",
    "$lt": "<",
    "$lte": "<=",
    "$in": "IN",
    "$nin": "IN",
}
NEGATED = ("$ne", "$nin")
EXISTS = "$exists"
JOINING = ("$and", "$or", "$not")


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
        vectors = [self.embeddings.embed_query(text) for text in texts]
        return np.array(vectors, dtype=np.float32)

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
        requested_ids = list(ids) if ids is not None else [None] * len(texts)
        rows = metadatas if metadatas is not None else [{} for _ in texts]
        if not len(texts) == len(requested_ids) == len(rows):
            raise InputError(
                f"{len(texts)} texts, {len(requested_ids)} ids, {len(rows)} metadata; expected "
                "equal numbers"
            )

        # Texts without an id get a random one.
        names = []
        for id in requested_ids:
            names.append(str(uuid4()) if id in (None, "") else id_text(id))
        columns = as_columns(rows, self._columns)
        documents = {}  # the last one counts if several have the same id
        for id, text, row in zip(names, texts, columns, strict=True):
            documents[id] = SlimdexDocument(id, text, metadata=row)
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
        if ids == []:  # no documents, rather than all
            return True
        has_id = ALWAYS if ids is None else Compare("id", "IN", [*map(id_text, ids)])
        self.collection.delete(where=self._where(filter, where, has_id) or "true")
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents with these ids; unknown ids are ignored."""
        known = [id for id in ids if id in self.collection]
        return [*map(_document, self.collection.get(known))] if known else []

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
        filter : required metadata: name -> value, or a list of values, or {operator: value} with
            $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $exists; "$and" and "$or" -> a list of
            filters, "$not" -> a filter. A name with dots may lead into an object.
        where : a DuckDB condition on the columns.
        """
        return [*map(_document, self._hits(query, k, filter, where))]

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
        return [*map(_document, self._hits(None, k, filter, where, vector))]

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
        other, by their stored vectors."""
        vector = encode_queries(self.collection.encoder, [query])[0]
        hits = self._hits(query, fetch_k, filter, where, vector)
        return self._diverse(hits, vector, k, lambda_mult)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter = None,
        *,
        where: str | None = None,
    ) -> list[Document]:
        """Of the `fetch_k` documents closest to a vector, k that are far from each other."""
        vector = np.array(embedding, dtype=np.float32)
        hits = self._hits(None, fetch_k, filter, where, vector)
        return self._diverse(hits, vector, k, lambda_mult)

    def _diverse(
        self, hits: list[Hit], query: Matrix, k: int, lambda_mult: float
    ) -> list[Document]:
        """Choose k of the hits by maximal marginal relevance, using their stored vectors."""
        if not hits:
            return []
        vectors = vectors_of(self.collection, hits)
        chosen = maximal_marginal_relevance(query, [*vectors], lambda_mult, k)
        return [_document(hits[i]) for i in chosen]

    def _hits(
        self,
        query: str | None,
        k: int,
        filter: Filter,
        where: str | None,
        vector: Matrix | None = None,
    ) -> list[Hit]:
        """Search by a text, by its vector, or by both."""
        condition = self._where(filter, where)
        if not len(self.collection):
            return []
        request = SearchRequest(
            texts=None if query is None else [query],
            vectors=None if vector is None else vector[None],
            limit=k,
            where=condition,
        )
        return self.collection.answer(request)[0]

    def _where(self, filter: Filter, where: str | None, among: Condition = ALWAYS) -> str | None:
        """Join the given conditions with AND; return None if there are none."""
        parts = list[str]()
        if among != ALWAYS:
            parts.append(as_sql(among, self._columns))
        if filter:
            required = filter_condition(filter, self._columns)
            parts.append(as_sql(required, self._columns))
        if where is not None:
            parts.append(f"({where}\n)")  # a new line ends a comment in it
        return " AND ".join(parts) or None

    @property
    def _columns(self) -> Mapping[str, str]:
        return self.collection.index.snapshot.columns

    def _select_relevance_score_fn(self) -> Any:
        """Return the function that converts a cosine to LangChain's relevance, from 0 to 1."""
        return lambda cosine: (1.0 + cosine) / 2


def filter_condition(filter: Any, columns: Mapping[str, str]) -> Condition:
    """Translate a filter: name -> value, several values, or {operator: value}.

    Raises `InputError` for another filter or an unknown operator.

    >>> filter_condition({"year": {"$gte": 1990}}, {"year": "BIGINT"})
    And(parts=(And(parts=(Or(parts=(Compare(column='year', operator='>=', value=1990, truth=True, \
path=()),)),)),))
    """
    if not isinstance(filter, Mapping) or not filter:
        raise InputError(f"filter {short_repr(filter)}; expected required metadata")
    return And(tuple(_part(name, value, columns) for name, value in filter.items()))


def _part(name: str, value: Any, columns: Mapping[str, str]) -> Condition:
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
    parts = [_comparison(name, sign, constant, columns) for sign, constant in value.items()]
    return And(tuple(parts))


def _comparison(name: str, operator: str, value: Any, columns: Mapping[str, str]) -> Condition:
    """Translate {operator: value} for metadata of this name."""
    check_choice(f"filter on {name}: operator", operator, [*OPERATORS, EXISTS])
    if operator == EXISTS:
        is_missing = compare(name, "IS NULL", None, columns)
        return Not(is_missing) if value else is_missing
    comparison = compare(name, OPERATORS[operator], value, columns)
    return Not(comparison) if operator in NEGATED else comparison


def _document(hit: Hit | SlimdexDocument) -> Document:
    metadata = as_metadata(hit.metadata)
    return Document(id=hit.id, page_content=hit.text, metadata=metadata)
