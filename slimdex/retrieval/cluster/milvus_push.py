"""Push: incremental upload of an index's rows to Milvus.

A digest of each row in Milvus is compared with the expected one, so a push sends new and changed
rows, removes deleted ones, and repairs whatever an earlier push left. Rows of another reducer,
metric or schema go into a new collection; once it is complete, the alias is moved to it and the
old one is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import note, progress

from ..collection import Collection
from ..storage.snapshot import Snapshot
from .milvus_fields import BM25, DIGEST, FULL, KEY, VECTOR, fields_of
from .milvus_rows import RowSource
from .milvus_schema import DEFAULT, described_fields, functions, indexes
from .milvus_server import Server
from .milvus_settings import (
    HERE,
    RESCORED,
    THERE,
    Fitted,
    Names,
    Pushed,
    SettingsTable,
    keep,
    kept,
)

SENT_BYTES = 8_000_000
"""Approximate bytes of rows per call: servers accept 64 MB."""
REMOVED_AT_ONCE = 1000


@dataclass(frozen=True)
class PushOptions:
    """Options of an index in Milvus.

    Attributes
    ----------
    kind : an index kind of the server; None for the existing one, or IVF_SQ8.
    rescored : where candidates are rescored: here, there or off.
    leave_out : columns not to push.
    """

    kind: str | None = None
    rescored: str = HERE
    leave_out: Sequence[str] = ()


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
    options: PushOptions | None = None,
) -> PushResult:
    """Update Milvus to match an index.

    Parameters
    ----------
    name : by default the folder's, with underscores for characters that Milvus does not accept.

    Raises
    ------
    InputError
        If the index never had documents, the server does not answer or lacks a requested feature,
        or a value does not fit. Pushing again resumes, and mends what two pushes at once left.
    """
    names = Names.of(name, collection.path)
    return collection.read(
        lambda snapshot: _push(snapshot, server, names, options or PushOptions())
    )


def _push(snapshot: Snapshot, server: Server, names: Names, options: PushOptions) -> PushResult:
    if snapshot.state.settings is None:
        raise InputError(f"{snapshot.path} holds no documents; expected some to reduce by")
    pushed, fitted = described(snapshot, server, options)
    before = _current(server, names)
    table = SettingsTable(server, names)
    table.ensure()
    if options.kind is None and (last := _kept(table, names, before)) is not None:
        pushed = replace(pushed, kind=last.kind)
    target = names.rows(pushed.fingerprint)
    pushed = _made(server, table, names, pushed)
    keep(table, pushed, fitted)
    source = RowSource(snapshot, pushed, fitted)
    sent, removed = _update(server, target, source)
    if snapshot.state.words is not None and not server.can.bm25:
        note(
            f"Milvus {server.can.version} has no BM25 function (2.5 and newer have one): searches "
            "there are by meaning alone"
        )
    server.settle(target, _vector_fields(pushed))
    if before != target:
        server.reload(target)  # not searched yet
    if before != target or server.collection_of(names.alias) is None:
        server.point(names.alias, target)
    for name in server.collections():
        if names.is_rows(name) and name != target:
            server.drop(name)
    table.forget_others(pushed.fingerprint)
    return PushResult(len(source), sent, removed, target, before != target)


def described(snapshot: Snapshot, server: Server, options: PushOptions) -> tuple[Pushed, Fitted]:
    """Describe an index as it should be in Milvus.

    Raises `InputError` if the server lacks a requested feature.
    """
    _check(options, server, snapshot)
    state, index = snapshot.state, snapshot.index
    files = {"reducer": (snapshot.path / state.files["reducer"].name).read_bytes()}
    if options.rescored == THERE:
        files["rescorer"] = (snapshot.path / state.files["rescorer"].name).read_bytes()
    fitted = Fitted.of_files(files)
    return Pushed(
        state.encoder,
        state.dim,
        fitted.reducer.n_components,
        (options.kind or DEFAULT).upper(),
        len(index),
        len(index),
        options.rescored,
        0 if index.metric is None else index.asked_candidates,
        fields_of(snapshot.columns, options.leave_out),
        dict(snapshot.columns),
        state.words is not None and server.can.bm25,
        state.fusion,
        fitted.sha256,
    ), fitted


def _check(options: PushOptions, server: Server, snapshot: Snapshot) -> None:
    """Raise `InputError` if candidates can't be rescored as requested."""
    if options.rescored not in RESCORED:
        raise InputError(f"rescore={options.rescored!r}; expected one of {', '.join(RESCORED)}")
    if options.rescored == THERE and not server.can.second_vector:
        raise InputError(
            f"rescore='there': Milvus {server.can.version} has one vector for a row; expected "
            "version 2.4 or newer, or rescore='here'"
        )
    if options.rescored == THERE and snapshot.index.metric is None:
        raise InputError(
            "rescore='there': this index was built with candidates=0 and can't rescore; expected "
            "'here' or 'off'"
        )


