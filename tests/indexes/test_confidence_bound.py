"""The betting bound against a slow one by its definition, exact ones, and simulated coverage."""

from __future__ import annotations

from collections.abc import Callable
from math import log1p, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from slimdex.errors import InputError
from slimdex.indexes.confidence_bound import LARGEST_BET, betting_bound

Floats = NDArray[np.float64]


def by_definition(
    samples: list[float], error: float, steps: int, stages: list[int] | None = None
) -> float:
    """The least of a grid of means that no gambler has ruled out, one sample at a time."""
    stages = stages or [len(samples)]
    for step in range(steps + 1):
        m, capital, best = step / steps, 0.0, -np.inf
        seen, total, squares = 0, 0.5, 0.25
        spread = 0.25
        for x in samples:
            end = next(stage for stage in stages if stage > seen)
            bet = sqrt(2 * np.log(1 / error) / (spread * end))
            bet = min(bet, LARGEST_BET / m) if m else bet
            capital += log1p(bet * (x - m))
            best = max(best, capital)
            seen, total = seen + 1, total + x
            squares += (x - total / (seen + 1)) ** 2
            spread = squares / (seen + 1)
        if best < -np.log(error):
            return m
    return 1.0


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.8, 0.9, 1.0]), min_size=1, max_size=25),
    st.sampled_from([0.01, 0.05, 0.3]),
)
def test_the_bound_equals_its_definition(samples: list[float], error: float) -> None:
    slow = min(by_definition(samples, error, 400), np.mean(samples))
    assert betting_bound(samples, error) == pytest.approx(slow, abs=1 / 400)


@given(
    st.lists(st.sampled_from([0.0, 0.8, 0.9, 1.0]), min_size=12, max_size=12),
    st.integers(1, 12),
    st.integers(1, 11),
)
@settings(max_examples=20)
def test_a_bound_of_planned_stages_equals_its_definition_at_each(
    samples: list[float], count: int, first: int
) -> None:
    """A proof holds when samples are added: no stake depends on samples not yet drawn."""
    part, stages = samples[:count], [first, 12]
    slow = by_definition(part, 0.3, 400, stages)
    assert betting_bound(part, 0.3, stages) == pytest.approx(min(slow, np.mean(part)), abs=1 / 400)
    assert slow <= by_definition(samples, 0.3, 400, stages)
    with pytest.raises(InputError, match="12 samples; expected the planned 11 or fewer"):
        betting_bound(samples, 0.3, [11])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_the_bound_is_below_the_mean_and_falls_with_the_error(samples: list[float]) -> None:
    strict, usual = betting_bound(samples, 0.001), betting_bound(samples, 0.05)
    assert 0 <= strict <= usual <= np.mean(samples) + 1e-12


def tenths(rng: np.random.Generator) -> Floats:
    """Recalls at 10 near 1, as queries have them; their mean is .9915."""
    return rng.choice([1.0, 0.9, 0.8, 0.0], size=400, p=[0.945, 0.045, 0.006, 0.004])


@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        (0.5, lambda rng: rng.binomial(1, 0.5, 200).astype(float)),
        (0.99, lambda rng: rng.binomial(1, 0.99, 400).astype(float)),
        (0.05, lambda rng: rng.binomial(1, 0.05, 100).astype(float)),
        (0.8, lambda rng: rng.beta(4, 1, 200)),
        (0.98, lambda rng: rng.beta(0.49, 0.01, 300)),
        (0.945 + 0.045 * 0.9 + 0.006 * 0.8, tenths),
    ],
)
def test_of_four_hundred_bounds_one_in_twenty_at_most_is_too_high(
    mean: float, draw: Callable[[np.random.Generator], Floats]
) -> None:
    rng = np.random.default_rng(5)
    wrong = sum(betting_bound(draw(rng)) > mean for _ in range(400))
    assert wrong <= 20


def test_the_bound_is_tight() -> None:
    """Near one, not much wider than the exact bound of counts, which knows no tenths."""
    assert 1 - betting_bound(np.ones(500)) < 1.25 * (1 - beta.ppf(0.05, 500, 1))
    rng = np.random.default_rng(5)
    gaps = [sample.mean() - betting_bound(sample) for sample in (tenths(rng) for _ in range(100))]
    assert np.median(gaps) < 0.013
    many = rng.choice([1.0, 0.9], size=2000, p=[0.95, 0.05])
    assert many.mean() - betting_bound(many) < 0.003
