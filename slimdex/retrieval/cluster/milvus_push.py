"""Push: incremental upload of an index's rows to Milvus.

A digest of each row in Milvus is compared with the expected one, so a push sends new and changed
rows, removes deleted ones, and repairs whatever an earlier push left. Rows of another reducer,
metric or schema go into a new collection; once it is complete, the alias is moved to it and the
old one is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import note, progress

from ..collection import Collection
from ..store.snapshot import Snapshot
from .milvus_rows import Pushed, RowSource
from .milvus_schema import (
    BM25,
    DIGEST,
    KEY,
    VECTOR,
    alias_of,
    is_ours,
    model_of,
    row_schema,
)
from .milvus_server import Server

SENT_AT_ONCE, REMOVED_AT_ONCE = 256, 1000
"""Rows per call: servers accept 64 MB, and the texts of a row may have 128 kB."""


@dataclass(frozen=True)
class PushResult:
    """Result of a push.

    Attributes
    ----------
    rows : now in Milvus.
    sent, removed : by this push.
    collection : the alias's collection.
    is_new : True if this push moved the alias to it.
    """

    rows: int
    sent: int
    removed: int
    collection: str
    is_new: bool


def push(
    collection: Collection,
    server: Server,
    name: str | None = None,
    leave_out: Sequence[str] = (),
) -> PushResult:
    """Update Milvus to match an index.

    Parameters
    ----------
    name : by default the folder's, with underscores for characters that Milvus does not accept.
    leave_out : columns not to push.

    Raises
    ------
    InputError
        If the index never had documents, the server does not answer, or a value does not fit.
        Pushing again resumes, and mends what two pushes at once left.
    """
    alias = alias_of(name, collection.path)
    return collection.index.read(lambda snapshot: _push(snapshot, server, alias, leave_out))


def _push(snapshot: Snapshot, server: Server, alias: str, leave_out: Sequence[str]) -> PushResult:
    if snapshot.state.settings is None:
        raise InputError(f"{snapshot.path} holds no documents; expected some to reduce by")
    pushed, file = Pushed.of(snapshot, leave_out)
    if without := sorted(set(snapshot.columns) - {*pushed.kinds, *leave_out}):
        note(f"filters in Milvus can't name {', '.join(without)}: no field has such a type or name")
    before = server.collection_of(alias)
    if before is not None and not is_ours(before, alias):
        raise InputError(
            f"milvus {server.uri}: {alias!r} is a collection not made by slimdex; expected another "
            "name"
        )
    target = f"{alias}_{pushed.fingerprint}"
    vector_fields = [VECTOR, BM25] if pushed.words else [VECTOR]
    source = RowSource(snapshot, pushed, file, leave_out)
    if not server.has_whole(target, vector_fields):
        schema = row_schema(pushed.kinds, pushed.width, is_lite=server.is_lite, words=pushed.words)
        server.create(target, *schema)
    server.load(target)
    pushed.keep(server, target, file)
    sent, removed = _update(server, target, source)
    server.settle(target, vector_fields)
    if before != target:
        server.reload(target)  # not searched yet
        server.point(alias, target)
    for collection in server.collections():
        if is_ours(collection, alias) and collection not in (target, model_of(target)):
            server.drop(collection)
    return PushResult(len(source), sent, removed, target, before != target)


def _update(server: Server, target: str, source: RowSource) -> tuple[int, int]:
    """Send new and changed rows, remove deleted ones; return both numbers."""
    known = {row[KEY]: row[DIGEST] for rows in server.every(target, [KEY, DIGEST]) for row in rows}
    dtype = "float32" if server.is_lite else "float16"
    gone, sent, done = set(known), 0, 0
    for rows, entities in source:
        new = [i for i, row in enumerate(entities) if known.get(row[KEY]) != row[DIGEST]]
        stored = source.with_vectors([entities[i] for i in new], rows[new], dtype)
        for few in batches(len(stored), SENT_AT_ONCE):
            server.put(target, stored[few])
        sent += len(stored)
        gone.difference_update(row[KEY] for row in entities)
        done += len(rows)
        progress("pushing", done, len(source))
    left = sorted(gone)
    for few in batches(len(left), REMOVED_AT_ONCE):
        server.remove(target, left[few])
        progress("removing", min(few.stop, len(left)), len(left))
    return sent, len(left)
