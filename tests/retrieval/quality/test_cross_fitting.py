"""Cross-fitting: false gains are no more frequent than stated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slimdex.retrieval.quality.cross_fitting import best_option, cross_fitted, gain_of_best


def test_each_half_is_measured_by_the_option_of_the_other() -> None:
    first = [[0.1, 0.9, 0.2], [0.3, 0.7, 0.4]]  # chooses the second option
    last = [[0.5, 0.0, 0.6], [0.7, 0.2, 0.8]]  # chooses the third
    measured = np.array(first + last)
    assert cross_fitted(measured).tolist() == [0.2, 0.4, 0.0, 0.2]
    assert best_option(measured) == 2


def measures(rng: np.random.Generator, gain: float) -> NDArray[np.float64]:
    """Simulate 100 queries and 25 options, one of which gains; half of the variance is by query."""
    measured = rng.normal(size=(100, 25)) + rng.normal(size=(100, 1))
    measured[:, 7] += gain
    return measured


@pytest.mark.parametrize(("gain", "least", "most"), [(0.0, 0.0, 0.06), (0.7, 0.9, 1.0)])
def test_chance_is_a_gain_in_one_choice_of_twenty(gain: float, least: float, most: float) -> None:
    rng = np.random.default_rng(0)
    passed, gains = [], []
    for _ in range(2000):
        measured = measures(rng, gain)
        found = gain_of_best(measured)
        passed.append(found.is_proved)
        gains.append(found.mean)
    assert least <= np.mean(passed) <= most
    if not gain:
        assert np.mean(gains) == pytest.approx(0, abs=0.01)
