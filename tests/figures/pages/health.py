"""Health: the figures of its page."""

from __future__ import annotations

from inspect import signature

from slimdex.indexes.reducers.drift import SAMPLED_ROWS
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.quality.evaluation.ablation import SAMPLE
from slimdex.retrieval.quality.fit_drift import ERROR_GREW, VARIANCE_MISSED
from slimdex.retrieval.quality.refitting import GROWN

from ..links import Figure

SAMPLE_OF_HEALTH = signature(Collection.health).parameters["sample"].default
FIGURES = [
    Figure("on 2,048 of the old documents", lambda: [SAMPLED_ROWS]),
    Figure(
        "a search of 2,000 queries",
        lambda: [signature(Collection.health).parameters["sample"].default],
    ),
    Figure(
        "there are 1.25 times as many documents as at the last measurement. It is also so if more "
        "than one document in twenty is new and the figures have moved: a new fit would keep .01 "
        "more of the variance, or the code error of new documents is 15% higher",
        lambda: [GROWN, VARIANCE_MISSED, 100 * (ERROR_GREW - 1)],
    ),
    Figure("500 queries are made of the documents", lambda: [SAMPLE]),
]
