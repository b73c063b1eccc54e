"""Registry of reducers. To add one, name its class here, in the order of `options.REDUCERS`.

A class is imported when it is used: most indexes need one of them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from slimdex.indexes import options as choices

from ..errors import CorruptError
from ..tensors import load_tensors
from .reducer import Reducer

PLACES = (
    "linear.Whitening",
    "linear.Pca",
    "linear.AllButTheTop",
    "autoencoder.TiedAutoencoder",
    "flow.Flow",
    "linear.Identity",
    "linear.Truncate",
    "linear.RandomProjection",
)


def reducer_class(name: str) -> type[Reducer]:
    """Import the class of a reducer by its name, one of `options.REDUCERS`.

    >>> reducer_class("pca").__name__
    'Pca'
    """
    module, _, class_name = PLACES[choices.REDUCERS.index(name)].partition(".")
    reducer: type[Reducer] = getattr(import_module(f".{module}", __package__), class_name)
    return reducer


def load_reducer(path: Path) -> Reducer:
    """Load a saved reducer; raise `CorruptError` if its class is unknown."""
    name, _, _ = load_tensors(path)
    if name not in choices.REDUCERS:
        expected = ", ".join(choices.REDUCERS)
        raise CorruptError(f"{path}: holds {name!r}; expected one of {expected}")
    return reducer_class(name).load(path)
