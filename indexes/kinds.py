"""Index kinds: how a reduced row is kept in RAM, as a FAISS factory string.

Adding one is one `Kind` here, and its name in `KINDS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from .choices import AUTO

POINTS_PER_CENTROID = 39
"""FAISS warns below this many training rows for each centroid."""
PQ_ROWS = 16 * POINTS_PER_CENTROID
"""Rows that 4-bit product quantisation (16 centroids) needs to be trained well."""
PQ_MOST_ROWS = 16 * 256
"""Rows that FAISS's k-means for 16 centroids looks at, out of however many it is given."""
TRAINING_ROWS = 65_536
"""Rows that any other kind is trained on, at most."""


@dataclass(frozen=True)
class Kind:
    """One way to keep rows.

    Parameters
    ----------
    name : the word on the command line.
    summary : one line for people.
    factory : (k, rows at training) -> FAISS factory string.
    min_rows : rows needed to train it.
    multiple : k must be a multiple of this.
    max_rows : rows to train it on, at most.
    by_distance : whether rows are compared by squared distance, and not by inner product.
    """

    name: str
    summary: str
    factory: Callable[[int, int], str]
    min_rows: int = 1
    multiple: int = 1
    max_rows: int = TRAINING_ROWS
    by_distance: bool = False

    def subquantizers(self, k: int, rows: int) -> int:
        """Into how many runs of dimensions a row is cut, each with a codebook; 1 if not at all.

        >>> PQ.subquantizers(192, 5000), from_factory("IVF64,PQ16x8").subquantizers(64, 5000)
        (48, 16)
        >>> from_factory("PLSQ8x6x4fs_Nlsq2x4").subquantizers(64, 5000)
        8
        >>> SQ8.subquantizers(192, 5000), from_factory("PQ5").subquantizers(192, 5000)
        (1, 1)
        """
        found = re.search(r"(?:^|,)P(?:Q|RQ|LSQ)(\d+)", self.factory(k, rows))
        groups = int(found[1]) if found else 1
        return groups if k % groups == 0 else 1


def ivf_lists(rows: int) -> int:
    """Inverted lists for so many rows: 2 sqrt(n), fewer where they could not be trained."""
    return max(1, min(round(2 * math.sqrt(rows)), rows // POINTS_PER_CENTROID))


FLAT = Kind("flat", "float32, exact: 4k bytes a row", lambda k, n: "Flat")
FP16 = Kind("fp16", "float16: 2k bytes a row", lambda k, n: "SQfp16")
SQ8 = Kind("sq8", "8 bits a dimension: k bytes a row", lambda k, n: "SQ8")
SQ4 = Kind("sq4", "4 bits a dimension: k/2 bytes a row", lambda k, n: "SQ4")
PQ = Kind(
    "pq",
    "4 bits for every 4 dimensions: k/8 bytes a row",
    lambda k, n: f"PQ{k // 4}x4fs",
    min_rows=PQ_ROWS,
    multiple=4,
    max_rows=PQ_MOST_ROWS,
)
PQ_L2 = Kind(
    "pq-l2",
    "pq that keeps scores, not rows: the same bytes, better order without rescoring",
    PQ.factory,
    min_rows=PQ.min_rows,
    multiple=PQ.multiple,
    max_rows=PQ.max_rows,
    by_distance=True,
)
"""Decoded rows are shorter than the unit rows that they stand for, each by another share, so that
inner products put rows last that are coded worst. Two things lessen that: a distance takes part of
it off again, since it has the decoded row's own length in it (Jegou et al. 2011, "Product
Quantization for Nearest Neighbor Search", section III), and codes keep the error along the row
small (`score_aware`)."""
RABITQ = Kind("rabitq", "1 bit a dimension and 8 bytes: k/8 + 8 a row", lambda k, n: "RaBitQ")
IVF_PQ = Kind(
    "ivf-pq",
    "inverted lists over pq: k/8 + 8 bytes a row, for millions of rows",
    lambda k, n: f"IVF{ivf_lists(n)},PQ{k // 4}x4fs",
    min_rows=PQ_ROWS,
    multiple=4,
)
HNSW = Kind("hnsw", "float32 and a graph: 4k + 272 bytes a row", lambda k, n: "HNSW32")


def from_factory(factory: str) -> Kind:
    """A kind from any FAISS factory string, used as it is."""
    return Kind(factory, "a FAISS factory string", lambda k, n: factory)


KINDS = {kind.name: kind for kind in (FLAT, FP16, SQ8, SQ4, PQ, PQ_L2, RABITQ, IVF_PQ, HNSW)}
"""Name -> kind, as the command line lists them."""


LISTS_FROM = 2_000_000
"""Rows from which `auto` makes inverted lists.

With fewer, to go through all codes takes little longer than through the half of them that finds as
many neighbours: of 1.18 million rows 2.9 ms, in which one thread reads their 24 bytes each from
memory, and 2.3 ms.
"""


def by_size(rows: int) -> Kind:
    """What `auto` is for so many rows.

    >>> by_size(60_000).name, by_size(10_000_000).name
    ('pq', 'ivf-pq')
    """
    return IVF_PQ if rows >= LISTS_FROM else PQ


def kind_named(name: str, rows: int = 0) -> Kind:
    """A kind of ours, or any FAISS factory string as it is; `auto` goes by the rows.

    >>> kind_named("pq").factory(192, 5000)
    'PQ48x4fs'
    >>> kind_named("pq-l2").factory(192, 5000), kind_named("pq-l2").by_distance
    ('PQ48x4fs', True)
    >>> kind_named("OPQ16,PQ16").factory(64, 5000)
    'OPQ16,PQ16'
    """
    if name == AUTO:
        return by_size(rows)
    return KINDS.get(name) or from_factory(name)
