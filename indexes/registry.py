"""What there is to choose from: plain dicts. Adding a reducer or a kind is one line here."""

from __future__ import annotations

from pathlib import Path

from . import kinds
from .autoencoder import TiedAutoencoder
from .errors import CorruptError
from .flow import Flow
from .kinds import Kind
from .linear import AllButTheTop, Identity, Pca, RandomProjection, Truncate, Whitening
from .reducer import Reducer
from .tensors import load_tensors

REDUCERS: dict[str, type[Reducer]] = {
    reducer.name: reducer
    for reducer in (
        Whitening,
        Pca,
        AllButTheTop,
        TiedAutoencoder,
        Flow,
        Identity,
        Truncate,
        RandomProjection,
    )
}

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        kinds.FLAT,
        kinds.FP16,
        kinds.SQ8,
        kinds.SQ4,
        kinds.PQ,
        kinds.RABITQ,
        kinds.IVF_PQ,
        kinds.HNSW,
    )
}


def kind_named(name: str) -> Kind:
    """A kind of ours, or any FAISS factory string as it is.

    >>> kind_named("pq").factory(192, 5000)
    'PQ48x4fs'
    >>> kind_named("OPQ16,PQ16").factory(64, 5000)
    'OPQ16,PQ16'
    """
    return KINDS.get(name) or kinds.from_factory(name)


def load_reducer(path: Path) -> Reducer:
    """The reducer saved in a file; raises `CorruptError` if it is of no known class."""
    name, _, _ = load_tensors(path)
    if name not in REDUCERS:
        raise CorruptError(f"{path}: holds {name!r}; expected one of {', '.join(REDUCERS)}")
    return REDUCERS[name].load(path)
