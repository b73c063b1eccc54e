"""Similarity: the figures of its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slimdex.bench.rows import Row

from ..links import Figure, row

ALL, SUBTASKS = "average", "average wmean"
WHITENED: dict[str, Any] = {"fit": "target", "reducer": "whitening", "beta": 1.0, "gamma": 1.0}
ROTATED = WHITENED | {"beta": 0.0, "gamma": 0.0}
WHOLE = WHITENED | {"k": None}
PLAIN: dict[str, Any] = {"fit": ""}


def sts(model: str, pooling: str, **how: Any) -> Row:
    return row("sts", model=model, pooling=pooling, **how)


def distilbert(**how: Any) -> Row:
    return sts("distilbert-base-cased-gec", "mean@1,-1", **how)


def minilm(**how: Any) -> Row:
    return sts("all-MiniLM-L6-v2", "mean@-1", **how)


def chinese(name: str) -> Callable[[], Sequence[float]]:
    def values() -> Sequence[float]:
        model, pooling = "chinese-simbert-L-4-H-312", "own"
        return [sts(model, pooling, **how)[name] for how in (PLAIN, WHOLE)]

    return values


def minilm_by(column: str) -> Sequence[float]:
    ways = PLAIN, WHOLE, WHITENED | {"k": 128}, ROTATED | {"k": 192}
    return [minilm(**how)[column] for how in ways]


FIGURES = [
    Figure("Spearman's correlation, x 100,", lambda: [100]),
    Figure("up to 128 tokens", lambda: [minilm(**PLAIN)["max_length"]]),
    Figure(
        "averages 44.33. Whitened on the target it has 60.09, and 62.40 cut to 256",
        lambda: [
            *(distilbert(**how)[ALL] for how in (PLAIN, WHOLE, WHITENED | {"k": 256})),
            256,
        ],
    ),
    Figure("of its 768 dimensions", lambda: [distilbert(**PLAIN)["width"]]),
    Figure(
        "these are 49.36, 64.31 and 64.89",
        lambda: [distilbert(**how)[SUBTASKS] for how in (PLAIN, WHOLE, WHITENED | {"k": 256})],
    ),
    Figure(
        "fitted on the target, has 62.38 and by subtasks 64.86",
        lambda: [distilbert(fit="target", reducer="flow")[by] for by in (ALL, SUBTASKS)],
    ),
    Figure(
        "averages 78.88. Whitened on the target it has 73.54, and 76.15 cut to 128 of its 384 "
        "dimensions. The rotation (0, 0) in 192 dimensions has 79.05",
        lambda: [
            *minilm_by(ALL)[:3],
            128,
            minilm(**PLAIN)["width"],
            192,
            minilm_by(ALL)[3],
        ],
    ),
    Figure("78.79, 76.10, 77.24 and 78.81", lambda: minilm_by(SUBTASKS)),
    Figure("STS12 falls from 72.37 to 60.41", lambda: minilm_by("STS12")[:2]),
    Figure("and from 71.06 to 68.61 by subtasks", lambda: minilm_by("STS12 wmean")[:2]),
    Figure(
        "averages 67.59 and whitened on the target 69.35",
        lambda: [sts("all-MiniLM-L6-v2-static", "own", **how)[ALL] for how in (PLAIN, WHOLE)],
    ),
    Figure("LCQMC (69.24 to 66.42)", chinese("LCQMC")),
    Figure("BQ (41.93 to 33.21)", chinese("BQ")),
    Figure("PAWS-X (7.86 to 10.33)", chinese("PAWS-X")),
]
