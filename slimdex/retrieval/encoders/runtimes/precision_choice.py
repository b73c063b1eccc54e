"""Choice between int8 and float for a model on this processor.

Int8 is chosen if it is faster and accurate enough: by cosines with the float network's vectors, and
by agreement of each text's ten nearest neighbours, on first sentences of Python's docstrings. The
measurement is cached by model and processor.
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

from ...user_cache import remember, remembered
from .openvino_runtime import OpenVinoRuntime
from .processor import processor_key
from .streams import Batch

LEAST_GAIN = 1.1
"""Smallest speed-up over float that justifies less accurate vectors."""
LEAST_COSINE, LEAST_AGREEMENT = 0.999, 0.95
"""Bounds of the means over texts."""
NEIGHBOURS = 10
LIMIT_S = 1.0
"""Seconds for measuring, without compiling the int8 model."""
TEXTS, FEWEST_TEXTS = 64, 48
"""Texts to encode, and the fewest for a meaningful agreement of neighbours."""
TIMED_BATCHES = 4
MODULES = ("builtins", "os", "math", "pathlib", "re", "shutil", "subprocess", "threading")
"""Modules whose docstrings, with those of their classes' members, are the texts."""

Tokenised = Callable[[Sequence[str]], Sequence[Batch]]
"""Function from texts to batches (ids and mask), in any order."""


@dataclass(frozen=True)
class Measured:
    """Comparison of a network in int8 with the same in float.

    Attributes
    ----------
    gain : speed-up.
    cosine : mean cosine of a text's two vectors.
    agreement : mean share of a text's ten nearest neighbours that are the same; 0 if too few texts
        were encoded.
    """

    gain: float
    cosine: float
    agreement: float

    @property
    def is_worth_it(self) -> bool:
        """True if int8 is faster and within the bounds; False if a value is NaN."""
        holds = self.cosine >= LEAST_COSINE and self.agreement >= LEAST_AGREEMENT
        return self.gain >= LEAST_GAIN and holds

    @classmethod
    def read(cls, value: Any) -> Self | None:
        """Read a cached measurement; None if malformed."""
        try:
            found = cls(**value)
        except TypeError:
            return None
        numbers = asdict(found).values()
        return found if all(isinstance(number, float) for number in numbers) else None


def measured(
    floats: OpenVinoRuntime, tokenised: Tokenised
) -> tuple[Measured, OpenVinoRuntime | None]:
    """Return the cached or new measurement, and the int8 runtime if it was compiled for it."""
    name = floats.key and f"{floats.key}-{processor_key()}-{floats.precision}-int8"
    if name and (known := Measured.read(remembered(name))):
        return known, None
    coarse = OpenVinoRuntime(floats.model, "int8", floats.key)
    found = compared(floats, coarse, tokenised(sample_texts()))
    if name and (
        found.agreement or found.gain < LEAST_GAIN
    ):  # else the machine was too busy to measure
        remember(name, asdict(found))
    return found, coarse


def compared(
    floats: OpenVinoRuntime, coarse: OpenVinoRuntime, batches: Sequence[Batch]
) -> Measured:
    """Compare int8 with float on alternating batches, while time allows and int8 is faster."""
    end = perf_counter() + LIMIT_S
    exact, near, gains = list[Matrix](), list[Matrix](), list[float]()
    for batch in batches:
        exact.append(next(floats.run([batch])))  # warm-up for each shape
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
    """Sample first sentences of docstrings evenly."""
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
    """CPU seconds of all cores, which other processes hardly affect."""
    start = process_time()
    next(runtime.run([batch]))
    return process_time() - start


def _agreement(a: Matrix, b: Matrix) -> float:
    """Mean share of each unit row's nearest rows in `a` that are also nearest in `b`."""
    nearest = []
    for rows in (a, b):
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -np.inf)
        nearest.append(np.argpartition(-cosines, NEIGHBOURS)[:, :NEIGHBOURS])
    same = [len(np.intersect1d(x, y)) for x, y in zip(*nearest, strict=True)]
    return float(np.mean(same)) / NEIGHBOURS
