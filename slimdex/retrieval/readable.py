"""Readable: documents that can be read and searched, in a folder or by a service."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import overload
from uuid import UUID

import numpy as np

from slimdex.indexes.errors import InputError

from .documents import Document, Hit, id_text, id_texts, is_several
from .search.searchable import Searchable

Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]


class Readable(Searchable):
    """Documents by id, by condition and by search; base of `Collection` and `RemoteCollection`."""

    @overload
    def get(self, ids: Id, *, vectors: bool = False) -> Document: ...

    @overload
    def get(
        self,
        ids: Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        vectors: bool = False,
    ) -> list[Document]: ...

    def get(
        self,
        ids: Id | Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        vectors: bool = False,
    ) -> Document | list[Document]:
        """Get the document of an id, documents of several ids in their order, or of a condition.

        Parameters
        ----------
        ids : one or several.
        where : a DuckDB expression on the documents' columns; its documents come in the order in
            which they were added.
        limit, offset : the number of documents, and of those to skip before them.
        vectors : give each document its `Document.vectors`; a service sends none.

        Raises `InputError` if an id is unknown, the condition is invalid, or neither is given, or
        both.
        """
        if ids is None:
            return self._of_condition(where, page(where, limit, offset), vectors)
        if where is not None or limit is not None or offset:
            raise InputError("get: ids with where, limit or offset; expected one or the other")
        documents = self._of_ids(id_texts(ids), vectors)
        return documents if is_several(ids) else documents[0]

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        return len(self) if where is None else self._counted(where)

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document, best first, without itself.

        Raises `InputError` if the id is unknown or the document has no text, or as `search` does.
        """
        return self._related(id_text(id), limit, where)

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            text = id_text(id)
        except InputError:  # can't be an id
            return False
        return self._has(text)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Document]: ...

    @abstractmethod
    def _of_ids(self, ids: list[str], vectors: bool) -> list[Document]: ...

    @abstractmethod
    def _of_condition(self, where: str | None, part: slice, vectors: bool) -> list[Document]: ...

    @abstractmethod
    def _counted(self, where: str | None) -> int: ...

    @abstractmethod
    def _has(self, id: str) -> bool: ...

    @abstractmethod
    def _related(self, id: str, limit: int, where: str | None) -> list[Hit]: ...


def page(where: str | None, limit: int | None, offset: int) -> slice:
    """The part to get of the documents that match a condition.

    Raises `InputError` if a number is negative, or nothing is given, as with an id that is None.

    >>> page(None, 10, 20)
    slice(20, 30, None)
    """
    if where is None and limit is None and not offset:
        raise InputError("get: no ids, where, limit or offset; expected one of them")
    for name, value in {"limit": limit, "offset": offset}.items():
        if value is not None and (not isinstance(value, int | np.integer) or value < 0):
            raise InputError(f"{name}={value!r}; expected 0 or more")
    return slice(offset, None if limit is None else offset + limit)
