"""Push: incremental upload of an index's rows to Milvus, with a description for searches.

A digest of each row in Milvus is compared with the expected one, so a push sends new and changed
rows, removes deleted ones, and repairs whatever an earlier push left. Rows of another metric go
into a new collection; once it is complete, the alias is moved to it and the old one is dropped.

A row's vector is the encoder's in the metric of rescoring, so that its product with a query in that
metric is the cosine that a hit has without Milvus. The metric is stored in a small collection, so
that a searcher needs no folder.
"""

from __future__ import annotations

import json
from base64 import b32encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, batches
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.system.progress import progress

from ..documents import (
    Document,
    content,
    hit_json,
    json_of,
    visible_columns,
    visible_values,
)
from ..index import Index
from ..lexical.tokens import id_terms, stemmer, words_in
from ..search.answer import hit_of
from ..store.snapshot import Snapshot
from .milvus_server import (
    DIGEST,
    HIT,
    ID,
    KEY,
    VECTOR,
    WORDS,
    Server,
    alias_of,
    is_ours,
    model_of,
)

AT_ONCE = 256
"""Rows per call: servers accept 64 MB, and a row may have 128 kB."""
FORMAT = 5
MOST_CHARACTERS = 16_000
MOST_WORDS = 7000
"""Largest text of a hit and number of its words that fit Milvus' fields."""

Entity = dict[str, Any]
"""A row of Milvus: field -> value."""


@dataclass(frozen=True)
class PushResult:
    """Result of a push."""

    rows: int  # now in Milvus
    sent: int  # by this push
    removed: int  # by this push
    collection: str  # of the alias
    is_new: bool  # True if this push moved the alias to it


def push(
    index: Index, server: Server, name: str | None = None, leave_out: Sequence[str] = ()
) -> PushResult:
    """Update Milvus to match an index, except the columns to `leave_out`.

    By default, the name is the folder's, with underscores for characters that Milvus refuses.
    Raises `InputError` if the index never had documents, the server does not answer, or a value
    does not fit. Pushing again resumes, and mends what two pushes at once left.
    """
    alias = alias_of(name, index.path)
    return index.read(lambda snapshot: _push(snapshot, server, alias, leave_out))


def _push(snapshot: Snapshot, server: Server, alias: str, leave_out: Sequence[str]) -> PushResult:
    """Push one snapshot, without some columns, to the collection that the alias will point to."""
    if snapshot.state.settings is None:
        raise InputError(f"{snapshot.path} holds no documents; expected some to push")
    snapshot.check_encoded()
    columns = visible_columns(snapshot.columns)
    unknown = sorted({*leave_out} - {*columns})
    if unknown:
        raise InputError(
            f"column {unknown[0]!r}; expected one of the index's columns: "
            f"{', '.join(columns) or 'none'}"
        )
    before = server.collection_of(alias)
    if before is not None and not is_ours(before, alias):
        raise InputError(
            f"milvus {server.uri}: {alias!r} is a collection not made by slimdex; expected another "
            "name"
        )

    # Fill the collection for rows of this form, which may be the present one.
    target, sent, removed = _fill(snapshot, server, alias, leave_out)

    # Now that it is complete, let searches use it, and drop the others.
    if before != target:
        server.ask("create_alias" if before is None else "alter_alias", target, alias)
    for collection in server.ask("list_collections"):
        if is_ours(collection, alias) and collection not in (target, model_of(target)):
            server.ask("drop_collection", collection)
    return PushResult(snapshot.searchable_count, sent, removed, target, before != target)


def _fill(
    snapshot: Snapshot, server: Server, alias: str, leave_out: Sequence[str]
) -> tuple[str, int, int]:
    """Fill a collection and its description; return its name, and the rows sent and removed."""
    state = snapshot.state
    dim = state.dim
    metric = snapshot.index.metric
    rescorer = Rescorer(None, np.zeros(dim, np.float32)) if metric is None else metric.rescorer
    vectors = rescorer.shift[None]
    if rescorer.gram is not None:
        vectors = np.vstack([vectors, rescorer.gram])
    has_words = state.words is not None
    facts = {"format": FORMAT, "encoder": state.encoder, "hybrid": state.fusion, "words": has_words}

    # The name is a digest of what all rows have in common.
    common = f"{FORMAT} {has_words}".encode() + vectors.tobytes()
    target = f"{alias}_{blake2b(common, digest_size=6).hexdigest()}"
    server.prepare(model_of(target), dim, words=False)
    description = []
    for i, vector in enumerate(vectors):
        entity = {KEY: str(i), HIT: {} if i else facts}
        description.append(_with_digest(entity, vector) | {VECTOR: vector})
    _update(server, model_of(target), [description])
    server.prepare(target, dim, words=has_words)
    return target, *_update(server, target, _entities(snapshot, rescorer, leave_out))


