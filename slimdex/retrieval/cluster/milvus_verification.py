"""Verification of an index in Milvus, by ids, counts and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.execution.progress import progress

from ..documents import Hit
from ..search.hits import nearest_hits
from ..search.request import SearchRequest
from ..storage.snapshot import Snapshot
from .milvus_columns import DIGEST, KEY
from .milvus_rows import RowSource, contents_of
from .milvus_search import MilvusCollection
from .milvus_server import STRONG

QUERIES = 50
"""Number of documents that are searched by their own vectors."""
LIMIT = 10
AGREED = 0.9
"""Required agreement with the index's own answers; Milvus' codes are different."""
SHOWN = 3
"""Ids listed per fault."""


def pushed_faults(
    folder: Path, uri: str, name: str | None = None, token: str = "", *, insecure: bool = False
) -> list[str]:
    """Return the differences between an index and its copy in Milvus, one line each.

    Raises `InputError` if the server does not answer, or has no such index.
    """
    with MilvusCollection(uri, name, folder, token=token, insecure=insecure) as pushed:
        pushed.server.consistency = STRONG
        assert pushed.folder is not None
        return pushed.folder.read(lambda snapshot: [*_faults(pushed, snapshot)])


def _faults(pushed: MilvusCollection, snapshot: Snapshot) -> Iterator[str]:
    files = pushed.pushed.sha256
    if any(snapshot.state.files[role].sha256 != sha256 for role, sha256 in files.items()):
        yield f"{pushed!r}: the index has been reduced again; push it again"
        return
    source = RowSource(snapshot, pushed.pushed, pushed.fitted)
    ids = snapshot.store.ids.by_row(snapshot.state.rows)
    found = list(_row_faults(pushed, source, ids))
    yield from found
    if not found and len(source):
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(source.live.rows, min(QUERIES, len(source)), replace=False))
        yield from _answer_faults(pushed, snapshot, rows)
        if pushed.pushed.words:
            yield from _word_faults(pushed, snapshot, rows, ids)


def _row_faults(pushed: MilvusCollection, source: RowSource, ids: list[str]) -> Iterator[str]:
    server, target = pushed.server, pushed.target
    known, count = dict[int, int](), 0
    for part in server.every(target, [KEY, DIGEST]):
        known.update((row[KEY], row[DIGEST]) for row in part)
        count += len(part)
    counted = server.count(target)
    if not count == counted == len(known):
        yield f"{target}: {counted} rows, but {len(known)} distinct keys"
    missing, changed, done = list[int](), list[int](), 0
    for keys, digests in source.digests():
        own = [known.pop(key, None) for key in keys.tolist()]
        rows = source.live.rows[done : done + len(keys)].tolist()
        missing += [row for row, digest in zip(rows, own, strict=True) if digest is None]
        changed += [
            row
            for row, digest, expected in zip(rows, own, digests.tolist(), strict=True)
            if digest is not None and digest != expected
        ]
        done += len(keys)
        progress("comparing", done, len(source))
    for what, rows in (("missing", missing), ("other than in the index", changed)):
        if rows:
            named = ", ".join(repr(id) for id in dict.fromkeys(ids[row] for row in rows[:SHOWN]))
            yield f"{target}: {len(rows):,} passages {what}, of {named}"
    if known:
        yield f"{target}: {len(known):,} passages that are not in the index"


def _answer_faults(pushed: MilvusCollection, snapshot: Snapshot, rows: Rows) -> Iterator[str]:
    queries: Matrix = snapshot.index.vectors.take(rows)
    ours = nearest_hits(snapshot, SearchRequest(vectors=queries, limit=LIMIT))
    theirs = pushed.search_many(queries, LIMIT)
    agreed = float(np.mean([_agreement(*pair) for pair in zip(ours, theirs, strict=True)]))
    if agreed < AGREED:
        yield (
            f"{pushed.target}: {agreed:.2f} of the index's own answers to {len(rows)} queries; "
            f"expected {AGREED} or more"
        )


def _word_faults(
    pushed: MilvusCollection, snapshot: Snapshot, rows: Rows, ids: list[str]
) -> Iterator[str]:
    """Yield a fault if documents that the index finds by their words are not found by them."""
    texts = contents_of(snapshot, np.unique(snapshot.document_rows.documents(rows)))
    queries = [texts[row] for row in rows.tolist()]
    opposite: Matrix = -snapshot.index.vectors.take(rows)  # so that only words find them
    request = SearchRequest(texts=queries, vectors=opposite, limit=LIMIT, hybrid=1.0)
    own = [ids[row] for row in rows.tolist()]
    ours, theirs = (
        np.array([id in {hit.id for hit in hits} for id, hits in zip(own, found, strict=True)])
        for found in (nearest_hits(snapshot, request), pushed.answer(request))
    )
    if (agreed := float((ours & theirs).sum() / max(ours.sum(), 1))) < AGREED:
        yield (
            f"{pushed.target}: {agreed:.2f} of {ours.sum()} documents that are found by their own "
            f"words; expected {AGREED} or more"
        )


def _agreement(ours: list[Hit], theirs: list[Hit]) -> float:
    own = {hit.id for hit in ours}
    return len(own & {hit.id for hit in theirs}) / max(len(own), 1)
