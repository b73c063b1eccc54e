"""BaseCollection: what `Collection` and `RemoteCollection` share, documented once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload
from uuid import UUID

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings, as_settings
from slimdex.system.suggestions import with_suggestions

from .documents import Document, Hit, id_text, id_texts, is_several
from .search.request import Searchable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .ingest.added import Added
    from .sources.given_vectors import GivenVectors

Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]


@with_suggestions
class BaseCollection(Searchable):
    """Documents by id, by condition and by search, in a folder or behind a service."""

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

    def add(
        self,
        documents: Any,
        *,
        vectors: GivenVectors | ArrayLike | None = None,
        refit: str = "auto",
    ) -> Added:
        """Add documents, or one; each replaces the document of the same id.

        After bad input none of them are added; by a service, of documents of more than 4 MiB
        together, those before it are. Documents that take longer than some seconds to encode are
        committed in batches, which searches find at once and which stay after an interrupt: the
        same call goes on from there. Unchanged documents are left out, and unchanged texts are not
        encoded again. Of a folder, `Added.notes` are logged as warnings of the logger "slimdex",
        too.

        Parameters
        ----------
        documents : `Document`s or dicts with "id", "text" and perhaps "title" (other keys are
            metadata), or one of them; or, with such columns, a dataframe of pandas or polars, an
            Arrow table or stream, or a DuckDB relation.
        vectors : (documents, dim), encoded elsewhere: lists, an array or a tensor of torch; by
            default the encoder's. A document is unchanged if its stored vector is. For a service,
            none: it encodes.
        refit : what to do when the fit is outdated, see `health`: "auto" refits if that takes less
            than ten times as long as the addition, and otherwise advises it; "never" advises it;
            "always" refits. The documents are committed before a refit, and can be searched during
            it.

        Raises `InputError` if there are no documents, one lacks an id or text, an id occurs twice,
        a value can't be stored, or the vectors don't fit the documents or are not finite.
        """
        return self._add(documents, vectors, refit)

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` if an id is unknown (then nothing is deleted), or the condition is
        invalid.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        return self._delete(None if ids is None else id_texts(ids), where)

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors with other settings, without encoding; returns notes for the user."""
        return self._reduce(as_settings(settings))

    @abstractmethod
    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many."""

    @abstractmethod
    def _add(
        self, documents: Any, vectors: GivenVectors | ArrayLike | None, refit: str
    ) -> Added: ...

    @abstractmethod
    def _delete(self, ids: list[str] | None, where: str | None) -> int: ...

    @abstractmethod
    def _reduce(self, settings: Settings) -> list[str]: ...

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