def _update(server: Server, name: str, parts: Iterable[list[Entity]]) -> tuple[int, int]:
    """Send new and changed rows, remove those in no part; return both numbers."""
    known = {row[KEY]: row[DIGEST] for row in server.every(name, [KEY, DIGEST])}
    gone = {*known}
    sent = 0
    for entities in parts:
        changed = [entity for entity in entities if known.get(entity[KEY]) != entity[DIGEST]]
        for few in batches(len(changed), AT_ONCE):
            server.ask("upsert", name, changed[few])
        sent += len(changed)
        gone.difference_update(entity[KEY] for entity in entities)

    # Rows that the index no longer has.
    left = sorted(gone)
    for few in batches(len(left), AT_ONCE):
        server.ask("delete", name, ids=left[few])
        progress("removing", min(few.stop, len(left)), len(left))
    server.ask("flush", name)
    return sent, len(left)


def read_description(server: Server, target: str) -> tuple[dict[str, Any], Rescorer]:
    """Facts about a pushed index, and the metric of its vectors."""
    name = model_of(target)
    server.load(name)
    rows = {row[KEY]: row for row in server.every(name, [KEY, HIT, VECTOR])}
    facts = rows["0"][HIT] if rows else {}
    if facts.get("format") != FORMAT:
        raise InputError(f"milvus {server.uri}: {name}: of another version of slimdex; push again")
    vectors = np.array([rows[str(i)][VECTOR] for i in range(len(rows))], np.float32)
    return facts, Rescorer(vectors[1:] if len(vectors) > 1 else None, vectors[0])


def _entities(
    snapshot: Snapshot, rescorer: Rescorer, leave_out: Sequence[str]
) -> Iterator[list[Entity]]:
    """Yield rows as Milvus stores them, a batch at a time."""
    rows = snapshot.searchable_rows()
    has_words = snapshot.state.words is not None
    for part in batches(len(rows), AT_ONCE):
        firsts = snapshot.document_rows.documents(rows[part])
        documents = snapshot.store.documents(np.unique(firsts).tolist())
        stored = snapshot.index.vectors.map().take(rows[part], axis=0)
        X = snapshot.index.vectors.take(rows[part])
        norms = rescorer.norms(X)
        vectors = (X - rescorer.shift) / np.where(norms == 0, np.float32(np.inf), norms)

        entities = []
        for i, (row, first) in enumerate(zip(rows[part].tolist(), firsts.tolist(), strict=True)):
            document = documents[first]
            values = visible_values(document.metadata)
            metadata = {name: values[name] for name in values if name not in leave_out}
            entity = _entity(replace(document, metadata=metadata), row - first, has_words)
            entities.append(_with_digest(entity, stored[i]) | {VECTOR: vectors[i]})
        yield entities
        progress("pushing", part.stop, len(rows))


def _entity(document: Document, number: int, has_words: bool) -> Entity:
    """Return a passage: its hit as JSON, and its columns beside it, for filters."""
    hit = hit_of(document, number)
    values = json.loads(json_of(hit_json(replace(hit, text=hit.text[:MOST_CHARACTERS]))))
    columns = {name: value for name, value in values["metadata"].items() if value is not None}
    for name, value in document.metadata.items():
        if isinstance(value, Decimal):
            columns[name] = float(value)
    entity = columns | {KEY: f"{number}:{document.id}", ID: document.id, HIT: values}
    if has_words:
        words = f"{words_in(content(document.title, hit.text))} {id_terms(document.id)[1]}"
        entity[WORDS] = word_forms(stemmer().analyze(words)[:MOST_WORDS])
    return entity


def _with_digest(entity: Entity, vector: Matrix) -> Entity:
    """Add a digest, which changes with the row or with its vector as the index stores it."""
    data = json.dumps(entity, sort_keys=True).encode() + vector.tobytes()
    return entity | {DIGEST: blake2b(data, digest_size=16).hexdigest()}


def word_forms(stems: Iterable[str]) -> str:
    """Stems in eight lower-case letters and digits each, which any server's analyzer keeps.

    >>> word_forms(["cat", "cat.md"])
    'u6yeffyf 2jrpcvwp'
    """
    digests = (blake2b(stem.encode(), digest_size=5).digest() for stem in stems)
    return " ".join(b32encode(digest).decode().lower() for digest in digests)
