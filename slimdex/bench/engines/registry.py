"""The engines by name, and the methods of the studies that measure vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slimdex.indexes.settings import Settings

from ..machine import not_installed
from . import databases, libraries
from .engine import USUAL, Ability, Database, Engine
from .slimdex_engine import Slimdex, SlimdexByVectors, SlimdexEngine

SLIMDEX = "slimdex"
"""Name of slimdex as it is by default."""
UNCOMPRESSED = "float32"
LIBRARIES: dict[str, type[Engine]] = {
    SLIMDEX: Slimdex,
    f"{SLIMDEX} by vectors": SlimdexByVectors,
    "hnswlib": libraries.Hnswlib,
    "usearch f32": libraries.Usearch,
    "usearch i8": libraries.UsearchInt8,
    "usearch f32 mapped": libraries.MappedUsearch,
    "FAISS HNSW": libraries.FaissGraph,
    "FAISS IVF-PQ": libraries.FaissPq,
    "FAISS IVF-RaBitQ": libraries.FaissRabitq,
    "SymphonyQG": libraries.RabitqGraph,
    "Chroma": databases.Chroma,
    "LanceDB": databases.LanceDb,
    "LanceDB IVF-PQ": databases.LanceDbLists,
    "Qdrant edge": databases.QdrantEdge,
    "Qdrant edge int8": databases.QdrantEdgeSmall,
    "sqlite-vec": databases.SqliteVec,
    "sqlite-vec bits": databases.SqliteVecBits,
    "LEANN": databases.Leann,
}
"""Libraries by name; those that find documents are a `Database`."""


def database(name: str) -> Database:
    """Create a library that finds documents, with nothing open."""
    library = LIBRARIES[name]()
    assert isinstance(library, Database)
    return library


def libraries_for(ability: Ability) -> list[str]:
    """Names of the libraries that can do what is asked."""
    return [name for name, library in LIBRARIES.items() if library.efforts(ability)]


def missing(names: Iterable[str]) -> dict[str, str]:
    """Map the libraries that are not installed to the packages to install."""
    return not_installed({name: LIBRARIES[name].packages for name in names})


def packages_of(names: Iterable[str]) -> list[str]:
    """Packages of some libraries."""
    packages = set[str]()
    for name in names:
        packages.update(LIBRARIES[name].packages)
    return sorted(packages)


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
        return cls(name, None, LIBRARIES[name].for_vectors)

    def make(self) -> Engine:
        """Create the engine, with its library imported and nothing built."""
        if self.settings is not None:
            return SlimdexEngine(self.settings)
        return LIBRARIES[self.name]()

    def columns(self, effort: int) -> dict[str, Any]:
        """Columns of a row that are known before measuring."""
        row: dict[str, Any] = {"method": self.name, "effort": effort}
        if self.settings is not None:
            row |= self.settings.as_dict() | {"candidates": effort}
            del row["query_encoder"]  # queries are vectors
        return row


def exact_method(dim: int) -> Method:
    """Exact float32 search, the reference for all methods."""
    return Method(UNCOMPRESSED, exact_settings(dim), (0,))


def exact_settings(dim: int) -> Settings:
    """Settings of an exact search by the encoder's cosines."""
    return Settings(k=dim, beta=0.0, gamma=0.0, kind="flat", candidates=0, reducer="identity")


def part(dim: int, of: int, share: int = 1) -> int:
    """Return the fraction share/of of the dimensions, as a multiple of 4, which `pq` requires.

    >>> part(384, 2), part(384, 3, share=2), part(312, 8)
    (192, 256, 36)
    """
    return max(dim * share // of // 4 * 4, 4)
