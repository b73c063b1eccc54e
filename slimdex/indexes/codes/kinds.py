"""Index kinds: encodings of reduced rows in memory, as FAISS factory strings.

To add a kind, define a `Kind` here and list it in `KINDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..options import AUTO

POINTS_PER_CENTROID = 39
"""FAISS warns below this many training rows for each centroid."""
PQ_ROWS = 16 * POINTS_PER_CENTROID
"""Rows needed to train 4-bit product quantisation (16 centroids) well."""
PQ_MOST_ROWS = 16 * 256
"""Largest training set that FAISS's k-means uses for 16 centroids."""
TRAINING_ROWS = 65_536
"""Largest training set of other kinds, unless inverted lists need more."""
TRAINING_ROWS_OF_LIST = 64
"""Training rows for each inverted list."""
LIST_ROWS = 4096
"""Rows of an inverted list in a large index; each list that a search scans costs it some time."""


@dataclass(frozen=True)
class Kind:
    """Encoding of rows in memory.

    Parameters
    ----------
    name : as on the command line.
    factory : (k, rows at training) -> FAISS factory string.
    min_rows : smallest training set.
    multiple : dimensions of a subspace with its own codebook; k must be a multiple of this.
    max_rows : largest training set, unless inverted lists need more.
    by_distance : compare rows by squared distance instead of inner product.
    """

    name: str
    factory: Callable[[int, int], str]
    min_rows: int = 1
    multiple: int = 1
    max_rows: int = TRAINING_ROWS
    by_distance: bool = False

    def dimensions(self, dim: int) -> int:
        """Dimensions kept by default: half of the encoder's, rounded down to a `multiple`.

        At least one `multiple`, or all dimensions of an encoder that has fewer.

        >>> PQ.dimensions(384), PQ.dimensions(100), SQ8.dimensions(42)
        (192, 48, 21)
        """
        half = dim // 2 // self.multiple * self.multiple
        return half or min(self.multiple, dim)

    def subquantizers(self, k: int) -> int:
        """Number of subspaces with their own codebooks; 1 without product quantisation.

        >>> PQ.subquantizers(192), SQ8.subquantizers(192)
        (48, 1)
        """
        return k // self.multiple if self.multiple > 1 else 1


def ivf_lists(rows: int) -> int:
    """Number of inverted lists for n rows.

    A quarter of the square root of the rows; in a large index, one for each `LIST_ROWS` rows.

    >>> ivf_lists(100_000), ivf_lists(1_183_499), ivf_lists(10_000_000)
    (79, 289, 2441)
    """
    return max(1, round(math.sqrt(rows) / 4), round(rows / LIST_ROWS))


def nprobe(lists: int) -> int:
    """Number of lists that a search scans: the more lists there are, the smaller their share.

    So few and many lists find the same share of the nearest (docs/research/codes.md).

    >>> [nprobe(lists) for lists in (1, 16, 289, 1024)]
    [1, 16, 185, 448]
    """
    return min(round(3.5 * math.pow(lists, 0.7)), lists)


FLAT = Kind("flat", lambda k, n: "Flat")
FP16 = Kind("fp16", lambda k, n: "SQfp16")
SQ8 = Kind("sq8", lambda k, n: "SQ8")
SQ4 = Kind("sq4", lambda k, n: "SQ4")
PQ = Kind(
    "pq",
    lambda k, n: f"PQ{k // 4}x4fs",
    min_rows=PQ_ROWS,
    multiple=4,
    max_rows=PQ_MOST_ROWS,
    by_distance=True,
)
"""Decoded rows are shorter than the unit rows they encode, by different amounts, so inner products
rank poorly encoded rows too low. Distances include the decoded row's own length, which reduces this
bias (Jegou et al. 2011, "Product Quantization for Nearest Neighbor Search", section III)."""
RABITQ = Kind("rabitq", lambda k, n: f"RR{k},RaBitQ")
"""A code has one bit for each axis, and the axes of whitening are sorted by variance. So a random
rotation first gives all axes a similar variance (Gao and Long 2024, "RaBitQ", section 3.1.2). FAISS
leaves the rotation to its caller; it is stored with the codes."""
IVF_PQ = Kind(
    "ivf-pq",
    lambda k, n: f"IVF{ivf_lists(n)},PQ{k // 4}x4fs",
    min_rows=PQ_ROWS,
    multiple=4,
    by_distance=True,
)
HNSW = Kind("hnsw", lambda k, n: "HNSW32")


KINDS = {kind.name: kind for kind in (FLAT, FP16, SQ8, SQ4, PQ, RABITQ, IVF_PQ, HNSW)}
"""Name -> kind, in the order of help texts."""


LISTS_FROM = 2_000_000
"""Rows from which `auto` chooses inverted lists.

With half as many, both kinds take about equally long at an agreement of .99, and a row of lists
takes eight bytes more (docs/research/codes.md).
"""


def by_size(rows: int) -> Kind:
    """Return the kind that `auto` selects for this number of rows.

    >>> by_size(60_000).name, by_size(10_000_000).name
    ('pq', 'ivf-pq')
    """
    return IVF_PQ if rows >= LISTS_FROM else PQ


def kind_named(name: str, rows: int = 0) -> Kind:
    """Look up a kind by name; `auto` depends on the rows.

    >>> kind_named("pq").factory(192, 5000), kind_named("pq").by_distance
    ('PQ48x4fs', True)
    """
    return by_size(rows) if name == AUTO else KINDS[name]
