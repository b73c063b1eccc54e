"""MilvusCollection: a pushed index, searched like a `Collection`.

Candidates come from Milvus. They are rescored with the full vectors in the index's folder, if
available, or with those in Milvus; otherwise they are ranked by the reduced vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.arrays import LARGEST, Matrix, Rows, as_matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.options import usual_candidates
from slimdex.indexes.ranking import stacked, top_k
from slimdex.indexes.search.reduced_index import reduced
from slimdex.indexes.search.rescoring import Metric

from ..documents import OWN_COLUMNS, Hit
from ..encoders.adapters import as_encoder
from ..encoders.base import Encoder
from ..encoders.opening import encoder_from_spec
from ..open_index import OpenIndex
from ..search.document_search import nearest_documents
from ..search.request import PASSAGE, Hits, SearchRequest
from ..search.searchable import Searchable
from ..search.snapshot_reader import SnapshotReader
from ..sources.given_vectors import GIVEN, GivenEncoder
from ..storage.snapshot import Snapshot
from .milvus_columns import FULL, HIT, ID, ID_FIELD, KEY, VECTOR
from .milvus_filter import UntranslatedError, translated
from .milvus_rows import FullVectors, LiveRows, hit_from
from .milvus_server import MOST_HITS, RefusedError, Server
from .milvus_settings import HERE, OFF, Names, SettingsTable, kept

MOST_IDS = 10_000
"""Most documents that may match an untranslatable condition: their keys are sent instead."""
MORE = 4
"""Factor by which more rows are requested if they belong to too few documents."""


class MilvusCollection(Searchable):
    """Documents searched semantically in Milvus.

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
                    read_only=True,
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
                f"{self._names.alias!r} was pushed for rescoring here; expected index=DIR, or a "
                "push with --rescore there"
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
            self._encoder = (
                GivenEncoder(self.pushed.dim)
                if spec.get("type") == GIVEN
                else encoder_from_spec(spec, model=self._model, trust_remote_code=self._trusted)
            )
        return self._encoder

    def count(self, where: str | None = None) -> int:
        """Number of passages in Milvus, or of those that match a condition."""
        return self.server.count(self.target, self._filter(where))

    def _found(self, request: SearchRequest) -> Hits:
        """Search like `Collection`.

        Raises `InputError` as `Collection.search_many`; for lexical search, which is not pushed; if
        the server does not answer; or if the condition can't be translated and matches more than
        `MOST_IDS` documents.
        """
        if request.limit > MOST_HITS:
            raise InputError(f"limit={request.limit}; expected 1 to {MOST_HITS:,}, Milvus' limit")
        if request.candidates is not None and request.candidates > MOST_HITS:
            raise InputError(f"candidates={request.candidates}; expected 0 to {MOST_HITS:,}")
        if request.fusion(auto="off") is not None:
            raise InputError(f"hybrid={request.hybrid!r}: not supported in Milvus; expected off")
        request = request.encoded(lambda: self.encoder)
        dim = self.pushed.dim
        vectors = as_matrix(request.vectors, dim=dim, name="queries", largest=LARGEST)
        request = replace(request, vectors=vectors)
        try:
            return self._found_now(request)
        except RefusedError:
            if self.server.collection_of(self._names.alias) == self.target:
                raise
            self._open()  # pushed again meanwhile, and the old collection was dropped
            return self._found_now(request)

    def _found_now(self, request: SearchRequest) -> Hits:
        if not len(request):
            return []
        filter, folder = self._filter(request.where), self.folder
        request = replace(request, candidates=self._candidates(request.candidates))
        if folder is None:
            return [self._found_there(v[None], request, filter) for v in request.query_vectors]
        return folder.read(lambda view: self._found_here(view, request, filter))

    def _candidates(self, asked: int | None) -> int:
        """Number of rows to rescore."""
        if self.pushed.rescored == OFF and self.folder is None:
            if asked:
                raise InputError(f"candidates={asked}: pushed without full vectors; expected 0")
            return 0
        if asked is None:
            asked = self.pushed.candidates
        return usual_candidates(self.pushed.rows) if asked is None else asked

    def _nearest(
        self, queries: Matrix, count: int, filter: str, output: Sequence[str] = ()
    ) -> list[list[dict[str, Any]]]:
        """The nearest rows in Milvus by reduced vectors."""
        vectors = reduced(self.fitted.reducer, queries)
        dtype = np.float16 if self.server.can.float16 else np.float32
        params = self.pushed.index_kind.search(count, filtered=bool(filter))
        return self.server.nearest(
            self.target,
            VECTOR,
            list(vectors.astype(dtype)),
            count,
            filter=filter,
            params=params,
            output=output,
        )

    def _found_here(self, view: SnapshotReader, request: SearchRequest, filter: str) -> Hits:
        snapshot = view.snapshot
        live, rows = self._live_rows(view), snapshot.document_rows
        metric, candidates = snapshot.index.metric, request.candidates or 0
        if candidates and metric is None:
            raise InputError(
                f"candidates={candidates}: this index was built with candidates=0 and can't rescore"
            )
        if not candidates:
            metric = None

        def search(queries: Matrix, k: int) -> tuple[Matrix, Rows]:
            count = min(max(k, candidates), MOST_HITS)
            found = self._nearest(queries, count, filter)
            each = [_best(*pair, live, metric, k) for pair in zip(queries, found, strict=True)]
            return stacked(each, max(own.shape[1] for _, own in each))

        queries, limit, total = request.query_vectors, request.limit, snapshot.state.rows
        if request.per == PASSAGE:
            scores, found = search(queries, limit)
        else:
            scores, found = nearest_documents(search, queries, limit, rows, total, candidates)
        return view.shown(scores, found)

    def _live_rows(self, view: SnapshotReader) -> LiveRows:
        """Rows by key, computed once per snapshot."""
        if self._live is None or self._live[0] is not view.snapshot:
            self._live = view.snapshot, LiveRows.of(view)
        return self._live[1]

    def _found_there(self, query: Matrix, request: SearchRequest, filter: str) -> list[Hit]:
        limit, candidates = request.limit, request.candidates or 0
        ask = limit
        while True:
            rows = self._ranked_there(query, min(ask, MOST_HITS), filter, candidates)
            best = rows if request.per == PASSAGE else _best_of_documents(rows)
            if len(best) >= limit or len(rows) < ask or ask >= MOST_HITS:
                return [
                    hit_from(row["entity"][ID], float(row["distance"]), row["entity"][HIT])
                    for row in best[:limit]
                ]
            ask *= MORE

    def _ranked_there(
        self, query: Matrix, count: int, filter: str, rescored: int
    ) -> list[dict[str, Any]]:
        """The best rows of a query, best first, by the vectors in Milvus."""
        if not rescored:
            return self._nearest(query, count, filter, [ID, HIT])[0]
        assert self._full is not None
        near = self._nearest(query, min(max(count, rescored), MOST_HITS), filter)[0]
        if not near:
            return []
        dtype = np.float16 if self.server.can.float16 else np.float32
        keys = ", ".join(str(row["key"]) for row in near)
        return self.server.nearest(
            self.target,
            FULL,
            [self._full.rows(query)[0].astype(dtype)],
            count,
            filter=f"{KEY} in [{keys}]",
            params={},
            output=[ID, HIT],
        )[0]

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
            return self.folder.read(lambda view: self._keys_where(view, where, why))

    def _keys_where(self, view: SnapshotReader, where: str, why: str) -> str:
        live = self._live_rows(view)
        rows = view.snapshot.document_rows.all_rows(view.rows_where(where))
        keys = live.keys[np.isin(live.rows, rows)]
        if len(keys) > MOST_IDS:
            raise UntranslatedError(
                f"{why}; or one that matches at most {MOST_IDS:,} passages, not {len(keys):,}"
            )
        return f"{KEY} in [{', '.join(map(str, keys.tolist()))}]"


def _best(
    query: Matrix, found: list[dict[str, Any]], live: LiveRows, metric: Metric | None, k: int
) -> tuple[Matrix, Rows]:
    """Scores and rows (1, k) of the best rows found by Milvus, rescored if there is a metric.

    Rows deleted from the index are omitted.
    """
    rows = live.rows_of(np.array([hit["key"] for hit in found], dtype=np.int64))
    scores = np.array([hit["distance"] for hit in found], dtype=np.float32)[rows >= 0]
    rows = rows[rows >= 0]
    if metric is None or not len(rows):
        return scores[None, :k], rows[None, :k]
    rows = np.sort(rows)  # in disk order
    return top_k(metric.scores(metric.probes(query[None]), rows), rows, k)


def _best_of_documents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row of each document among rows, best first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["entity"][ID], row)
    return [*found.values()]
