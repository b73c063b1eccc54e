"""Semantic search in a fraction of the memory.

>>> import slimdex
>>> "Collection" in slimdex.__all__
True

Of its subpackages, `indexes` knows numbers, `retrieval` knows documents, and `bench` runs
experiments on both. Programs import the names listed here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .indexes.errors import CorruptError as CorruptError
    from .indexes.errors import InputError as InputError
    from .indexes.errors import InUseError as InUseError
    from .indexes.errors import SlimdexError as SlimdexError
    from .indexes.reducers.linear import Whitening as Whitening
    from .indexes.settings import Settings as Settings
    from .retrieval.cluster.milvus_search import MilvusCollection as MilvusCollection
    from .retrieval.collection import Collection as Collection
    from .retrieval.documents import Document as Document
    from .retrieval.documents import Hit as Hit
    from .retrieval.documents import Part as Part
    from .retrieval.encoders.adapters import GivenEncoder as GivenEncoder
    from .retrieval.encoders.over_http.http_encoder import HttpEncoder as HttpEncoder
    from .retrieval.encoders.transformer import TransformerEncoder as TransformerEncoder
    from .retrieval.encoders.word_vectors.static_encoder import StaticEncoder as StaticEncoder
    from .retrieval.exporting.document_map import write_map as write_map
    from .retrieval.exporting.export import export as export
    from .retrieval.quality.targets import Target as Target
    from .retrieval.remote_collection import RemoteCollection as RemoteCollection
    from .retrieval.search.request import SearchRequest as SearchRequest
    from .retrieval.search.reranking import CrossEncoder as CrossEncoder

    __version__: str

_HOMES = {
    "Collection": "retrieval.collection",
    "CorruptError": "indexes.errors",
    "CrossEncoder": "retrieval.search.reranking",
    "Document": "retrieval.documents",
    "GivenEncoder": "retrieval.encoders.adapters",
    "Hit": "retrieval.documents",
    "HttpEncoder": "retrieval.encoders.over_http.http_encoder",
    "InUseError": "indexes.errors",
    "InputError": "indexes.errors",
    "MilvusCollection": "retrieval.cluster.milvus_search",
    "Part": "retrieval.documents",
    "RemoteCollection": "retrieval.remote_collection",
    "SearchRequest": "retrieval.search.request",
    "Settings": "indexes.settings",
    "SlimdexError": "indexes.errors",
    "StaticEncoder": "retrieval.encoders.word_vectors.static_encoder",
    "Target": "retrieval.quality.targets",
    "TransformerEncoder": "retrieval.encoders.transformer",
    "Whitening": "indexes.reducers.linear",
    "export": "retrieval.exporting.export",
    "write_map": "retrieval.exporting.document_map",
}

__all__ = [
    "Collection",
    "CorruptError",
    "CrossEncoder",
    "Document",
    "GivenEncoder",
    "Hit",
    "HttpEncoder",
    "InUseError",
    "InputError",
    "MilvusCollection",
    "Part",
    "RemoteCollection",
    "SearchRequest",
    "Settings",
    "SlimdexError",
    "StaticEncoder",
    "Target",
    "TransformerEncoder",
    "Whitening",
    "__version__",
    "export",
    "write_map",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for: `slimdex --help` must not wait for FAISS and DuckDB."""
    if name == "__version__":
        from importlib.metadata import version

        return version("slimdex")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .indexes.suggestions import with_suggestions

    module = import_module(f".{_HOMES[name]}", __name__)
    setattr(module, name, with_suggestions(getattr(module, name)))
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
