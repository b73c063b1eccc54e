"""Chance does not decide whether work lands: what random tests try is the same each time."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

from ..chance import CHANCE, MORE, STATED, Chance, spread

ROOT = Path(__file__).parents[2]


def test_nothing_is_left_to_chance_unless_it_is_asked_for() -> None:
    assert Chance.of({}) == Chance.of({"SLIMDEX_EXPLORE": "0", "SLIMDEX_SWEEP": ""})
    assert Chance.of({}) == Chance(seed=STATED, exploring=False, whole=False)
    assert Chance.of({"SLIMDEX_SWEEP": "1"}) == Chance(STATED, whole=True)
    assert Chance.of({"SLIMDEX_SEED": "7"}) == Chance(7)
    once, again = (Chance.of({"SLIMDEX_EXPLORE": "1"}) for _ in range(2))
    assert once.exploring
    assert len({once.seed, again.seed, STATED}) == 3
    told = str(once).split("`")[1]
    assert told == f"make explore SEED={once.seed}"
    assert Chance.of({"SLIMDEX_EXPLORE": "1", "SLIMDEX_SEED": str(once.seed)}) == once


def test_this_run_has_the_settings_it_asked_for() -> None:
    assert Chance.of(os.environ) == CHANCE
    now = settings()
    assert now.derandomize != CHANCE.exploring
    assert (now.deadline, now.database, now.print_blob) == (None, None, True)
    assert HealthCheck.too_slow in now.suppress_health_check
    assert now.max_examples == 100 * (MORE if CHANCE.exploring else 1)
    assert CHANCE.examples(30) == 30 * (MORE if CHANCE.exploring else 1)
    assert CHANCE.random("a", 1).random() == Chance(CHANCE.seed).random("a", 1).random()
    assert CHANCE.random("a").random() != CHANCE.random("b").random()


def test_a_sample_is_spread_evenly_from_the_first_to_the_last() -> None:
    assert spread(range(101), 5) == [0, 25, 50, 75, 100]
    assert spread([3, 1, 2], 3) == spread([3, 1, 2], 9) == [3, 1, 2]
    assert spread([3, 1, 2], 1) == [3]
    assert spread([], 4) == []
    assert Chance().sample(range(9), 2) == [0, 8]
    for chance in (Chance(whole=True), Chance(exploring=True)):
        assert chance.sample(range(9), 2) == list(range(9))
        assert (chance.count(500, 150), Chance().count(500, 150)) == (500, 150)
