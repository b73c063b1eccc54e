"""Entailment by a threshold on the cosine, part of `slimdex bench sts`.

WhiteningBERT's appendix A.2 does so on RTE with a threshold of 0.5. Here it is SNLI, two-way: does
the first sentence entail the second? A threshold is chosen on the dev pairs, and judged on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.reducer import Reducer

from ..data.layer_vectors import WHOLE, Layers
from ..data.pairs import Pairs
from ..rows import ResultsFile, Row, key_of
from .similarity_study import FIRST_LAST, LAST, NLI, ComparedPairs, Way

FIXED = 0.5
"""The paper's threshold."""
SETTINGS = ((1.0, 1.0), (0.0, 0.25))
"""beta and gamma of the whitenings that are tried."""


def entailment_ways(modes: Sequence[str]) -> Iterator[Way]:
    """Poolings without a reducer and whitened on all sentences of the pairs."""
    for mode in modes:
        for layers in (LAST,) if mode in WHOLE else (LAST, FIRST_LAST):
            yield Way(mode, layers)
            for beta, gamma in SETTINGS:
                yield Way(mode, layers, NLI, beta=beta, gamma=gamma)


def measure_entailment(
    ways: Sequence[Way],
    layers: dict[str, Layers],
    dev: Pairs,
    test: Pairs,
    results: ResultsFile,
    facts: Row,
    about: Row,
    *,
    progress: Progress = silent,
) -> None:
    """Append a row for each way that has none yet: accuracy by the threshold that suits dev best.

    Parameters
    ----------
    layers : mode -> vectors of all sentences.
    dev, test : pairs whose gold is 1 for entailment and else 0.
    """
    sentences = list(dict.fromkeys([*dev.sentences, *test.sentences]))
    for done, way in enumerate(ways, start=1):
        key = key_of(facts | way.columns())
        if key not in results.rows:
            own = layers[way.mode]
            fitted = own.of(sentences, way.layers)
            shared = dict[Way, Reducer]()
            dev_cosines, test_cosines = (
                ComparedPairs(*own.of_pairs(pairs, way.layers), {NLI: fitted}, shared).cosines(way)
                for pairs in (dev, test)
            )
            threshold = best_threshold(dev_cosines, dev.gold)
            entailed = 100 * float(test.gold.mean())
            measured = {
                "pairs": len(test.gold),
                "threshold": threshold,
                "accuracy": accuracy(test_cosines, test.gold, threshold),
                "accuracy_fixed": accuracy(test_cosines, test.gold, FIXED),
                "accuracy_majority": max(entailed, 100 - entailed),
            }
            results.append({"key": key} | facts | way.columns() | measured | about)
        progress("entailment", done, len(ways))


def best_threshold(cosines: NDArray[np.float32], gold: NDArray[np.float64]) -> float:
    """The cosine from which on "entailed" is right most often; the lowest of several.

    >>> best_threshold(np.array([0.1, 0.4, 0.3, 0.9], np.float32), np.array([0.0, 1, 0, 1]))
    0.35
    """
    order = np.argsort(cosines, kind="stable")
    ranked, truth = cosines[order].astype(np.float64), gold[order]
    below = np.concatenate([[0], np.cumsum(truth == 0)])
    above = truth.sum() - np.concatenate([[0], np.cumsum(truth == 1)])
    edges = np.concatenate([[ranked[0]], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1] + 1]])
    possible = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])
    return round(float(edges[np.argmax(np.where(possible, below + above, -1))]), 6)


def accuracy(cosines: NDArray[np.float32], gold: NDArray[np.float64], threshold: float) -> float:
    """Percent of pairs (n,) that a threshold tells right."""
    return 100 * float(np.mean((cosines >= threshold) == (gold == 1)))
