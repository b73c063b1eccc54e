"""Methods to measure, as plain data that can be sent to another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slimdex.indexes.settings import Settings

from ..machine import not_installed
from .engine import Engine, SlimdexEngine
from .peer_databases import Chroma, DuckDb, LanceDb, QdrantEdge, SqliteVec
from .peer_libraries import (
    GRAPH_LINKS,
    Faiss,
    Hnswlib,
    SentenceTransformers,
    TurboQuant,
    Usearch,
)
from .peer_quantizers import RESCORED, RabitqGraph, RabitqLists, Scann


@dataclass(frozen=True)
class Peer:
    """An entry of the table: required packages, constructor and efforts."""

    packages: tuple[str, ...]
    make: Callable[[], Engine]
    efforts: tuple[int, ...] = (0,)


GRAPH_EFFORTS = (16, 32, 64, 96, 128, 192, 256, 512)
LIST_EFFORTS = (16, 32, 64, 128, 256, 512, 1024)


def _faiss_lists(codes: str) -> Peer:
    """FAISS's lists over codes, whose candidates fp16 rows in memory score again."""
    factory = f"IVF{{lists}},{codes},Refine(SQfp16)"
    parameters = f"nprobe={{}},k_factor_rf={RESCORED // 10}"
    return Peer(("faiss-cpu",), lambda: Faiss(factory, parameters), LIST_EFFORTS)


PEERS: dict[str, Peer] = {
    "hnswlib": Peer(("hnswlib",), Hnswlib, GRAPH_EFFORTS),
    "usearch f32": Peer(("usearch",), lambda: Usearch("f32"), GRAPH_EFFORTS),
    "usearch i8": Peer(("usearch",), lambda: Usearch("i8"), GRAPH_EFFORTS),
    "FAISS HNSW": Peer(
        ("faiss-cpu",), lambda: Faiss(f"HNSW{GRAPH_LINKS}", "efSearch={}"), GRAPH_EFFORTS
    ),
    "FAISS IVF-PQ": _faiss_lists("PQ{half}x4fs"),
    "FAISS IVF-RaBitQ": _faiss_lists("RaBitQfs"),
    "rabitqlib IVF": Peer(("rabitqlib",), RabitqLists, LIST_EFFORTS),
    "SymphonyQG": Peer(("rabitqlib",), RabitqGraph, GRAPH_EFFORTS),
    "ScaNN": Peer(("scann",), Scann, LIST_EFFORTS),
    "Chroma": Peer(("chromadb",), Chroma, (100, 200, 400)),
    "LanceDB": Peer(("lancedb", "pyarrow"), LanceDb, (32, 128, 512)),
    "Qdrant edge": Peer(("qdrant-edge-py",), QdrantEdge, GRAPH_EFFORTS),
    "sqlite-vec": Peer(("sqlite-vec", "apsw"), SqliteVec),
    "DuckDB arrays": Peer(("duckdb", "pyarrow"), DuckDb),
    "turboquant-pro": Peer(("turboquant-pro",), TurboQuant, (0, 2, 5, 10, 20)),
    "ST int8": Peer(
        ("sentence-transformers", "usearch"), lambda: SentenceTransformers("int8"), (0, 4)
    ),
    "ST binary": Peer(("sentence-transformers",), lambda: SentenceTransformers("ubinary"), (0, 4)),
}


def missing_peers() -> dict[str, str]:
    """Map missing peers to the packages to install."""
    return not_installed({name: peer.packages for name, peer in PEERS.items()})


def packages_of(names: Iterable[str]) -> list[str]:
    """Packages of some peers."""
    return sorted({package for name in names for package in PEERS[name].packages})


@dataclass(frozen=True)
class Method:
    """A way to keep and search vectors; each of its efforts becomes a row of results.

    Parameters
    ----------
    name : its name in tables.
    settings : of slimdex; None for a peer, which is then `name` in `PEERS`.
    efforts : candidates of slimdex, or the peer's own unit.
    """

    name: str
    settings: Settings | None = None
    efforts: tuple[int, ...] = (0,)

    @classmethod
    def of_peer(cls, name: str) -> Method:
        """Create the method of a peer, with its efforts."""
        return cls(name, None, PEERS[name].efforts)

    def make(self) -> Engine:
        """Create the engine, with its library imported and nothing built."""
        return PEERS[self.name].make() if self.settings is None else SlimdexEngine(self.settings)

    def columns(self, effort: int) -> dict[str, Any]:
        """Columns of a row that are known before measuring."""
        row: dict[str, Any] = {"method": self.name, "effort": effort}
        if self.settings is not None:
            row |= self.settings.as_dict() | {"candidates": effort}
        return row
