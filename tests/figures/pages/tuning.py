"""Tuning: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slimdex.bench.rows import Row
from slimdex.indexes.bounds import betting_bound
from slimdex.retrieval.quality.certified_recall import ERROR
from slimdex.retrieval.quality.tuning import metric_choice, settings_search
from slimdex.retrieval.quality.tuning import tuner as tuning
from slimdex.retrieval.quality.tuning.targets import SHARES, Target, provable
from slimdex.retrieval.trials import recall_trials

from ..links import Figure, rows

Task = tuple[str, str]


def too_high() -> dict[Task, float]:
    """Percent of trials in which the bound is above what real queries find."""
    counts: dict[Task, list[int]] = {}
    for row in rows("tune", what="coverage"):
        count = counts.setdefault((row["set"], row["model"]), [0, 0])
        count[0] += row["too_high"]
        count[1] += row["trials"]
    return {task: 100 * high / trials for task, (high, trials) in counts.items()}


FEW_WORDS = (("debian-desc", "all-MiniLM-L6-v2-static"),)


FIGURES = [
    Figure(
        "500 queries that all find everything prove .993, and 1,500 prove .998",
        lambda: [x for n in (500, 1500) for x in (n, betting_bound(np.ones(n), ERROR))],
    ),
    Figure("(or 500 of the made ones)", lambda: [tuning.CHOOSING]),
    Figure(
        "the 5% of error: 3%, then 1.25%, then .75%",
        lambda: [100 * ERROR, *(100 * ERROR * share for share in SHARES)],
    ),
    Figure(
        "from 100 queries on) show a gain that is significant in a paired one-sided test at 5%",
        lambda: [metric_choice.FEWEST_LABELLED, 100 * metric_choice.ERROR],
    ),
    Figure("at least 10 points of MRR more", lambda: [100 * metric_choice.LEAST_GAIN]),
    Figure("all 25 cells", lambda: [len(metric_choice.CELLS)]),
    Figure("65,536 of the rows", lambda: [recall_trials.SCREENED_ROWS]),
    Figure(
        "Candidates are at most 3,200, and at most one row in twenty or 200",
        lambda: [settings_search.CANDIDATES[-1], settings_search.LEAST_MOST],
    ),
    Figure("its defaults, proved with 500 queries", lambda: [tuning.CERTIFIED]),
    Figure("from 100,000 rows on", lambda: [settings_search.LISTS_ROWS]),
    Figure("(65,536 rows as float32)", lambda: [recall_trials.SCREENED_ROWS]),
    Figure(
        "of 100, 75 prove, and they prove .949 at most",
        lambda: [100, 100 - 100 // 4, provable(75)],
    ),
]
