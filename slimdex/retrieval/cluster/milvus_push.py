"""Push: incremental upload of an index's rows to Milvus, with a description for searches.

A digest of each row in Milvus is compared with the expected one, so a push sends new and changed
rows, removes deleted ones, and repairs whatever an earlier push left. Rows of another reducer,
metric or schema go into a new collection; once it is complete, the alias is moved to it and the
old one is dropped.

A row's vector is the one that the index's own search ranks by: with rescoring, the encoder's
vector in the metric of rescoring, otherwise the reduced one. So products of vectors in Milvus are
the cosines that a hit has without Milvus. The file of the metric or the reducer is stored in a
small collection, so that a searcher needs no folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b32encode, b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.reducers.reducer import load_reducer, reduce_rows
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.json_text import READABLE, parse_json
from slimdex.system.progress import note, progress
from slimdex.system.threads import eigh, product

from ..documents import Document, Hit, hit_from_json, hit_json
from ..index import Index
from ..lexical.tokens import id_terms, stemmer, words_in
from ..search.answer import hit_of
from ..store.lines import UnwritableError, line_of, values_of
from ..store.snapshot import Snapshot
from .milvus_server import (
    BM25,
    DIGEST,
    HIT,
    ID,
    KEY,
    LONGEST_TEXT,
    VECTOR,
    WORDS,
    Server,
    alias_of,
    field_value,
    is_ours,
    kinds_of,
    model_of,
    part_schema,
    row_schema,
)

SENT_AT_ONCE = 256
REMOVED_AT_ONCE = 1000
"""Rows per call: servers accept 64 MB, and the texts of a row may have 128 kB."""
FORMAT = 4
ROWS_AT_ONCE = 1024
"""Rows read and compared at a time."""
PART_CHARACTERS = 64_000
PARTS_AT_ONCE = 100
"""Of the texts that a file is stored as, and how many are sent or read at a time."""
RESCORER = "rescorer"
REDUCER = "reducer"
_PLAIN = re.compile(r"[a-z0-9]{1,40}")
"""Words that every analyzer keeps; some leave out longer ones."""


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
        raise InputError(f"{snapshot.path} holds no documents; expected some to reduce by")
    pushed, file = PushDescription.of(snapshot, leave_out)
    without_field = sorted(set(snapshot.columns) - {*pushed.kinds, *leave_out})
    if without_field:
        names = ", ".join(without_field)
        note(f"filters in Milvus can't name {names}: no field has such a type or name")

    # The name must be free, or of an earlier push.
    before = server.collection_of(alias)
    if before is not None and not is_ours(before, alias):
        raise InputError(
            f"milvus {server.uri}: {alias!r} is a collection not made by slimdex; expected another "
            "name"
        )

    # Fill the collection for rows of this form, which may be the present one.
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

    # Now that it is complete, let searches use it, and drop the others.
    if before != target:
        server.reload(target)  # not searched yet
        server.point(alias, target)
    for collection in server.collections():
        if is_ours(collection, alias) and collection not in (target, model_of(target)):
            server.drop(collection)
    return PushResult(len(source), sent, removed, target, before != target)


def _update(server: Server, target: str, source: RowSource) -> tuple[int, int]:
    """Send new and changed rows, remove deleted ones; return both numbers."""
    entities_there = chain.from_iterable(server.every(target, [KEY, DIGEST]))
    known = {row[KEY]: row[DIGEST] for row in entities_there}
    dtype = "float32" if server.is_lite else "float16"
    gone = set(known)  # in the end, the keys that no row of the index has
    sent = 0
    done = 0

    # New and changed rows.
    for rows, entities in source:
        new = [i for i, row in enumerate(entities) if known.get(row[KEY]) != row[DIGEST]]
        stored = source.with_vectors([entities[i] for i in new], rows[new], dtype)
        for few in batches(len(stored), SENT_AT_ONCE):
            server.upsert(target, stored[few])
        sent += len(stored)
        gone.difference_update(row[KEY] for row in entities)
        done += len(rows)
        progress("pushing", done, len(source))

    # Rows that the index no longer has.
    left = sorted(gone)
    for few in batches(len(left), REMOVED_AT_ONCE):
        server.remove(target, left[few])
        progress("removing", min(few.stop, len(left)), len(left))
    return sent, len(left)


@dataclass(frozen=True)
class PushDescription:
    """Description of what was pushed, for searches."""

    encoder: dict[str, Any]  # its spec
    dim: int  # of the encoder's vectors
    width: int  # dimensions in Milvus
    ranked_by: str  # "rescorer" or "reducer", whose file is stored
    sha256: str  # of that file
    candidates: int | None  # rows to rescore, None for the default
    kinds: Mapping[str, str]  # columns that have a field -> Milvus' type
    words: bool  # True if words were pushed, for BM25
    hybrid: str  # fusion of `auto`: as `tune` chose, or "auto", by rule
    rows: int
    mean: list[float]  # of the rows in Milvus; its products with queries are mean cosines
    format: int = FORMAT

    @classmethod
    def of(cls, snapshot: Snapshot, left_out: Iterable[str] = ()) -> tuple[Self, bytes]:
        """Describe an index without some columns, and read the file that its ranking needs."""
        state = snapshot.state
        index = snapshot.index
        ranked_by = REDUCER if index.metric is None else RESCORER
        file = (snapshot.path / state.files[ranked_by].name).read_bytes()
        row = snapshot.moments().mean[None].astype(np.float32)
        # The direction of the mean vector, times the mean cosine of all rows with it.
        mean = ranking(ranked_by, file)(row)[0] * snapshot.mean_cosines(row)
        pushed = cls(
            encoder=state.encoder,
            dim=state.dim,
            width=index.reducer.n_components if index.metric is None else state.dim,
            ranked_by=ranked_by,
            sha256=hashlib.sha256(file).hexdigest(),
            candidates=index.asked_candidates,
            kinds=kinds_of(snapshot.columns, [*left_out]),
            words=state.words is not None,
            hybrid=state.fusion,
            rows=snapshot.searchable_count,
            mean=mean.round(6).tolist(),
        )
        return pushed, file

    @property
    def fingerprint(self) -> str:
        """Digest of what all rows of a collection have in common."""
        common = (
            self.width,
            self.ranked_by,
            self.sha256,
            dict(self.kinds),
            self.words,
            self.format,
        )
        return hashlib.sha256(json.dumps(common).encode()).hexdigest()[:12]

    def keep(self, server: Server, target: str, file: bytes) -> None:
        """Write this description and the file that describe a collection, where they differ.

        They are kept in another collection, a part of the text in each row.
        """
        name = model_of(target)
        if not server.has_whole(name, [VECTOR]):
            server.create(name, *part_schema())
        server.load(name)
        text = b64encode(file).decode()
        stored_parts = _parts(server, name)
        parts = [text[part] for part in batches(len(text), PART_CHARACTERS)]
        parts.append(json.dumps(asdict(self)))
        # The file's parts are 1, 2 and so on. The description is part 0 and is written last:
        # without it, the file does not count. Each row must have a vector, which nothing reads.
        numbers = [*range(1, len(parts)), 0]
        rows = []
        for number, body in zip(numbers, parts, strict=True):
            if stored_parts.get(number) != body:
                rows.append({KEY: number, "body": body, VECTOR: [1.0, 0.0]})
        for few in batches(len(rows), PARTS_AT_ONCE):
            server.upsert(name, rows[few])

    @classmethod
    def read(cls, server: Server, target: str) -> tuple[Self, bytes]:
        """Read what `keep` has written; raises `CorruptError` if it is incomplete or damaged."""
        name = model_of(target)
        try:
            if not server.has_whole(name, [VECTOR]):
                raise ValueError("it does not exist")
            server.load(name)
            parts = _parts(server, name)
            values = parse_json(parts.pop(0), READABLE)  # the description; the rest is the file
            if values["format"] != FORMAT:
                raise ValueError(f"format {values['format']}; expected {FORMAT}")
            pushed = cls(**values)
            file = b64decode("".join(parts[i] for i in sorted(parts)))
            if hashlib.sha256(file).hexdigest() != pushed.sha256:
                raise ValueError("wrong checksum")
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise CorruptError(
                f"milvus {server.uri}: {name}: damaged ({error}); push again"
            ) from error
        return pushed, file


def _parts(server: Server, name: str) -> dict[int, str]:
    """Read the numbered texts of a collection: number -> text."""
    rows = chain.from_iterable(server.every(name, [KEY, "body"], PARTS_AT_ONCE))
    return {row[KEY]: row["body"] for row in rows}


def ranking(ranked_by: str, file: bytes) -> Callable[[Matrix], Matrix]:
    """Return the function from an encoder's vectors (n, d) to vectors whose products are cosines.

    In the metric of rescoring it is ``(x - shift) gram^(1/2)``, of unit length. The symmetric root
    is the same on every machine, unlike other roots, whose axes depend on the library.
    """
    with TemporaryDirectory(prefix="slimdex-", dir=temporary_parent()) as folder:
        path = Path(folder) / ranked_by
        path.write_bytes(file)
        if ranked_by == REDUCER:
            reducer = load_reducer(path)
            return lambda X: reduce_rows(reducer, X)
        rescorer = Rescorer.load(path)
    gram = rescorer.gram
    shift = rescorer.shift
    if gram is None:
        return lambda X: normalize_rows(X - shift)

    # Rows times the root of the Gram matrix have the dot products that it defines.
    values, axes = eigh(gram.astype(np.float64))
    root = ((axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T).astype(np.float32)
    return lambda X: normalize_rows(product(X - shift, root))


def key_of(id: str, number: int) -> int:
    """Key of a document's passage, counted from 0; unchanged when rows are renumbered.

    >>> key_of("7", 0) == key_of("7", 0), key_of("7", 0) == key_of("7", 1)
    (True, False)
    """
    return _number(f"{number}:{id}".encode("utf-8", "surrogatepass"))


def _number(data: bytes) -> int:
    """Return a hash of 63 bits, which fits a signed integer and is never negative."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


