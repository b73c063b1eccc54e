"""Write and search a collection: shared by the stores of LangChain, LlamaIndex and Haystack."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix

from ..collection import Collection
from ..documents import Document, Hit
from ..lexical.fusion import AUTO
from ..search.request import SearchRequest
from .metadata import Types, as_columns

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def columns_of(collection: Collection) -> Types:
    """Columns of a collection: name -> DuckDB type."""
    return collection.index.snapshot.columns


def write(
    collection: Collection,
    ids: Sequence[str],
    texts: Sequence[str],
    metadata: Sequence[Mapping[str, Any]],
    vectors: Sequence[Any] | None = None,
) -> None:
    """Add texts, replacing those of the same ids; the last one counts if several have one id.

    `vectors` are those of the texts, for a collection without a model.
    """
    if not len(ids) == len(texts) == len(metadata):
        raise InputError(
            f"{len(texts)} texts, {len(ids)} ids, {len(metadata)} metadata; expected equal numbers"
        )
    rows = as_columns(metadata, columns_of(collection))
    last = {id: i for i, id in enumerate(ids)}
    documents = [Document(id, texts[i], metadata=rows[i]) for id, i in last.items()]
    if documents:
        chosen = None if vectors is None else _matrix([vectors[i] for i in last.values()])
        collection.add(documents, vectors=chosen)


def search(
    collection: Collection,
    text: str | None,
    vector: ArrayLike | None,
    limit: int,
    where: str | None = None,
    hybrid: str | float = AUTO,
) -> list[Hit]:
    """Search by a text, by its vector, or by both."""
    if not len(collection):
        return []
    request = SearchRequest(
        texts=None if text is None else [text],
        vectors=None if vector is None else _matrix([vector]),
        limit=limit,
        where=where,
        hybrid=hybrid,
    )
    return collection.answer(request)[0]


def vectors_of(collection: Collection, hits: Sequence[Hit]) -> list[Matrix]:
    """The encoder's vectors (dim,) of the passages of hits, as the index stores them."""
    documents = collection.get([hit.id for hit in hits], vectors=True)
    vectors = []
    for hit, document in zip(hits, documents, strict=True):
        assert document.vectors is not None
        # The hit's passage has the same start; an uncut document has one vector.
        starts = [start for start, _ in document.passages]
        number = starts.index(hit.start) if hit.start in starts else 0
        vectors.append(np.asarray(document.vectors[number], dtype=np.float32))
    return vectors


def in_thread(
    method: Callable[Parameters, Result],
) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """Make the asynchronous form of a method, which runs it in a thread."""

    @wraps(method)
    async def call(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        return await to_thread(method, *args, **named)

    return call


def _matrix(vectors: Sequence[Any]) -> Matrix:
    return np.array(vectors, dtype=np.float32)
