"""Table of document stores and their efforts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slimdex.indexes.settings import Settings
from slimdex.retrieval.encoders.base import Encoder

from ..machine import not_installed
from .document_stores import (
    SLIMDEX,
    Chroma,
    DocumentStore,
    LanceDb,
    QdrantEdge,
    Slimdex,
    SlimdexByVectors,
    SqliteVec,
    Txtai,
)


@dataclass(frozen=True)
class Store:
    """An entry of the table.

    Attributes
    ----------
    packages : required packages.
    efforts : to try in ascending order, until one finds enough.
    default : effort that is always measured; 0 leaves it to the store.
    callers : whether several threads may search.
    processes : whether several may have it open.
    """

    make: Callable[[Encoder], DocumentStore]
    packages: tuple[str, ...] = ()
    efforts: tuple[int, ...] = ()
    default: int = 0
    callers: bool = True
    processes: bool = True


OWN_ORDER = Settings(beta=0.0, gamma=0.0)
"""Metric of the exact search, whose answers are the reference for recall."""
CANDIDATES = (100, 150, 200, 300, 400, 600, 1000, 2000, 4000)
GRAPH_EFFORTS = (32, 64, 96, 128, 192, 256, 512)

STORES: dict[str, Store] = {
    SLIMDEX: Store(Slimdex),
    f"{SLIMDEX} by vectors": Store(lambda encoder: SlimdexByVectors(encoder, Settings())),
    f"{SLIMDEX} own order": Store(
        lambda encoder: SlimdexByVectors(encoder, OWN_ORDER), (), CANDIDATES
    ),
    "Chroma": Store(Chroma, ("chromadb",), (100, 200, 400, 800), 100),
    "LanceDB": Store(LanceDb, ("lancedb", "pyarrow"), GRAPH_EFFORTS),
    "Qdrant edge": Store(QdrantEdge, ("qdrant-edge-py",), GRAPH_EFFORTS, processes=False),
    "sqlite-vec": Store(SqliteVec, ("sqlite-vec", "apsw")),
    "txtai": Store(Txtai, ("txtai",), (16, 32, 64, 128, 256, 512, 1024), callers=False),
}
"""Name -> store; the first is slimdex by default."""


def missing_stores() -> dict[str, str]:
    """Map missing stores to the packages to install."""
    return not_installed({name: store.packages for name, store in STORES.items()})