class RowSource:
    """An index's rows as Milvus stores them; `pushed` and `file` come from `PushDescription.of`."""

    def __init__(
        self, snapshot: Snapshot, pushed: PushDescription, file: bytes, left_out: Iterable[str]
    ) -> None:
        self._snapshot = snapshot
        self._pushed = pushed
        self._left_out = {*left_out}
        self._ranking = ranking(pushed.ranked_by, file)

    @cached_property
    def _rows_and_keys(self) -> tuple[Rows, Rows]:
        """The rows that searches can find (n,), and their keys (n,)."""
        ids = self._snapshot.store.ids_by_row(self._snapshot.state.rows)
        rows = self._snapshot.searchable_rows()
        firsts = self._snapshot.document_rows.documents(rows)
        pairs = zip(rows.tolist(), firsts.tolist(), strict=True)
        keys = np.array([key_of(ids[row], row - first) for row, first in pairs], dtype=np.int64)
        if len(np.unique(keys)) < len(keys):
            raise InputError("two passages have the same key in Milvus; expected other ids")
        return rows, keys

    def __len__(self) -> int:
        return len(self._rows_and_keys[0])

    def __iter__(self) -> Iterator[tuple[Rows, list[dict[str, Any]]]]:
        """Yield the rows in batches, each with its entities without vectors."""
        rows, keys = self._rows_and_keys
        for part in batches(len(rows), ROWS_AT_ONCE):
            yield rows[part], self._entities(rows[part], keys[part])

    def _entities(self, rows: Rows, keys: Rows) -> list[dict[str, Any]]:
        """Return the fields that Milvus stores for each row, without its vector."""
        # Documents, without the columns that are left out.
        firsts = self._snapshot.document_rows.documents(rows)
        distinct_firsts = np.unique(firsts)
        documents = dict[int, Document]()
        for first, document in self._snapshot.documents(distinct_firsts.tolist()).items():
            metadata = dict(document.metadata)
            for name in self._left_out:
                metadata.pop(name, None)
            documents[first] = replace(document, metadata=metadata)

        # Texts for BM25, if the collection has words.
        contents = dict[int, str]()
        if self._pushed.words:
            texts = self._snapshot.store.contents_of(distinct_firsts)
            all_rows = self._snapshot.document_rows.all_rows(distinct_firsts).tolist()
            contents = dict(zip(all_rows, texts, strict=True))

        # An entity for each row, with a digest that tells whether it has changed.
        raw = self._snapshot.index.vectors.map().take(rows, axis=0)
        entities = []
        for row, first, key, vector in zip(
            rows.tolist(), firsts.tolist(), keys.tolist(), raw, strict=True
        ):
            document = documents[first]
            entity = {ID: _short(document, "id", document.id)}
            for name, kind in self._pushed.kinds.items():
                value = field_value(kind, document.metadata.get(name))
                entity[name] = _short(document, name, value)
            entity[HIT] = _hit_text(hit_of(document, row - first, 0.0))
            if self._pushed.words:
                entity[WORDS] = words_text(document.id, contents[row])
            text = json.dumps([*entity.items()], ensure_ascii=False)
            digest = _number(text.encode("utf-8", "surrogatepass") + vector.tobytes())
            entities.append({KEY: key, DIGEST: digest, **entity})
        return entities

    def with_vectors(
        self, entities: list[dict[str, Any]], rows: Rows, dtype: str
    ) -> list[dict[str, Any]]:
        """The entities of rows (n,) with their vectors, of a type that the server stores."""
        if not entities:
            return entities
        vectors = self._ranking(self._snapshot.index.vectors.take(rows)).astype(dtype)
        return [entity | {VECTOR: vector} for entity, vector in zip(entities, vectors, strict=True)]


