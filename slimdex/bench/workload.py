"""Workload: documents to search, and the bytes of their index by the formulas of docs/plan.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slimdex.indexes.codes.kinds import IVF_PQ, KINDS, PQ, by_size, ivf_lists
from slimdex.indexes.errors import InputError
from slimdex.indexes.options import AUTO

LEAST, MOST = 1000, 10**13
"""Limits of the documents of a plan."""
STORED = ("fp16", "int8")
PLANNED = (AUTO, PQ.name, IVF_PQ.name)
"""Kinds that have formulas."""
BYTES_PER_TOKEN = 4
"""Average for English text."""
FLOAT32, FLOAT64, INT64 = 4, 8, 8
SCALED_TOGETHER, SCALE = 32, 2
"""Numbers of an int8 vector that share a scale, and the scale's bytes."""
CENTROIDS, CODED_TOGETHER, CODE_BITS = 16, 4, 4
"""Product quantisation: centroids of a codebook, dimensions that share one, bits of a code."""
PADDED_TO = 32
"""Rows of FAISS's blocks of codes; the last block of a list is half full on average."""
LIST_LENGTHS = 2 * INT64
"""Bytes of a list besides its rows and centre."""
LINE, OFFSET = 11, 16
"""Bytes of JSON around a document's id, title and text, and of the offset of its line."""
WORD_SHARE, WORD_BYTES = 4, 30
"""Bytes of text per byte of the lexical index, and its bytes for a document: about those of English
texts."""
EMPTY_SEGMENT, BLOCKS = 45_000, 1.05
"""Bytes of DuckDB's tables, however few documents they have, and those of blocks per byte."""


@dataclass(frozen=True)
class Workload:
    """Documents, and settings of their index.

    Parameters
    ----------
    documents : number of documents, or of passages if texts are cut: each has a vector.
    dim : of the encoder's vectors.
    tokens : of a document.
    columns : bytes of a document's title and metadata.
    k : reduced dimensions; by default half of the encoder's.
    kind : pq, ivf-pq, or auto: by the number of documents.
    vector_dtype : type of full vectors, fp16 or int8.
    lexical : whether there is a lexical index.
    tokens_per_s : tokens that are encoded per second; None if unknown.

    Raises
    ------
    InputError
        If a value is out of bounds.

    >>> Workload(100_000).resolved_kind, Workload(10_000_000).lists
    ('pq', 2441)
    """

    documents: int
    dim: int = 384
    tokens: float = 100
    columns: float = 0
    k: int | None = None
    kind: str = AUTO
    vector_dtype: str = "fp16"
    lexical: bool = True
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        check_range("--documents", self.documents, LEAST, MOST)
        check_range("--dim", self.dim, 16, 65_536)
        check_range("--tokens", self.tokens, 1, 1e6)
        check_range("--columns", self.columns, 0, 1e9)
        if self.tokens_per_s is not None:
            check_range("--tokens-per-s", self.tokens_per_s, 1e-3, 1e12)
        if self.k is not None:
            check_range("--k", self.k, CODED_TOGETHER, self.dim)
            if self.k % CODED_TOGETHER:
                raise InputError(f"--k {self.k}; expected a multiple of {CODED_TOGETHER}")
        for name, value, allowed in (
            ("--kind", self.kind, PLANNED),
            ("--vector-dtype", self.vector_dtype, STORED),
        ):
            if value not in allowed:
                raise InputError(f"{name} {value!r}; expected {', '.join(allowed)}")

    @property
    def kept(self) -> int:
        """Reduced dimensions."""
        return KINDS[self.resolved_kind].dimensions(self.dim) if self.k is None else self.k

    @property
    def resolved_kind(self) -> str:
        """Kind of index, chosen by the number of documents if it is auto."""
        return by_size(self.documents).name if self.kind == AUTO else self.kind

    @property
    def lists(self) -> int:
        """Number of inverted lists; 0 for a kind without them."""
        return ivf_lists(self.documents) if self.resolved_kind == IVF_PQ.name else 0

    @property
    def memory(self) -> float:
        """Bytes of the index in memory: codes, reducer and metric."""
        return self._codes + self._reducer + self._metric

    @property
    def disk(self) -> float:
        """Bytes of the index's folder."""
        return sum(self.files.values())

    @property
    def hours(self) -> float | None:
        """Hours of encoding; None if unknown.

        >>> Workload(36_000_000, tokens=50, tokens_per_s=1e4).hours
        50.0
        """
        if self.tokens_per_s is None:
            return None
        return self.documents * self.tokens / self.tokens_per_s / 3600

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values."""
        return {
            "documents": self.documents,
            "dim": self.dim,
            "k": self.kept,
            "kind": self.resolved_kind,
            "lists": self.lists,
            "stored": self.vector_dtype,
            "tokens": self.tokens,
            "columns": self.columns,
            "tokens_per_s": self.tokens_per_s,
            "memory_bytes": round(self.memory),
            "disk_bytes": round(self.disk),
            "files": {name: round(size) for name, size in self.files.items()},
            "encoding_hours": self.hours,
        }

    @property
    def files(self) -> dict[str, float]:
        """Start of a file's name -> its bytes."""
        n, id_bytes = self.documents, len(str(self.documents))
        said = BYTES_PER_TOKEN * self.tokens + self.columns + id_bytes
        words = {"words": n * (said / WORD_SHARE + WORD_BYTES)} if self.lexical else {}
        return {
            "vectors": n * self._vector,
            "norms": n * FLOAT32,
            "codes": self._codes,
            "reducer": self._reducer,
            "rescorer": self._metric,
            "moments": FLOAT64 * (self.dim + 1) * self.dim,
            "documents": n * (said + LINE),
            "offsets": n * OFFSET,
            "segment": BLOCKS * n * (said + INT64) + EMPTY_SEGMENT,
        } | words

    @property
    def _vector(self) -> float:
        if self.vector_dtype == "fp16":
            return 2 * self.dim
        return self.dim + SCALE * math.ceil(self.dim / SCALED_TOGETHER)

    @property
    def _codes(self) -> float:
        """Bytes of codes with the padding of each list, codebooks, and ids, centres and lengths of
        lists."""
        code = math.ceil(self.kept / CODED_TOGETHER * CODE_BITS / 8)
        codebooks = CENTROIDS * FLOAT32 * self.kept
        padded = code * (self.documents + PADDED_TO / 2 * max(self.lists, 1))
        ids = INT64 * self.documents if self.lists else 0
        return padded + codebooks + ids + self.lists * (FLOAT32 * self.kept + LIST_LENGTHS)

    @property
    def _reducer(self) -> float:
        return FLOAT32 * (self.kept + 1) * self.dim

    @property
    def _metric(self) -> float:
        return FLOAT32 * (self.dim + 1) * self.dim


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise `InputError` unless a number is finite and within the limits."""
    if not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name} {value:,g}; expected {least:,g} to {most:,g}")
