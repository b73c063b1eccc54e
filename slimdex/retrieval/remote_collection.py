"""RemoteCollection: an index of `slimdex serve`, with `Collection`'s methods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from slimdex.errors import InputError, InUseError
from slimdex.indexes.settings import as_settings
from slimdex.system.unicode_text import check_unicode

from .documents import (
    Document,
    Hit,
    Id,
    Part,
    Several,
    check_ids_alone,
    hit_from_json,
    id_text,
    id_texts,
    ids_to_delete,
    is_several,
    json_of,
    page,
)
from .encoders.over_http.connection import TIMEOUT, BusyError, JsonServer, RefusedError
from .ingest.addition_report import AdditionReport
from .search.options import options_of
from .search.request import Hits, Searchable, SearchRequest
from .sources.tabular.records import as_documents

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .sources.given_vectors import DocumentVectors

SENT_BYTES = 4 << 20
"""Bytes of documents that are sent, and committed, together."""
PAGE = 200
"""Documents of a page, when all are read."""
URL_FORM = "http://HOST/indexes/NAME"


class RemoteCollection(Searchable):
    """An index of a service, for programs that worked with a folder before.

    Its methods take and return what those of `Collection` do, and raise `InputError` and
    `InUseError` for the same reasons; also `InputError` if the service does not answer, or the
    token does not allow the request. Metadata have the types of JSON: dates are texts. Lost
    connections are opened again, and a busy service is asked again for some seconds.

    >>> RemoteCollection.open("http://127.0.0.1:8000")
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: url 'http://127.0.0.1:8000'; expected http://HOST/indexes/NAME

    Attributes
    ----------
    url : address of the index.
    """

    def __init__(self, server: JsonServer) -> None:
        self._server = server
        self.url = server.url

    @classmethod
    def open(
        cls, url: str, token: str | None = None, *, timeout: float = TIMEOUT
    ) -> RemoteCollection:
        """Open an index of a running service.

        Parameters
        ----------
        url : address of the index.
        token : one of the service's, if it requires them; to change documents, one to write.
        timeout : seconds for each answer.

        Raises `InputError` if there is no such index, or the token is not known.
        """
        # Check the address.
        parts = urlsplit(url)
        name = parts.path.rstrip("/").rpartition("/indexes/")[2]
        if parts.scheme not in ("http", "https") or not parts.hostname or not name:
            raise InputError(f"url {url[:200]!r}; expected {URL_FORM}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(f"url with a password, query or fragment; expected {URL_FORM}")
        if timeout <= 0:
            raise InputError(f"timeout={timeout:g}; expected more than 0 seconds")

        # An answer shows that the index exists and that the token is known.
        collection = cls(JsonServer(url.rstrip("/"), token, timeout))
        collection._listing(limit=0)
        return collection

    def close(self) -> None:
        """Do nothing: connections end with the object."""

    def __len__(self) -> int:
        return self.count()

    def __repr__(self) -> str:
        """URL and size, for notebooks."""
        return f"RemoteCollection({self.url!r}, {len(self):,} documents)"

    @property
    def version(self) -> int:
        """Number that grows with each commit, by any process."""
        return int(self._listing(limit=0)["version"])

    def _ask(self, path: str, body: object = None) -> Any:
        """Ask the service; its lasting "busy" is an `InUseError`."""
        try:
            return self._server.ask(path, body)
        except BusyError as error:
            raise InUseError(str(error)) from error

    def find(self, request: SearchRequest) -> Hits:
        """Search, without reranking."""
        if not len(request):
            return []
        answer = self._ask("/search", body_of(request))
        return [[*map(hit_from_json, of_query["hits"])] for of_query in answer["queries"]]

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document: see `Collection.related`."""
        id = id_text(id)
        parameters = _parameters({"limit": limit, "where": where})
        answer = self._ask(f"/related/{quote(id, safe='')}?{parameters}")
        return [*map(hit_from_json, answer["hits"])]

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
        """Get documents by their ids, or by a condition: see `Collection.get`.

        Also raises `InputError` for `vectors`, which a service does not send.
        """
        if ids is None:
            part = page(where, limit, offset)
            _check_no_vectors(vectors)
            size = PAGE if part.stop is None else min(PAGE, part.stop)
            return [*islice(self._pages(where, size), part.start, part.stop)]

        # Ask for each id.
        check_ids_alone(where, limit, offset)
        texts = id_texts(ids)
        _check_no_vectors(vectors)
        documents = [self._document(id) for id in texts]
        return documents if is_several(ids) else documents[0]

    def _document(self, id: str) -> Document:
        return _document(self._ask(f"/documents/{quote(id, safe='')}"))

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        return int(self._listing(where, limit=0)["count"])

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            text = id_text(id)
        except InputError:  # can't be an id
            return False
        try:
            self._document(text)
        except RefusedError as error:
            if error.status == 404:
                return False
            raise
        return True

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents, a page at a time.

        Raises `InputError` if the last document of a page is deleted before the next one is read.
        """
        return self._pages()

    def _pages(self, where: str | None = None, size: int | None = None) -> Iterator[Document]:
        """Yield all documents, or those that meet a condition, requesting `size` at a time."""
        after = None
        more = True
        while more:
            listing = self._listing(where, after, size or PAGE)
            yield from map(_document, listing["documents"])
            more = listing["more"]
            after = listing["documents"][-1]["id"] if more else None

    def _listing(
        self, where: str | None = None, after: str | None = None, limit: int = PAGE
    ) -> Mapping[str, Any]:
        """Request up to `limit` documents that come after the id `after`."""
        parameters = _parameters({"where": where, "after": after, "limit": limit})
        listing: Mapping[str, Any] = self._ask(f"/documents?{parameters}")
        return listing

    def info(self) -> dict[str, Any]:
        """Report contents, settings and costs as JSON values; "path" is the index's name."""
        return dict(self._ask(""))

    def add(
        self,
        documents: Any,
        *,
        vectors: DocumentVectors | ArrayLike | None = None,
        refit: str = "auto",
    ) -> AdditionReport:
        """Add documents, or one; each replaces the document of the same id: see `Collection.add`.

        The service encodes: it takes no `vectors`. Of documents of more than 4 MiB together, those
        before bad input are added.
        """
        if vectors is not None:
            raise InputError("vectors for a service; expected none, since it encodes the texts")

        # One request for each part; their counts are summed.
        checked = _check_unique(as_documents(documents).documents)
        path = f"/documents?{urlencode({'refit': refit})}"
        totals: dict[str, Any] = dict.fromkeys(("documents", "replaced", "unchanged", "encoded"), 0)
        notes = list[str]()
        refitted = False
        for part in _parts(checked):
            answer = self._ask(path, part)
            for name in totals:
                totals[name] += answer[name]
            notes += answer["notes"]
            refitted = refitted or answer["refitted"]
        return AdditionReport(**totals, notes=notes, refitted=refitted)

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` as `Collection.delete`.
        """
        texts = ids_to_delete(ids, where)
        if texts == []:
            return 0
        body = {"where": where} if texts is None else {"ids": texts}
        return int(self._ask("/delete", body)["deleted"])

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many."""
        return int(self._ask("/compact", {})["freed"])

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors with other settings, without encoding; returns notes for the user."""
        all_settings = as_settings(settings).as_dict().items()
        chosen = {name: value for name, value in all_settings if value is not None}
        return list(self._ask("/reduce", {"candidates": "auto", **chosen})["notes"])


def body_of(request: SearchRequest) -> dict[str, Any]:
    """The body of a search that is not reranked, for a service.

    >>> body_of(SearchRequest(texts="a pet", glob=["*.md"], min_score=0.5))
    {'queries': ['a pet'], 'limit': 10, 'glob': ('*.md',), 'group_by': 'document', \
'hybrid': 'auto', 'min_score': 0.5}
    """
    if request.texts is None:
        body: dict[str, Any] = {"vectors": request.query_vectors.tolist()}
    else:
        body = {"queries": [*request.texts]}

    # Add the given options that a service has.
    for name, option in options_of(type(request)).items():
        value = getattr(request, name)
        if isinstance(value, np.generic):
            value = value.item()
        if option.http is not None and value not in (None, ()):
            body[name] = value
    return body


def _check_no_vectors(vectors: bool) -> None:
    if vectors:
        raise InputError("vectors=True of a service; expected False, since it sends none")


def _parameters(values: Mapping[str, Any]) -> str:
    """Encode the values that are given, for a URL; raises `InputError` for half a character."""
    present = {name: value for name, value in values.items() if value is not None}
    check_unicode(present, "asked")
    return urlencode(present)


def _check_unique(documents: Any) -> Iterator[Document]:
    """Yield documents; raises `InputError` if an id occurs twice."""
    seen = set[str]()
    for document in documents:
        if document.id in seen:
            raise InputError(f"id {document.id!r} occurs twice; expected each id once")
        seen.add(document.id)
        yield document


def _parts(documents: Iterator[Document]) -> Iterator[list[Any]]:
    """Yield documents as JSON values, in parts to be committed together.

    Without documents, one empty part is yielded, so that the service is asked in any case.
    """
    part = list[Any]()
    size = 0
    is_first = True
    for document in documents:
        fields = {"id": document.id, "text": document.text, "title": document.title}
        if clashing := fields.keys() & document.metadata.keys():
            raise InputError(
                f"id {document.id!r}: a column {min(clashing)!r}; expected another name"
            )
        text = json_of({**document.metadata, **fields}, ensure_ascii=True)

        # The text is ASCII, so its length is its number of bytes.
        if part and size + len(text) > SENT_BYTES:
            yield part
            part = []
            size = 0
            is_first = False
        part.append(json.loads(text))
        size += len(text)
    if part or is_first:
        yield part


def _document(said: Mapping[str, Any]) -> Document:
    """The document that `document_json` has written."""
    parts = []
    for values in said["parts"]:
        part = Part(
            start=values["start"],
            headings=tuple(values["headings"]),
            page=values["page"],
            anchor=values["anchor"],
            lines=tuple((offset, line) for offset, line in values.get("lines", ())),
        )
        parts.append(part)
    passages = [(passage["start"], passage["end"]) for passage in said["passages"]]
    return Document(
        id=said["id"],
        text=said["text"],
        title=said["title"],
        metadata=said["metadata"],
        parts=tuple(parts),
        passages=passages,
    )
