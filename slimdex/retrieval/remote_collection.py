"""RemoteCollection: an index of `slimdex serve`, with `Collection`'s methods."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlencode

from slimdex.errors import InputError, InUseError
from slimdex.system.duckdb_library import literal
from slimdex.system.unicode_text import check_unicode

from .documents import (
    Document,
    Hit,
    Id,
    Several,
    hit_from_json,
    id_text,
    id_texts,
    ids_to_delete,
    is_several,
    json_of,
    page_start,
    part_from_json,
)
from .encoders.over_http.connection import TIMEOUT, BusyError, JsonServer
from .ingest.addition_report import AdditionReport
from .search.options import options_of
from .search.request import Hits, Searchable, SearchRequest
from .sources.tabular.records import as_documents

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .sources.given_vectors import DocumentVectors

SENT_BYTES = 4 << 20
"""Bytes of documents that are sent, and committed, together."""
PAGE = 200
"""Documents of a page, when all are read."""
_URL = re.compile(r"https?://[^/?#@]+(/[^?#]*)?/indexes/[^/?#]+/?")


class RemoteCollection(Searchable):
    """An index of a service, for programs that worked with a folder before.

    Its methods take and return what those of `Collection` do, and raise `InputError` and
    `InUseError` for the same reasons; also `InputError` if the service does not answer, or the
    token does not allow the request. Metadata have the types of JSON: dates are texts. Lost
    connections are opened again, and a busy service is asked again for some seconds.

    Attributes
    ----------
    url
        address of the index.

    Examples
    --------
    >>> RemoteCollection.open("http://127.0.0.1:8000")
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: url 'http://127.0.0.1:8000'; expected http://HOST/indexes/NAME
    """

    def __init__(self, server: JsonServer) -> None:
        self._server = server
        self.url = server.url

    @classmethod
    def open(
        cls, url: str, token: str | None = None, *, timeout: float = TIMEOUT
    ) -> RemoteCollection:
        """Open an index of a running service.

        Raises `InputError` if there is no such index, or the token is not known.

        Parameters
        ----------
        url
            address of the index.
        token
            one of the service's, if it requires them; to change documents, one to write.
        timeout
            seconds for each answer.
        """
        if not _URL.fullmatch(url):
            shown = url.rpartition("@")[2][:200]  # without a password
            raise InputError(f"url {shown!r}; expected http://HOST/indexes/NAME")

        # An answer shows that the index exists and that the token is known.
        collection = cls(JsonServer(url.rstrip("/"), token, timeout))
        collection._listing(limit=0)
        return collection

    def close(self) -> None:
        """Do nothing: connections end with the object."""

    def __len__(self) -> int:
        return self.count()

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
        parameters = _query({"limit": limit, "where": where})
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
        after: Id = "",
        vectors: bool = False,
    ) -> list[Document]: ...

    def get(
        self,
        ids: Id | Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        after: Id = "",
        vectors: bool = False,
    ) -> Document | list[Document]:
        """Get documents by ids, or by a condition in the order of ids: see `Collection.get`.

        Also raises `InputError` for `vectors`, which a service does not send.
        """
        if vectors:
            raise InputError("vectors=True of a service; expected False, since it sends none")
        start = page_start(ids, where, limit, after)
        if ids is None:
            return [*islice(self._pages(where, min(PAGE, limit or PAGE), start), limit)]

        # Ask for each id.
        documents = []
        for id in id_texts(ids):
            documents.append(_document(self._ask(f"/documents/{quote(id, safe='')}")))
        return documents if is_several(ids) else documents[0]

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        return int(self._listing(where=where, limit=0)["count"])

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            text = id_text(id)
        except InputError:  # can't be an id
            return False
        return self.count(f"id = {literal(text)}") > 0

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents in the order of their ids, a page at a time."""
        return self._pages(None, PAGE)

    def _pages(self, where: str | None, size: int, after: str = "") -> Iterator[Document]:
        """Yield the documents after an id that meet a condition, requesting `size` at a time."""
        more = True
        while more:
            listing = self._listing(where=where, after=after, limit=size)
            yield from map(_document, listing["documents"])
            more = listing["more"]
            after = listing["documents"][-1]["id"] if more else ""

    def _listing(self, **parameters: object) -> Mapping[str, Any]:
        """Request documents."""
        listing: Mapping[str, Any] = self._ask(f"/documents?{_query(parameters)}")
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
        encode: bool = True,
    ) -> AdditionReport:
        """Add documents, or one; each replaces the document of the same id: see `Collection.add`.

        The service encodes: it takes no `vectors`, and after `encode=False` it encodes what was
        entered by itself. Of documents of more than 4 MiB together, those
        before bad input are added.
        """
        if vectors is not None:
            raise InputError("vectors for a service; expected none, since it encodes the texts")

        reports = []
        for part in _parts(as_documents(documents)):
            wait = None if encode else "false"
            report = self._ask(f"/documents?{_query({'refit': refit, 'wait': wait})}", part)
            reports.append(AdditionReport(**report))
        refitted = any(report.refitted for report in reports)
        return replace(sum(reports, AdditionReport()), refitted=refitted)

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` as `Collection.delete`.
        """
        texts = ids_to_delete(ids, where)
        body = {"where": where} if texts is None else {"ids": texts}
        return int(self._ask("/delete", body)["deleted"])

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many."""
        return int(self._ask("/compact", {})["freed"])


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
        if option.http is not None and value not in (None, ()):
            body[name] = value
    return body


def _query(parameters: Mapping[str, object]) -> str:
    """Encode the parameters that are not None; raises `InputError` for half a character."""
    present = {name: value for name, value in parameters.items() if value is not None}
    check_unicode(present, "asked")
    return urlencode(present)


def _parts(documents: Iterable[Document]) -> Iterator[list[Any]]:
    """Yield documents as JSON values, in parts of at most `SENT_BYTES` or one document."""
    part = list[Any]()
    size = 0
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
        part.append(json.loads(text))
        size += len(text)
    yield part


def _document(values: Mapping[str, Any]) -> Document:
    """Convert the result of `document_json` back to a document."""
    parts = tuple(map(part_from_json, values["parts"]))
    passages = [(span["start"], span["end"]) for span in values["passages"]]
    return Document(**{**values, "parts": parts, "passages": passages})
