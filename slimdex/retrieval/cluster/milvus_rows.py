"""Rows: the live passages of an index as stored in Milvus, with digests to detect changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.threads import eigh, product
from slimdex.indexes.search.reduced_index import reduced
from slimdex.indexes.search.rescoring import Rescorer

from ..documents import Document, Hit, hit_from_json, hit_json
from ..lexical.fusion import FOUND_BY, MEANING
from ..search.hits import hit_of
from ..storage.document_lines import UnwritableError, line_of, values_of
from ..storage.snapshot import Snapshot
from .milvus_fields import DIGEST, FULL, HIT, ID, KEY, LONGEST_TEXT, VECTOR, WORDS, stored_values
from .milvus_settings import OFF, THERE, Fitted, Pushed
from .milvus_words import fitting, words_text

AT_ONCE = 1024
"""Rows read and compared at a time."""
KEY_BITS = 63


def key_of(id: str, number: int) -> int:
    """Key of a document's passage, counted from 0; unchanged when rows are renumbered.

    >>> key_of("7", 0) == key_of("7", 0), key_of("7", 0) == key_of("7", 1)
    (True, False)
    """
    text = f"{number}:{id}".encode("utf-8", "surrogatepass")
    return _number(blake2b(text, digest_size=8).digest())


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big") >> (64 - KEY_BITS)


@dataclass(frozen=True)
class LiveRows:
    """Rows of a snapshot that searches can find, and their keys.

    Attributes
    ----------
    rows : (n,), in order.
    keys : (n,), of each.
    """

    rows: Rows
    keys: Rows

    @classmethod
    def of(cls, snapshot: Snapshot) -> LiveRows:
        """Live rows of a snapshot.

        Raises `InputError` if two passages have the same key, which is extremely improbable.
        """
        ids = snapshot.store.ids.by_row(snapshot.state.rows)
        rows = snapshot.searchable_rows()
        firsts = snapshot.document_rows.documents(rows)
        keys = np.array(
            [
                key_of(ids[row], row - first)
                for row, first in zip(rows.tolist(), firsts.tolist(), strict=True)
            ],
            dtype=np.int64,
        )
        if len(np.unique(keys)) < len(keys):
            different, counts = np.unique(keys, return_counts=True)
            row = int(rows[keys == different[counts > 1][0]][0])
            raise InputError(
                f"document {ids[row]!r}: another one has the same key in Milvus; expected another "
                "id for one of them"
            )
        return cls(rows, keys)

    @cached_property
    def _order(self) -> Rows:
        order: Rows = np.argsort(self.keys)
        return order

    def rows_of(self, keys: Rows) -> Rows:
        """The row of each key, in any shape; -1 if it does not exist (any more)."""
        if not len(self.keys):
            return np.full(keys.shape, -1, dtype=np.int64)
        place = np.searchsorted(self.keys, keys, sorter=self._order)
        row = self._order[np.minimum(place, len(self.keys) - 1)]
        return np.where(self.keys[row] == keys, self.rows[row], -1)

    def keys_of(self, rows: Rows) -> Rows:
        """The key of each row (n,), which must exist."""
        keys: Rows = self.keys[np.searchsorted(self.rows, rows)]
        return keys


class RowSource:
    """An index's rows in the form that Milvus stores.

    `pushed` and `fitted` describe the push and the fitted models.

    Attributes
    ----------
    live : the rows.
    """

    def __init__(self, snapshot: Snapshot, pushed: Pushed, fitted: Fitted) -> None:
        self._snapshot = snapshot
        self._pushed, self._fitted = pushed, fitted
        self.live = LiveRows.of(snapshot)
        self._full = FullVectors(fitted.rescorer) if fitted.rescorer else None

    def __len__(self) -> int:
        return len(self.live.rows)

    def __iter__(self) -> Iterator[tuple[Rows, list[dict[str, Any]]]]:
        """Yield the rows in batches, each with its entities without vectors."""
        for part in batches(len(self), AT_ONCE):
            rows = self.live.rows[part]
            yield rows, self._entities(rows, self.live.keys[part])

    def _entities(self, rows: Rows, keys: Rows) -> list[dict[str, Any]]:
        firsts = self._snapshot.document_rows.documents(rows)
        wanted = np.unique(firsts)
        documents = self._snapshot.documents(wanted.tolist())
        contents = contents_of(self._snapshot, wanted) if self._pushed.words else {}
        raw = self._snapshot.index.vectors.map().take(rows, axis=0)
        entities = []
        for row, first, key, vector in zip(
            rows.tolist(), firsts.tolist(), keys.tolist(), raw, strict=True
        ):
            document = documents[first]
            entity = stored_values(self._pushed.fields, document)
            if self._pushed.rescored in (THERE, OFF):
                entity[HIT] = _hit_text(document, row - first)
            if self._pushed.words:
                entity[WORDS] = fitting(words_text(document.id, contents[row]))
            entities.append({KEY: key, DIGEST: _digest(entity, vector.tobytes()), **entity})
        return entities

    def with_vectors(
        self, entities: list[dict[str, Any]], rows: Rows, dtype: str
    ) -> list[dict[str, Any]]:
        """The entities of rows (n,) with their vectors, of a type that the server stores."""
        if not entities:
            return entities
        vectors = self._snapshot.index.vectors.take(rows)
        stored = {VECTOR: reduced(self._fitted.reducer, vectors).astype(dtype)}
        if self._full is not None:
            stored[FULL] = self._full.rows(vectors).astype(dtype)
        return [
            {**entity, **{name: matrix[i] for name, matrix in stored.items()}}
            for i, entity in enumerate(entities)
        ]


def contents_of(snapshot: Snapshot, documents: Rows) -> dict[int, str]:
    """Map the rows of documents to their encoded texts."""
    rows = snapshot.document_rows.all_rows(documents).tolist()
    texts = snapshot.store.documents.contents_of(documents)
    return dict(zip(rows, texts, strict=True))


class FullVectors:
    """Vectors whose inner product is the cosine in the metric of rescoring.

    With gram = V diag(w) V^T, x is ``(x - shift) V diag(w^(1/2))``, of unit length.
    """

    def __init__(self, rescorer: Rescorer) -> None:
        self._shift, self._axes = rescorer.shift, None
        if rescorer.gram is not None:
            values, axes = eigh(rescorer.gram.astype(np.float64))
            self._axes = (axes * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)

    def rows(self, X: Matrix) -> Matrix:
        """Transform rows or queries (n, d) for comparison."""
        centred = X - self._shift
        return normalize_rows(centred if self._axes is None else product(centred, self._axes))


def _digest(entity: dict[str, Any], vector: bytes) -> int:
    text = json.dumps(list(entity.items()), ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    return _number(
        blake2b(data, digest_size=8, key=blake2b(vector, digest_size=16).digest()).digest()
    )


def _hit_text(document: Document, number: int) -> str:
    """The text of a hit, from which a search shows a passage without the index's folder."""
    try:
        text = line_of([hit_json(hit_of(document, number, 0.0, FOUND_BY[MEANING]))]).decode()
    except UnwritableError as error:
        raise InputError(
            f"document {document.id!r:.80}: {error} can't be kept in Milvus; expected "
            "rescore='here', which takes documents from the folder"
        ) from error
    if (size := len(text.encode())) > LONGEST_TEXT:
        raise InputError(
            f"document {document.id!r:.80}: a passage with its columns has {size:,} bytes; Milvus "
            f"takes {LONGEST_TEXT:,} (rescore='here' takes documents from the folder)"
        )
    return text


def hit_from(entity: dict[str, Any], score: float, found_by: str) -> Hit:
    """Parse a hit from its pushed text; raises `CorruptError` if the text is invalid."""
    try:
        (values,) = values_of(entity[HIT].encode())
        return hit_from_json(values | {"score": score, "found_by": found_by})
    except (TypeError, ValueError) as error:
        raise CorruptError(f"milvus: document {entity[ID]!r}: {error}") from error