def _short(document: Document, column: str, value: Any) -> Any:
    """Return a column's value; raise `InputError` if it is a text too long for Milvus."""
    size = len(value.encode()) if isinstance(value, str) else 0
    if size > LONGEST_TEXT:
        raise InputError(
            f"document {document.id!r:.80}: {column} has {size:,} bytes; Milvus takes "
            f"{LONGEST_TEXT:,} (leave_out={column!r} pushes the others)"
        )
    return value


def _hit_text(hit: Hit) -> str:
    """Return a hit as the text that Milvus stores, cutting the hit's own text if it is too long.

    Raises `InputError` if its columns alone are too long, or can't be written.
    """
    while True:
        try:
            line = line_of([hit_json(hit)])
        except UnwritableError as error:
            raise InputError(
                f"document {hit.id!r:.80}: {error} can't be kept in Milvus; expected leave_out to "
                "name its column"
            ) from error
        excess = len(line) - LONGEST_TEXT
        if excess <= 0:
            return line.decode()
        if not hit.text:
            raise InputError(
                f"document {hit.id!r:.80}: its columns have {len(line):,} bytes; Milvus takes "
                f"{LONGEST_TEXT:,}: expected leave_out to name some"
            )
        hit = replace(hit, text=hit.text[:-excess])  # a character has one byte or more


