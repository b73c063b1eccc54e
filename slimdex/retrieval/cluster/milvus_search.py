"""MilvusCollection: a pushed index, searched like a `Collection`.

Candidates come from Milvus. They are rescored with the full vectors in the index's folder, if
available, or with those in Milvus; otherwise they are ranked by the reduced vectors. If words were
pushed, both rankings are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.arrays import LARGEST, Matrix, as_matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import note
from slimdex.indexes.options import candidates_for, usual_candidates

from ..documents import OWN_COLUMNS, Hit
from ..encoders.adapters import as_encoder
from ..encoders.base import Encoder
from ..encoders.opening import encoder_from_spec
from ..lexical.fusion import AUTO, FOUND_BY, MEANING, Fusion
from ..open_index import OpenIndex
from ..search.hits import hits
from ..search.nearest import Searches, nearest
from ..search.request import PASSAGE, Hits, SearchRequest
from ..search.searchable import Searchable
from ..storage.snapshot import Snapshot
from .milvus_columns import HIT, ID, ID_FIELD
from .milvus_filter import UntranslatedError, translated
from .milvus_fusion.pushed_rows import Entities, PushedRows, with_keys
from .milvus_fusion.rescoring import RescoredHere, RescoredThere
from .milvus_rows import FullVectors, LiveRows, hit_from
from .milvus_server import MOST_HITS, RefusedError, Server
from .milvus_settings import HERE, OFF, Names, SettingsTable, kept
from .milvus_words import without_bm25

MOST_IDS = 10_000
"""Most documents that may match an untranslatable condition: their keys are sent instead."""
MORE = 4
"""Factor by which more rows are requested if they belong to too few documents."""


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
        self._names = Names.asked(name) if name is not None else Names.of_folder(Path(index or ""))
        self._model, self._trusted = model, trust_remote_code
        self._encoder = None if encoder is None else as_encoder(encoder)
        self.server = Server(uri, token, insecure=insecure)
        self.folder: OpenIndex | None = None
        try:
            if index is not None:
                self.folder = OpenIndex.open(
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
        found = kept(table, self.target.removeprefix(f"{self._names.alias}_"))
        if found is None:
            raise InputError(f"milvus {self.server.uri}: {self.target} is incomplete; push again")
        self.pushed, self.fitted = found
        if self.folder is None and self.pushed.rescored == HERE:
            raise InputError(
                f"{self._names.alias!r} was pushed for rescoring here; expected index=DIR, or an "
                "index pushed for rescoring there"
            )
        self.server.load(self.target)
        self._live: tuple[Snapshot, LiveRows] | None = None
        self._has_noted = False
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

    def count(self, where: str | None = None) -> int:
        """Number of passages in Milvus, or of those that match a condition."""
        return self.server.count(self.target, self._filter(where))

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request, as of a `Collection`.

        Raises `InputError` as `Collection.search_many`; if words are to count and were not pushed;
        if the server does not answer; or if the condition can't be translated and matches more than
        `MOST_IDS` documents.
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
            found = self._found_now(first)
        except RefusedError:
            if self.server.collection_of(self._names.alias) == self.target:
                raise
            self._open()  # pushed again meanwhile, and the old collection was dropped
            found = self._found_now(first)
        return request.finished(found)

    def _fusion(self, request: SearchRequest) -> Fusion | None:
        """The fusion with lexical search; None without it.

        Raises `InputError` if one is named and no words were pushed.
        """
        fusion, can = request.fusion(self.pushed.hybrid), self.server.can
        if self.pushed.words or request.texts is None:
            return fusion
        why = (
            f"{self._names.alias!r} was pushed without words"
            if can.bm25
            else without_bm25(can.version)
        )
        if request.hybrid != AUTO and fusion is not None:
            raise InputError(f"hybrid={request.hybrid!r}: {why}; expected auto or off")
        if request.hybrid == AUTO and not can.bm25 and not self._has_noted:
            self._has_noted = True
            note(f"{why}: searching by meaning alone")
        return None

    def _found_now(self, request: SearchRequest) -> Hits:
        if not len(request):
            return []
        filter, fusion = self._filter(request.where), self._fusion(request)
        request = replace(request, candidates=self._candidates(request))
        found = PushedRows(self.server, self.target, self.pushed, self.fitted, filter)
        if self.folder is not None:
            return self.folder.read(self._found_here, request, found, fusion)
        there = RescoredThere(found, self._full, request.candidates or 0, self._usual_candidates)
        return [
            _found_there(there, query[None], text, request, fusion)
            for query, text in zip(request.query_vectors, _texts(request), strict=True)
        ]

    def _candidates(self, request: SearchRequest) -> int:
        """Number of rows to rescore."""
        asked = request.candidates
        if self.pushed.rescored == OFF and self.folder is None:
            if asked:
                raise InputError(f"candidates={asked}: pushed without full vectors; expected 0")
            return 0
        return candidates_for(request.limit, self._usual_candidates) if asked is None else asked

    @property
    def _usual_candidates(self) -> int:
        usual = self.pushed.candidates
        return usual_candidates(self.pushed.rows) if usual is None else usual

    def _found_here(
        self,
        snapshot: Snapshot,
        request: SearchRequest,
        pushed: PushedRows,
        fusion: Fusion | None,
    ) -> Hits:
        live, rescored = self._live_rows(snapshot), request.candidates or 0
        here = RescoredHere(pushed, live, snapshot.index.metric, rescored, self._usual_candidates)
        hybrid = None if fusion is None else (here, fusion)
        rows, total = snapshot.document_rows, snapshot.state.rows
        searches = Searches(here.dense, rows, total, rescored, hybrid)
        return hits(snapshot, *nearest(searches, request))

    def _live_rows(self, snapshot: Snapshot) -> LiveRows:
        """Rows by key, computed once per snapshot."""
        if self._live is None or self._live[0] is not snapshot:
            self._live = snapshot, LiveRows.of(snapshot)
        return self._live[1]

    def _filter(self, where: str | None) -> str:
        """Translate a condition; if impossible, list the keys of the documents that match it."""
        if where is None:
            return ""
        own = dict.fromkeys(OWN_COLUMNS[1:4], "VARCHAR")
        try:
            columns = {**own, **self.pushed.columns}
            return translated(where, columns, [ID_FIELD, *self.pushed.fields])
        except UntranslatedError as error:
            if self.folder is None:
                raise
            why = str(error)
            return self.folder.read(self._keys_where, where, why)

    def _keys_where(self, snapshot: Snapshot, where: str, why: str) -> str:
        live = self._live_rows(snapshot)
        rows = snapshot.document_rows.all_rows(snapshot.rows_where(where))
        keys = live.keys[np.isin(live.rows, rows)]
        if len(keys) > MOST_IDS:
            raise UntranslatedError(
                f"{why}; or one that matches at most {MOST_IDS:,} passages, not {len(keys):,}"
            )
        return with_keys(keys.tolist())


def _found_there(
    there: RescoredThere, query: Matrix, text: str, request: SearchRequest, fusion: Fusion | None
) -> list[Hit]:
    limit = ask = request.limit
    while True:
        k = min(ask, MOST_HITS)
        rows = there.fused(query, text, fusion, k) if fusion else there.dense(query, k)
        best = rows if request.group_by == PASSAGE else _best_of_documents(rows)
        if len(best) >= limit or len(rows) < ask or ask >= MOST_HITS:
            return [
                hit_from(
                    row["entity"][ID],
                    float(row["distance"]),
                    row["entity"][HIT],
                    row.get("found_by", FOUND_BY[MEANING]),
                )
                for row in best[:limit]
            ]
        ask *= MORE


def _texts(request: SearchRequest) -> Sequence[str]:
    """The queries as texts, where fused search reads them."""
    return [""] * len(request) if request.texts is None else request.texts


def _best_of_documents(rows: Entities) -> Entities:
    """The first row of each document among rows, best first."""
    found = dict[str, dict[str, Any]]()
    for row in rows:
        found.setdefault(row["entity"][ID], row)
    return [*found.values()]
