"""The engines by name, each with its efforts in the studies that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slimdex.indexes.settings import Settings

from ..machine import not_installed
from .databases import (
    Chroma,
    LanceDb,
    LanceDbLists,
    Leann,
    QdrantEdge,
    QdrantEdgeSmall,
    SqliteVec,
    SqliteVecBits,
)
from .engine import CHANGES, DOCUMENTS, VECTORS, Ability, Engine
from .libraries import (
    GRAPH_LINKS,
    RESCORED,
    Faiss,
    Hnswlib,
    RabitqGraph,
    Usearch,
)
from .slimdex_engine import Slimdex, SlimdexEngine

SLIMDEX = "slimdex"
"""Name of slimdex as it is by default."""
CANDIDATES = (50, 100, 200, 300, 400, 800, 1600, 3200)
GRAPH_EFFORTS = (16, 32, 64, 96, 128, 192, 256, 512)
LIST_EFFORTS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Efforts to measure, equally many for each kind: candidates, of graphs and of lists."""
USUAL = (0,)
"""The library's own effort alone."""


@dataclass(frozen=True)
class Library:
    """An entry of the table.

    Attributes
    ----------
    make : imports the library; the object is an `Engine` if it can find vectors, and otherwise a
        `Database`.
    packages : required packages.
    efforts : what it can do, each with the efforts to measure, in ascending order; 0 is the
        library's own. For `DOCUMENTS`, only the first one that finds enough.
    in_files : whether the index is searched in files rather than in memory.
    callers : whether several threads may search.
    processes : whether several may have it open.
    """

    make: Callable[[], Any]
    packages: tuple[str, ...]
    efforts: Mapping[Ability, tuple[int, ...]]
    in_files: bool = False
    callers: bool = True
    processes: bool = True


def _vectors(
    package: str, make: Callable[[], Engine], efforts: tuple[int, ...], *, in_files: bool = False
) -> Library:
    return Library(make, (package,), {VECTORS: efforts}, in_files)


def _faiss_lists(codes: str, rotation: str = "") -> Library:
    """FAISS's lists over codes, whose candidates fp16 rows in memory score again.

    `rotation` is the prefix of the factory string for codes that require rotated rows.
    """
    factory = f"{rotation}IVF{{lists}},{codes},Refine(SQfp16)"
    parameters = f"nprobe={{}},k_factor_rf={RESCORED // 10}"
    return _vectors("faiss-cpu", lambda: Faiss(factory, parameters), LIST_EFFORTS)


LIBRARIES: dict[str, Library] = {
    SLIMDEX: Library(Slimdex, (), {DOCUMENTS: USUAL, CHANGES: USUAL}),
    f"{SLIMDEX} by vectors": Library(
        lambda: Slimdex(Settings()), (), {DOCUMENTS: (*USUAL, *CANDIDATES)}
    ),
    "hnswlib": _vectors("hnswlib", Hnswlib, GRAPH_EFFORTS),
    "usearch f32": _vectors("usearch", lambda: Usearch("f32"), GRAPH_EFFORTS),
    "usearch i8": _vectors("usearch", lambda: Usearch("i8"), GRAPH_EFFORTS),
    "usearch f32 mapped": _vectors(
        "usearch", lambda: Usearch("f32", mapped=True), GRAPH_EFFORTS, in_files=True
    ),
    "FAISS HNSW": _vectors(
        "faiss-cpu", lambda: Faiss(f"HNSW{GRAPH_LINKS}", "efSearch={}"), GRAPH_EFFORTS
    ),
    "FAISS IVF-PQ": _faiss_lists("PQ{half}x4fs"),
    "FAISS IVF-RaBitQ": _faiss_lists("RaBitQfs", rotation="RR,"),
    "SymphonyQG": _vectors("rabitqlib", RabitqGraph, GRAPH_EFFORTS),
    "SQLite": Library(SqliteVec, ("sqlite-vec", "apsw"), {CHANGES: USUAL}),
    "Chroma": Library(
        Chroma,
        ("chromadb",),
        {VECTORS: GRAPH_EFFORTS, DOCUMENTS: (100, 200, 400, 800), CHANGES: USUAL},
        in_files=True,
    ),
    "LanceDB": Library(
        LanceDb,
        ("lancedb", "pyarrow"),
        {VECTORS: GRAPH_EFFORTS, DOCUMENTS: (*USUAL, *GRAPH_EFFORTS[1:]), CHANGES: USUAL},
        in_files=True,
    ),
    "LanceDB IVF-PQ": Library(
        LanceDbLists, ("lancedb", "pyarrow"), {VECTORS: LIST_EFFORTS}, in_files=True
    ),
    "Qdrant edge": Library(
        QdrantEdge,
        ("qdrant-edge-py",),
        {VECTORS: GRAPH_EFFORTS, DOCUMENTS: (*USUAL, *GRAPH_EFFORTS[1:])},
        in_files=True,
        processes=False,
    ),
    "Qdrant edge int8": _vectors("qdrant-edge-py", QdrantEdgeSmall, GRAPH_EFFORTS, in_files=True),
    "sqlite-vec": Library(
        SqliteVec, ("sqlite-vec", "apsw"), {VECTORS: USUAL, DOCUMENTS: USUAL}, in_files=True
    ),
    "sqlite-vec bits": Library(
        SqliteVecBits, ("sqlite-vec", "apsw"), {VECTORS: CANDIDATES}, in_files=True
    ),
    "LEANN": Library(Leann, ("leann",), {DOCUMENTS: USUAL}, callers=False),
}


def names_of(ability: Ability) -> list[str]:
    """Names of the libraries that can do what is asked."""
    return [name for name, library in LIBRARIES.items() if ability in library.efforts]


def finds_in_files(name: str) -> bool:
    """Return whether a library searches files; False for an unknown name."""
    library = LIBRARIES.get(name)
    return library is not None and library.in_files


def missing(names: Iterable[str]) -> dict[str, str]:
    """Map the libraries that are not installed to the packages to install."""
    return not_installed({name: LIBRARIES[name].packages for name in names})


def packages_of(names: Iterable[str]) -> list[str]:
    """Packages of some libraries."""
    return sorted({package for name in names for package in LIBRARIES[name].packages})


@dataclass(frozen=True)
class Method:
    """A way to keep and search vectors; each of its efforts becomes a row of results.

    Parameters
    ----------
    name : its name in tables.
    settings : of slimdex; None for a peer, which is then `name` in `LIBRARIES`.
    efforts : candidates of slimdex, or the peer's own unit.
    """

    name: str
    settings: Settings | None = None
    efforts: tuple[int, ...] = USUAL

    @classmethod
    def of_peer(cls, name: str) -> Method:
        """Create the method of a peer, with its efforts."""
        return cls(name, None, LIBRARIES[name].efforts[VECTORS])

    def make(self) -> Engine:
        """Create the engine, with its library imported and nothing built."""
        if self.settings is not None:
            return SlimdexEngine(self.settings)
        made: Engine = LIBRARIES[self.name].make()
        return made

    def columns(self, effort: int) -> dict[str, Any]:
        """Columns of a row that are known before measuring."""
        row: dict[str, Any] = {"method": self.name, "effort": effort}
        if self.settings is not None:
            row |= self.settings.as_dict() | {"candidates": effort}
        return row
