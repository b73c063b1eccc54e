"""Verification of an index in Milvus, by ids, counts and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.execution.progress import progress

from ..documents import Hit
from ..search.hits import nearest_hits
from ..search.request import SearchRequest
from ..storage.snapshot import Snapshot
from .milvus_fields import DIGEST, ID, KEY
from .milvus_rows import RowSource
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
    faults = list(_row_faults(pushed, source))
    yield from faults
    if not faults and len(source):
        yield from _answer_faults(pushed, snapshot, source)


def _row_faults(pushed: MilvusCollection, source: RowSource) -> Iterator[str]:
    server, target = pushed.server, pushed.target
    stored = [(r[KEY], r[DIGEST]) for rows in server.every(target, [KEY, DIGEST]) for r in rows]
    digests, counted = dict(stored), server.count(target)
    if not len(stored) == counted == len(digests):
        yield f"{target}: {counted} rows, but {len(digests)} distinct keys"
    missing, changed, done = list[str](), list[str](), 0
    for rows, entities in source:
        for entity in entities:
            digest = digests.pop(entity[KEY], None)
            if digest is None:
                missing.append(entity[ID])
            elif digest != entity[DIGEST]:
                changed.append(entity[ID])
        done += len(rows)
        progress("comparing", done, len(source))
    for what, ids in (("missing", missing), ("other than in the index", changed)):
        if ids:
            named = ", ".join(map(repr, dict.fromkeys(ids[:SHOWN])))
            yield f"{target}: {len(ids):,} passages {what}, of {named}"
    if digests:
        yield f"{target}: {len(digests):,} passages that are not in the index"


def _answer_faults(
    pushed: MilvusCollection, snapshot: Snapshot, source: RowSource
) -> Iterator[str]:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(source.live.rows, min(QUERIES, len(source)), replace=False))
    queries: Matrix = snapshot.index.vectors.take(rows)
    ours = nearest_hits(snapshot, SearchRequest(vectors=queries, limit=LIMIT))
    theirs = pushed.search_many(queries, LIMIT)
    agreed = float(np.mean([_agreement(*pair) for pair in zip(ours, theirs, strict=True)]))
    if agreed < AGREED:
        yield (
            f"{pushed.target}: {agreed:.2f} of the index's own answers to {len(rows)} queries; "
            f"expected {AGREED} or more"
        )


def _agreement(ours: list[Hit], theirs: list[Hit]) -> float:
    ids = {hit.id for hit in ours}
    return len(ids & {hit.id for hit in theirs}) / max(len(ids), 1)
