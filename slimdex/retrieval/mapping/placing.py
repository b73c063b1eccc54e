"""Placing: vectors to points of a plane by PaCMAP (Wang, Huang, Rudin and Shaposhnik 2021)."""

from __future__ import annotations

import logging

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex, clusters
from slimdex.indexes.codes.kinds import FLAT

AXES = 96
"""Coordinates that are compared: the first ones, which have most of the variance if whitened."""
NEIGHBOURS = 10
"""Nearest rows that each is drawn to."""
FEWEST = 20
"""Rows below which PaCMAP finds too few pairs; they are shown by two coordinates."""
SEED = 0


def shortened_rows(X: Matrix) -> Matrix:
    """The first `AXES` coordinates of rows (n, k), at unit length."""
    return normalize_rows(np.ascontiguousarray(X[:, :AXES]))


def placed(X: Matrix) -> Matrix:
    """Place unit rows (n, k) so that near ones are near each other (n, 2), from 0 to 1.

    The same rows get the same places.
    """
    if len(X) < FEWEST:
        plane = np.zeros((len(X), 2), dtype=np.float32)
        plane[:, : X.shape[1]] = X[:, :2]
    else:
        import pacmap

        logging.getLogger(pacmap.__name__).setLevel(logging.ERROR)  # it warns of a fixed seed
        neighbours = min(NEIGHBOURS, len(X) // 5)
        model = pacmap.PaCMAP(
            n_neighbors=neighbours,
            pair_neighbors=_pairs(X, neighbours),
            apply_pca=False,
            random_state=SEED,
        )
        plane = model.fit_transform(X)
    low, high = plane.min(axis=0), plane.max(axis=0)
    places: Matrix = (plane - low) / max(float((high - low).max()), 1e-9)
    return places.astype(np.float32)


def regions_of(places: Matrix, count: int) -> Rows:
    """Region of each place (n, 2) by k-means, the region with most places first.

    Clusters of the vectors themselves would lie scattered over the map.
    """
    found = clusters(places, count, SEED)
    order = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    regions: Rows = np.argsort(order)[found]
    return regions


def _pairs(X: Matrix, neighbours: int) -> Rows:
    """Each row and one of its nearest (n * neighbours, 2), by exact search: PaCMAP's own is slow.

    With a seed it would search in one thread.
    """
    index = FaissIndex(FLAT, X.shape[1])
    index.add(X)
    _, found = index.search(X, neighbours + 1)
    rows = np.arange(len(X))
    order = np.argsort(found == rows[:, None], axis=1, kind="stable")[:, :neighbours]
    nearest = np.take_along_axis(found, order, axis=1)
    return np.stack([np.repeat(rows, neighbours), nearest.ravel()], axis=1).astype(np.int32)
