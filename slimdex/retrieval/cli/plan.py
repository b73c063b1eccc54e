"""`slimdex plan`: estimate the bytes of an index from its settings and number of documents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from slimdex.errors import InputError
from slimdex.indexes.codes.kinds import IVF_PQ, KINDS, PQ, by_size, ivf_lists
from slimdex.indexes.options import AUTO
from slimdex.system.atomic_files import STORED_ENDINGS

from . import console
from .click_commands import Answer
from .settings import K, NoLexical, Stored

FEWEST_DOCUMENTS = 1000
MOST_DOCUMENTS = 10**13
"""Limits of the documents of a plan."""
PLANNED = (AUTO, PQ.name, IVF_PQ.name)
"""Kinds that have formulas."""
BYTES_PER_TOKEN = 4
"""Average for English text."""
FLOAT32 = 4
FLOAT64 = 8
INT64 = 8
CODED_TOGETHER = 4
"""Dimensions that share a code of product quantisation."""
CODE_BITS = 4
CENTROIDS = 1 << CODE_BITS
"""Centroids of a codebook."""
PADDED_TO = 32
"""Rows of FAISS's blocks of codes; the last block of a list is half full on average."""
LIST_LENGTHS = 2 * INT64
"""Bytes of a list besides its rows and centre."""
LINE = 11
OFFSET = 16
"""Bytes of JSON around a document's id, title and text, and of the offset of its line."""
WORD_SHARE = 4
WORD_BYTES = 30
"""Bytes of text per byte of the lexical index, and its bytes for a document: about those of English
texts."""
EMPTY_SEGMENT = 45_000
BLOCKS = 1.05
"""Bytes of DuckDB's tables, however few documents they have, and those of blocks per byte."""

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True)
class Workload:
    """Documents to plan for, and settings of their index.

    Raises `InputError` if a value is out of bounds.

    >>> Workload(100_000).resolved_kind, Workload(10_000_000).lists
    ('pq', 2441)
    """

    documents: Annotated[float, "How many, as 1e9; count passages if texts are cut into them."]
    dim: Annotated[int, "Dimensions of the encoder's vectors."] = 384
    tokens: Annotated[float, "Tokens of a document, of 4 bytes each."] = 100
    columns: Annotated[float, "Bytes of a document's title and metadata."] = 0
    k: K = None
    kind: Annotated[str, "How vectors are coded: pq, ivf-pq or auto."] = AUTO
    vector_dtype: Stored = "fp16"
    no_lexical: NoLexical = False
    tokens_per_s: Annotated[
        float | None,
        "Tokens that are encoded per second, as `slimdex bench encode` measures; default: "
        "encoding is not timed.",
    ] = None

    def __post_init__(self) -> None:
        check_range("--documents", self.documents, FEWEST_DOCUMENTS, MOST_DOCUMENTS)
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
            ("--vector-dtype", self.vector_dtype, tuple(STORED_ENDINGS)),
        ):
            if value not in allowed:
                raise InputError(f"{name} {value!r}; expected {', '.join(allowed)}")

    @property
    def count(self) -> int:
        """Number of documents."""
        return round(self.documents)

    @property
    def reduced_dim(self) -> int:
        """Reduced dimensions."""
        return KINDS[self.resolved_kind].dimensions(self.dim) if self.k is None else self.k

    @property
    def resolved_kind(self) -> str:
        """Kind of index, chosen by the number of documents if it is auto."""
        return by_size(self.count).name if self.kind == AUTO else self.kind

    @property
    def lists(self) -> int:
        """Number of inverted lists; 0 for a kind without them."""
        return ivf_lists(self.count) if self.resolved_kind == IVF_PQ.name else 0

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
        return self.count * self.tokens / self.tokens_per_s / 3600

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values."""
        return {
            "documents": self.count,
            "dim": self.dim,
            "k": self.reduced_dim,
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
        """Start of a file's name -> its bytes, estimated by the constants of this module."""
        n = self.count
        id_bytes = len(str(self.count))
        content = BYTES_PER_TOKEN * self.tokens + self.columns + id_bytes  # of a document
        words = {} if self.no_lexical else {"words": n * (content / WORD_SHARE + WORD_BYTES)}
        scatter = self.dim * (self.dim + 1) / 2  # of a symmetric matrix
        return {
            "vectors": n * self._vector,
            "norms": n * FLOAT32,
            "codes": self._codes,
            "reducer": self._reducer,
            "rescorer": self._metric,
            "moments": FLOAT64 * (self.dim + scatter),
            "documents": n * (content + LINE),
            "offsets": n * OFFSET,
            "segment": BLOCKS * n * (content + INT64) + EMPTY_SEGMENT,
        } | words

    @property
    def _vector(self) -> int:
        """Bytes of a full vector on disk."""
        from slimdex.indexes.vectors.row_formats import STORED  # numpy, which help must not need

        return STORED[self.vector_dtype].row_bytes(self.dim)

    @property
    def _codes(self) -> float:
        """Bytes of the product-quantisation codes in memory, with or without inverted lists.

        They include the padding of each list and the codebooks. Inverted lists add the rows' ids,
        and the centre and lengths of each list.
        """
        code = math.ceil(self.reduced_dim / CODED_TOGETHER * CODE_BITS / 8)  # of one vector
        codebooks = CENTROIDS * FLOAT32 * self.reduced_dim
        padded = code * (self.count + PADDED_TO / 2 * max(self.lists, 1))
        ids = INT64 * self.count if self.lists else 0
        centre = FLOAT32 * self.reduced_dim
        return padded + codebooks + ids + self.lists * (centre + LIST_LENGTHS)

    @property
    def _reducer(self) -> float:
        return FLOAT32 * (self.reduced_dim + 1) * self.dim

    @property
    def _metric(self) -> float:
        return FLOAT32 * self.dim


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise `InputError` unless a number is finite and within the limits."""
    if not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name} {value:,g}; expected {least:,g} to {most:,g}")


def plan(workload: Workload) -> Answer:
    """Estimate what an index will take: memory, disk, and hours of encoding."""
    return Answer(workload.as_dict(), partial(_show, workload))


def _show(workload: Workload) -> None:
    lists = f" ({workload.lists:,} lists)" if workload.lists else ""
    kind = f"{workload.resolved_kind}{lists}, k={workload.reduced_dim} of {workload.dim}"
    console.line(f"{workload.count:,} documents: {kind}")
    console.show_pairs(_figures(workload))
    for line in _omissions(workload):
        console.line(line)


def _figures(planned: Workload) -> dict[str, str]:
    """Return the figures to show, by name: memory, all files, each file, and hours of encoding."""
    figures = {
        "index in memory": size_text(planned.memory),
        "index on disk": size_text(planned.disk),
    }
    for name, size in planned.files.items():
        figures[f"  {name}"] = size_text(size)
    if planned.hours is not None:
        figures["encoding"] = f"{_digits(planned.hours)} h"
    return figures


def _omissions(planned: Workload) -> list[str]:
    """Say what the figures leave out."""
    lexical = "words (the lexical index)"
    words = f"without {lexical}" if planned.no_lexical else f"{lexical} as of English texts"
    is_timed = planned.hours is not None
    return [
        "memory: codes, reducer and metric; Python, its libraries and the encoder are extra",
        f"disk: documents and segments as if not compressed; {words}",
        "hours: encoding alone; fitting, coding and writing are extra"
        if is_timed
        else "hours: unknown without --tokens-per-s",
    ]


def size_text(size: float) -> str:
    """Format bytes in three digits.

    >>> size_text(56e9), size_text(999.6e6), size_text(1234)
    ('56 GB', '1 GB', '1.23 kB')
    """
    # A size that rounds up to the next unit is shown in that unit: 999.6 MB as 1 GB.
    large_enough = ((unit, scale) for unit, scale in UNITS if size >= scale * 0.9995)
    unit, scale = next(large_enough, UNITS[-1])
    return f"{_digits(size / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"