def _kept(table: SettingsTable, names: Names, collection: str | None) -> Pushed | None:
    """Read the description of a collection of rows; None if missing or damaged."""
    if collection is None:
        return None
    try:
        settings = kept(table, collection.removeprefix(f"{names.alias}_"))
    except CorruptError:
        return None
    return settings and settings[0]


def _made(server: Server, table: SettingsTable, names: Names, pushed: Pushed) -> Pushed:
    """Create the collection for the rows unless it exists with a description.

    A collection without one is rebuilt: rows are sent after the description is written.
    """
    target = names.rows(pushed.fingerprint)
    is_whole = server.has_whole(target, _vector_fields(pushed))
    last = _kept(table, names, target) if is_whole else None
    if last is None:
        if is_whole:
            server.drop_with_alias(names.alias, target)
        _create(server, target, pushed)
    server.load(target)
    return pushed if last is None else replace(pushed, built_rows=last.built_rows)


def _current(server: Server, names: Names) -> str | None:
    """Return the alias's collection."""
    collection = server.collection_of(names.alias)
    if collection is not None and not names.is_rows(collection):
        raise InputError(
            f"milvus {server.uri}: {names.alias!r} is a collection not made by slimdex; "
            "expected another name"
        )
    return collection


def _create(server: Server, name: str, pushed: Pushed) -> None:
    is_there = pushed.rescored == THERE
    fields = described_fields(
        server.can,
        pushed.fields,
        pushed.k,
        pushed.dim if is_there else 0,
        hits=pushed.rescored != HERE,
        words=pushed.words,
    )
    index = indexes(pushed.index_kind, full=is_there, words=pushed.words)
    server.create(name, fields, index, functions(words=pushed.words))


def _vector_fields(pushed: Pushed) -> list[str]:
    full, words = pushed.rescored == THERE, pushed.words
    return [VECTOR, *([FULL] if full else []), *([BM25] if words else [])]


def _update(server: Server, target: str, source: RowSource) -> tuple[int, int]:
    """Send new and changed rows, remove deleted ones; return both numbers."""
    known = {row[KEY]: row[DIGEST] for rows in server.every(target, [KEY, DIGEST]) for row in rows}
    gone, sent, done = set(known), 0, 0
    for rows, entities in source:
        new = [i for i, row in enumerate(entities) if known.get(row[KEY]) != row[DIGEST]]
        stored = source.with_vectors([entities[i] for i in new], rows[new], server.can.dtype)
        for part in _parts(stored):
            server.put(target, part)
            sent += len(part)
        gone.difference_update(row[KEY] for row in entities)
        done += len(rows)
        progress("pushing", done, len(source))
    left = sorted(gone)
    for few in batches(len(left), REMOVED_AT_ONCE):
        server.remove(target, left[few])
        progress("removing", min(few.stop, len(left)), len(left))
    return sent, len(left)


def _parts(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Split rows for calls by size."""
    part, size = list[dict[str, Any]](), 0
    for row in rows:
        size += sum(map(_size, row.values()))
        part.append(row)
        if size > SENT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _size(value: Any) -> int:
    return int(getattr(value, "nbytes", 4 * len(value) if isinstance(value, str) else 8))