def hit_from(entity: Mapping[str, Any], score: float, finder: str) -> Hit:
    """Parse a hit from its pushed text; raises `CorruptError` if the text is invalid."""
    try:
        (values,) = values_of(entity[HIT].encode())
        return hit_from_json(values | {"score": score, "found_by": finder})
    except (TypeError, ValueError) as error:
        raise CorruptError(f"milvus: row {entity[KEY]}: {error}") from error


def words_text(id: str, content: str) -> str:
    """Stems of the words of a row, for BM25, as many as Milvus takes.

    They are those of the local lexical index, in a form that the analyzers of all servers keep.

    >>> words_text("cat.md", "A cat, a cat")
    ' a cat a cat cat md 2jrpcvwp '
    """
    stems = stemmer().analyze(f"{words_in(content)} {id_terms(id)[1]}")
    text = f" {' '.join(map(word_form, stems))} "  # with spaces around each, to find it whole
    if len(text) <= LONGEST_TEXT:
        return text
    beginning, _, _ = text[:LONGEST_TEXT].rpartition(" ")  # without a word that was cut
    return beginning + " "


def word_form(word: str) -> str:
    """Return a short word of lower-case ASCII letters and digits unchanged, any other as a hash.

    >>> word_form("cat"), word_form("cat.md")
    ('cat', '2jrpcvwp')
    """
    if _PLAIN.fullmatch(word):
        return word
    return b32encode(blake2b(word.encode(), digest_size=5).digest()).decode().lower()
