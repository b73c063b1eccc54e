"""Workload: how many documents of which kind are to be searched, and on which machines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slimdex.indexes.choices import AUTO
from slimdex.indexes.errors import InputError
from slimdex.indexes.kinds import IVF_PQ, PQ, by_size, ivf_lists

from .laws import Observation

MOST = 1e13
"""Documents that a plan is made for, at most: the web has fewer pages."""
STORED = ("fp16", "int8")
PLANNED = (AUTO, PQ.name, IVF_PQ.name)
"""Kinds whose rows are measured by `slimdex bench sizes`."""
BYTES_PER_TOKEN = 4
"""Of English text, where nothing else is said of its length."""
TERMS = {
    "once": "1",
    "rows": "documents",
    "dim": "d",
    "kept": "k",
    "ids": "if there are lists",
    "reducer": "d k",
    "metric": "d²",
    "centroids": "lists k",
    "lists": "lists",
    "numbers": "documents d",
    "scatter": "documents d²",
    "products": "documents d k",
    "assigned": "documents lists k",
    "text": "bytes of texts and columns",
    "parts": "bytes of these two",
}
"""Terms of laws, as people read them."""


@dataclass(frozen=True)
class Workload:
    """What is to be searched.

    Parameters
    ----------
    documents : how many, or passages where texts are cut: each has a vector.
    dim : of the encoder's vectors.
    k : dimensions that are kept of them; None: half.
    kind : pq, ivf-pq, or auto: by the documents.
    tokens : of a document, that are encoded; 0: vectors are given.
    text_bytes : of a document on disk, its columns among them.
    stored : fp16 or int8, how full vectors are kept.

    Raises
    ------
    InputError
        If a number can't be one of documents, dimensions, tokens or bytes.

    >>> Workload(1_000_000, 384).resolved_kind, Workload(10_000_000, 384).lists
    ('pq', 6325)
    """

    documents: int
    dim: int
    k: int | None = None
    kind: str = AUTO
    tokens: float = 100
    text_bytes: float = 400
    stored: str = "fp16"

    def __post_init__(self) -> None:
        check_range("--documents", self.documents, 1000, MOST)
        check_range("--dim", self.dim, 16, 65_536)
        if self.k is not None:
            check_range("--k", self.k, 4, self.dim)
        check_range("--tokens", self.tokens, 0, 1e6)
        check_range("bytes a document", self.text_bytes, 0, 1e9)
        for name, value, allowed in (
            ("--kind", self.kind, PLANNED),
            ("--stored", self.stored, STORED),
        ):
            if value not in allowed:
                raise InputError(f"{name} {value!r}; expected {', '.join(allowed)}")

    @property
    def kept(self) -> int:
        """Dimensions that are kept, a multiple of 4."""
        return max(4, (self.dim // 2 if self.k is None else self.k) // 4 * 4)

    @property
    def resolved_kind(self) -> str:
        """What auto is for so many documents."""
        return by_size(self.documents).name if self.kind == AUTO else self.kind

    @property
    def lists(self) -> int:
        """Inverted lists; 0 of a kind without them."""
        return ivf_lists(self.documents) if self.resolved_kind == IVF_PQ.name else 0

    def terms(self) -> dict[str, float]:
        """Everything that a figure can grow with; each law takes some of them."""
        n, d, k, lists = float(self.documents), float(self.dim), float(self.kept), float(self.lists)
        return {
            "once": 1.0,
            "rows": n,
            "dim": d,
            "kept": k,
            "ids": 1.0 if lists else 0.0,
            "reducer": d * k,
            "metric": d * d,
            "centroids": lists * k,
            "lists": lists,
            "numbers": n * d,
            "scatter": n * d * d,
            "products": n * d * k,
            "assigned": n * lists * k,
            "text": n * self.text_bytes,
        }

    def seen(self, value: float, names: tuple[str, ...]) -> Observation:
        """A figure that was measured of it, for a law of some terms."""
        terms = self.terms()
        return Observation(value, {name: terms[name] for name in names})


@dataclass(frozen=True)
class Machine:
    """One of those that there are.

    Attributes
    ----------
    ram : bytes that an index may take.
    cores : that build.
    """

    ram: int
    cores: int

    def __post_init__(self) -> None:
        check_range("--ram", self.ram, 1e6, 1e16)
        check_range("--cores", self.cores, 1, 100_000)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise `InputError` unless a number is finite and lies between the two, ends included."""
    if not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{name} {value:,g}; expected {least:,g} to {most:,g}")
