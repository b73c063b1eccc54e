"""MilvusCollection: a pushed index, searched like a `Collection`.

Candidates come from Milvus. They are rescored with the full vectors in the index's folder, if
available, or with those in Milvus; otherwise they are ranked by the reduced vectors. If words were
pushed, both rankings are fused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from slimdex.indexes.arrays import LARGEST, as_matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.options import candidates_for, usual_candidates

from ..collection import Collection
from ..documents import OWN_COLUMNS
from ..encoders.adapters import as_encoder
from ..encoders.base import Encoder
from ..encoders.opening import encoder_from_spec
from ..lexical.fusion import AUTO, FOUND_BY, MEANING, Fusion
from ..search.hits import hits
from ..search.nearest import Searches, nearest
from ..search.request import Hits, SearchRequest
from ..search.searchable import Searchable
from ..storage.snapshot import Snapshot
from .milvus_fields import ID_FIELD
from .milvus_filter import translated
from .milvus_rescoring import PushedRows, RescoredHere, RescoredThere
from .milvus_rows import FullVectors, LiveRows, hit_from
from .milvus_server import MOST_HITS, RefusedError, Server
from .milvus_settings import HERE, OFF, Names, SettingsTable, kept


class MilvusCollection(Searchable):
    """Documents searched by meaning and words in Milvus.

    Parameters
    ----------
    uri : http://HOST:19530 of a server, or a file NAME.db of the embedded one.
    name : the name it was pushed under.
    index : its folder, if available: candidates are rescored with its vectors, and documents are
        read from it. Without it, the index must have been pushed with rescore "there" or "off".
    encoder : the one that the index was built with; by default it is loaded from its origin.
    token : for servers that require authentication.
    insecure : allow sending the token to another machine without TLS.
    model, trust_remote_code : as for `Collection.open`.

    Attributes
    ----------
    server, target : the connection, and the server's collection that the name stands for.
    folder : the open folder, if it is at hand.
    pushed, fitted : what was pushed, and the reducer and metric of it.
    expression : Milvus' own filter, which every search adds: see `filtered`.

    Raises
    ------
    InputError
        If the server does not answer or lacks the index, or the pushed data require the folder.
    CorruptError
        If data in Milvus that a search requires are damaged.
    """

    def __init__(
        self,
        uri: str,
        name: str | None = None,
        index: str | Path | None = None,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        token: str = "",
        insecure: bool = False,
        model: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        if name is None and index is None:
            raise InputError("MilvusCollection: neither name nor index; expected one of them")
        self._names, self.expression = Names.of(name, index or ""), ""
        self._model, self._trusted = model, trust_remote_code
        self._encoder = None if encoder is None else as_encoder(encoder)
        self.server = Server(uri, token, insecure=insecure)
        self.folder: Collection | None = None
        try:
            if index is not None:
                self.folder = Collection.open(
                    index,
                    self._encoder,
                    model=model,
                    trust_remote_code=trust_remote_code,
                )
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Read the description of the alias's current collection."""
        self.target = self.server.collection_of(self._names.alias) or ""
        if not self._names.is_rows(self.target):
            raise InputError(
                f"milvus {self.server.uri}: no index {self._names.alias!r}; expected one that "
                "`slimdex push` has made"
            )
        table = SettingsTable(self.server, self._names)
        table.ensure()
        settings = kept(table, self.target.removeprefix(f"{self._names.alias}_"))
        if settings is None:
            raise InputError(f"milvus {self.server.uri}: {self.target} is incomplete; push again")
        self.pushed, self.fitted = settings
        if self.folder is None and self.pushed.rescored == HERE:
            raise InputError(
                f"{self._names.alias!r} was pushed for rescoring here; expected index=DIR, or an "
                "index pushed for rescoring there"
            )
        self.server.load(self.target)
        self._live: tuple[Snapshot, LiveRows] | None = None
        rescorer = self.fitted.rescorer
        self._full = FullVectors(rescorer) if rescorer is not None else None

    def close(self) -> None:
        """Close the connection and the folder."""
        self.server.close()
        if self.folder is not None:
            self.folder.close()

    def __repr__(self) -> str:
        """Address and name, for notebooks."""
        return f"MilvusCollection({self.server.uri!r}, {self._names.alias!r})"

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with."""
        if self.folder is not None:
            return self.folder.encoder
        if self._encoder is None:
            spec = self.pushed.encoder
            self._encoder = encoder_from_spec(
                spec, model=self._model, trust_remote_code=self._trusted
            )
        return self._encoder

    def filtered(self, expression: str) -> Self:
        """The same collection, of which searches and counts find only what Milvus' filter selects.

        It shares the connection, and closing either closes both.

        Parameters
        ----------
        expression : in Milvus' own language (https://milvus.io/docs/boolean.md), for what `where`
            can't express there, such as ``author like "Mac%"``. A column NAME has the fields NAME
            and NAME_is_null.
        """
        other = copy.copy(self)
        other.expression = expression
        return other

    def count(self, where: str | None = None) -> int:
        """Number of passages in Milvus, or of those that match a condition."""
        return self.server.count(self.target, self._filter(where))

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request, as of a `Collection`.

        Raises `InputError` as `Collection.search_many`; if words are to count and were not pushed;
        if the server does not answer; or if the condition can't be translated.
        """
        first = request.first_stage
        if first.limit > MOST_HITS:
            raise InputError(f"limit={first.limit}; expected 1 to {MOST_HITS:,}, Milvus' limit")
        if first.candidates is not None and first.candidates > MOST_HITS:
            raise InputError(f"candidates={first.candidates}; expected 0 to {MOST_HITS:,}")
        self._fusion(first)  # an error is raised before a model is loaded
        first = first.encoded(lambda: self.encoder)
        dim = self.pushed.dim
        vectors = as_matrix(first.vectors, dim=dim, name="queries", largest=LARGEST)
        first = replace(first, vectors=vectors)
        try:
            hits = self._first_stage(first)
        except RefusedError:
            if self.server.collection_of(self._names.alias) == self.target:
                raise
            self._open()  # pushed again meanwhile, and the old collection was dropped
            hits = self._first_stage(first)
        return request.finished(hits)

    def _fusion(self, request: SearchRequest) -> Fusion | None:
        """The fusion with lexical search; None without it.

        Raises `InputError` if one is named and no words were pushed.
        """
        fusion = request.fusion(self.pushed.hybrid)
        if self.pushed.words or request.texts is None:
            return fusion
        if request.hybrid != AUTO and fusion is not None:
            raise InputError(
                f"hybrid={request.hybrid!r}: {self._names.alias!r} was pushed without words; "
                "expected auto or off"
            )
        return None

    def _first_stage(self, request: SearchRequest) -> Hits:
        if not len(request):
            return []
        filter, fusion = self._filter(request.where), self._fusion(request)
        request = replace(request, candidates=self._candidates(request))
        rows = PushedRows(self.server, self.target, self.pushed, self.fitted, filter)
        if self.folder is not None:
            return self.folder.read(self._rescored_here, request, rows, fusion)
        there = RescoredThere(
            rows, self.pushed.rows, request.candidates or 0, self._usual_candidates, self._full
        )
        documents: Any = there
        hybrid = None if fusion is None else (there, fusion)
        found = nearest(Searches(there.dense, documents, MOST_HITS, hybrid=hybrid), request)
        by = np.full_like(found.rows, MEANING) if found.found_by is None else found.found_by
        return [
            [
                hit_from(there.entities[key], score, FOUND_BY[how])
                for score, key, how in zip(*each, strict=True)
                if key >= 0
            ]
            for each in zip(found.scores.tolist(), found.rows.tolist(), by.tolist(), strict=True)
        ]

    def _candidates(self, request: SearchRequest) -> int:
        """Number of rows to rescore."""
        requested = request.candidates
        if self.pushed.rescored == OFF and self.folder is None:
            if requested:
                raise InputError(f"candidates={requested}: pushed without full vectors; expected 0")
            return 0
        if requested is not None:
            return requested
        return candidates_for(request.limit, self._usual_candidates)

    @property
    def _usual_candidates(self) -> int:
        usual = self.pushed.candidates
        return usual_candidates(self.pushed.rows) if usual is None else usual

    def _rescored_here(
        self,
        snapshot: Snapshot,
        request: SearchRequest,
        pushed: PushedRows,
        fusion: Fusion | None,
    ) -> Hits:
        if self._live is None or self._live[0] is not snapshot:
            self._live = snapshot, LiveRows.of(snapshot)
        live, rescored = self._live[1], request.candidates or 0
        here = RescoredHere(
            pushed, len(live.rows), rescored, self._usual_candidates, live, snapshot.index.metric
        )
        hybrid = None if fusion is None else (here, fusion)
        rows, total = snapshot.document_rows, snapshot.state.rows
        searches = Searches(here.dense, rows, total, rescored, hybrid)
        return hits(snapshot, *nearest(searches, request))

    def _filter(self, where: str | None) -> str:
        """Translate a condition, and add Milvus' own; "" for all rows."""
        if where is None:
            return self.expression
        columns = {**dict.fromkeys(OWN_COLUMNS[1:4], "VARCHAR"), **self.pushed.columns}
        filter = translated(where, columns, [ID_FIELD, *self.pushed.fields])
        return f"{filter} and ({self.expression})" if self.expression else filter
