"""Registry of reducers. To add one, list its class here and its name in `choices`."""

from __future__ import annotations

from pathlib import Path

from .. import options as choices
from ..errors import CorruptError
from ..tensors import load_tensors
from .autoencoder import TiedAutoencoder
from .flow import Flow
from .linear import AllButTheTop, Identity, Pca, RandomProjection, Truncate, Whitening
from .reducer import Reducer

CLASSES: tuple[type[Reducer], ...] = (
    Whitening,
    Pca,
    AllButTheTop,
    TiedAutoencoder,
    Flow,
    Identity,
    Truncate,
    RandomProjection,
)
REDUCERS = dict(zip(choices.REDUCERS, CLASSES, strict=True))
"""Name -> class."""


def load_reducer(path: Path) -> Reducer:
    """Load a saved reducer; raise `CorruptError` if its class is unknown."""
    name, _, _ = load_tensors(path)
    if name not in REDUCERS:
        raise CorruptError(f"{path}: holds {name!r}; expected one of {', '.join(REDUCERS)}")
    return REDUCERS[name].load(path)
