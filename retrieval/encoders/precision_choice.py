"""Precision choice: whether a model is worth running in 8 bits on this processor.

It is where that is faster, and the vectors hold: their cosines with those of the float network, and
the ten nearest neighbours of each text, on first sentences of Python's own docstrings. What was
measured is remembered by model and processor.
"""

from __future__ import annotations

import importlib
import inspect
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter, process_time
from typing import Any, Self

import numpy as np

from slimdex.indexes.arrays import Matrix, normalize_rows

from .cache import remember, remembered
from .openvino_runtime import OpenVinoRuntime
from .processor import processor_key
from .streams import Batch

LEAST_GAIN = 1.1
"""Times as fast as in floats: for less, vectors are not made less exact."""
LEAST_COSINE, LEAST_AGREEMENT = 0.999, 0.95
"""The bound, of the mean over texts."""
NEIGHBOURS = 10
LIMIT_S = 1.0
"""For measuring; to compile the model in 8 bits comes to it."""
TEXTS, FEWEST_TEXTS = 64, 48
"""Encoded, and how many of them have to be for their neighbours to say much."""
TIMED_BATCHES = 4
MODULES = ("builtins", "os", "math", "pathlib", "re", "shutil", "subprocess", "threading")
"""Whose docstrings, and their classes' members', are the texts."""

Tokenised = Callable[[Sequence[str]], Sequence[Batch]]
"""Batches (ids and mask) of texts, in any order."""


@dataclass(frozen=True)
class Measured:
    """A network in 8 bits beside the same in floats.

    Attributes
    ----------
    gain : times as fast.
    cosine : of a text's two vectors, the mean.
    agreement : share of the ten nearest neighbours of a text that are the same, the mean; 0 if
        too few texts were encoded to tell.
    """

    gain: float
    cosine: float
    agreement: float

    @property
    def is_worth_it(self) -> bool:
        """Whether it is faster and within the bound; never if a number is none."""
        holds = self.cosine >= LEAST_COSINE and self.agreement >= LEAST_AGREEMENT
        return self.gain >= LEAST_GAIN and holds

    @classmethod
    def read(cls, value: Any) -> Self | None:
        """What was remembered, if that is what it should be."""
        try:
            found = cls(**value)
        except TypeError:
            return None
        numbers = asdict(found).values()
        return found if all(isinstance(number, float) for number in numbers) else None


def measured(
    floats: OpenVinoRuntime, tokenised: Tokenised
) -> tuple[Measured, OpenVinoRuntime | None]:
    """Int8 beside floats, as remembered or measured now; and, if it had to be made, its runtime."""
    name = floats.key and f"{floats.key}-{processor_key()}-{floats.precision}-int8"
    if name and (known := Measured.read(remembered(name))):
        return known, None
    coarse = OpenVinoRuntime(floats.model, "int8", floats.key)
    found = compared(floats, coarse, tokenised(sample_texts()))
    if name and (found.agreement or found.gain < LEAST_GAIN):  # else the machine was too busy
        remember(name, asdict(found))
    return found, coarse


def compared(
    floats: OpenVinoRuntime, coarse: OpenVinoRuntime, batches: Sequence[Batch]
) -> Measured:
    """Int8 beside floats, on batches in turns, as far as time allows and int8 is worth it."""
    end = perf_counter() + LIMIT_S
    exact, near, gains = list[Matrix](), list[Matrix](), list[float]()
    for batch in batches:
        exact.append(next(floats.run([batch])))  # a shape takes longer the first time
        near.append(next(coarse.run([batch])))
        if len(gains) < TIMED_BATCHES:
            gains.append(_cpu_seconds(floats, batch) / _cpu_seconds(coarse, batch))
        elif statistics.median(gains) < LEAST_GAIN:
            break
        if perf_counter() > end:
            break
    a, b = (normalize_rows(np.concatenate(vectors)) for vectors in (exact, near))
    agreement = _agreement(a, b) if len(a) >= FEWEST_TEXTS else 0.0
    return Measured(statistics.median(gains), float(np.vecdot(a, b).mean()), agreement)


def sample_texts() -> list[str]:
    """First sentences of docstrings, spread over what is documented."""
    found = dict[str, None]()
    for module in map(importlib.import_module, MODULES):
        public = [member for name, member in vars(module).items() if not name.startswith("_")]
        classes = [member for member in public if inspect.isclass(member)]
        members = [*public, *(member for owner in classes for member in vars(owner).values())]
        for text in map(inspect.getdoc, filter(callable, members)):
            found[(text or "").split("\n\n")[0].split(". ")[0]] = None
    texts = [text for text in found if len(text) > 20]
    return texts[:: max(len(texts) // TEXTS, 1)][:TEXTS]


def _cpu_seconds(runtime: OpenVinoRuntime, batch: Batch) -> float:
    """That all cores together work, which other processes hardly change."""
    start = process_time()
    next(runtime.run([batch]))
    return process_time() - start


def _agreement(a: Matrix, b: Matrix) -> float:
    """Share of each unit row's nearest other rows in `a` that are its nearest in `b`, too."""
    nearest = []
    for rows in (a, b):
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -np.inf)
        nearest.append(np.argpartition(-cosines, NEIGHBOURS)[:, :NEIGHBOURS])
    same = [len(np.intersect1d(x, y)) for x, y in zip(*nearest, strict=True)]
    return float(np.mean(same)) / NEIGHBOURS
