"""Where the tests' chance comes from, and how much of a long sweep they try.

By default nothing is left to chance: random tests begin at a stated seed, so that whether work
lands does not depend on luck, and of the long sweeps they take a part that is spread evenly. The
environment asks for more:

- `SLIMDEX_SWEEP=1` (`make sweep`): every kill, flipped bit and example, from the stated seed.
- `SLIMDEX_EXPLORE=1` (`make explore`): a new seed, which is printed, and more examples.
- `SLIMDEX_SEED=n`: another seed, as one that was printed.

What exploring finds becomes a fixed example beside the test that found it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

STATED = 3055568911
"""The seed of every run that does not ask for another."""
MORE = 5
"""How many times as many examples are tried in exploring."""
T = TypeVar("T")


@dataclass(frozen=True)
class Chance:
    """What a run of the tests tries.

    Attributes
    ----------
    seed : of everything random but hypothesis, which has its own way to the same end.
    exploring : whether the seed is new, and there are more examples.
    whole : whether long sweeps are whole.
    """

    seed: int = STATED
    exploring: bool = False
    whole: bool = False

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Chance:
        """What an environment asks for."""
        exploring, whole = (
            environment.get(f"SLIMDEX_{word}", "") not in ("", "0") for word in ("EXPLORE", "SWEEP")
        )
        given = environment.get("SLIMDEX_SEED", "")
        new = Random().randrange(1 << 32) if exploring else STATED
        return cls(int(given) if given else new, exploring, whole)

    @property
    def profile(self) -> str:
        """The name of hypothesis' settings."""
        return "explore" if self.exploring else "stated"

    def random(self, *words: object) -> Random:
        """A generator of its own for each test."""
        return Random(" ".join(map(str, (self.seed, *words))))

    def examples(self, usual: int) -> int:
        """How many examples hypothesis tries, where a usual run tries so many."""
        return usual * MORE if self.exploring else usual

    def count(self, all_of_them: int, part: int) -> int:
        """How many steps of a sweep are tried: in exploring as many as in a whole one."""
        return all_of_them if self.whole or self.exploring else part

    def sample(self, everything: Sequence[T], part: int) -> list[T]:
        """The steps of a sweep that are tried, spread evenly if not all of them."""
        return spread(everything, self.count(len(everything), part))

    def __str__(self) -> str:
        again = f"; `make explore SEED={self.seed}` tries the same again" if self.exploring else ""
        size = "whole" if self.count(1, 0) else "sampled"
        return f"chance: seed {self.seed}, long sweeps {size}{again}"


def spread(everything: Sequence[T], most: int) -> list[T]:
    """So many of them at most, evenly over all, the first and the last among them."""
    count = len(everything)
    if count <= most:
        return list(everything)
    return [everything[round(i * (count - 1) / max(1, most - 1))] for i in range(most)]


def sweep(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that is sampled by `make check` and whole in `make sweep` and `make explore`."""
    marked: Callable[..., None] = pytest.mark.slow(pytest.mark.sweep(test))
    return marked


# A slow machine fails no test by time, and no run depends on what an earlier one kept.
settings.register_profile(
    "stated",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    print_blob=True,
)
settings.register_profile(
    "explore",
    settings.get_profile("stated"),
    derandomize=False,
    max_examples=MORE * settings.get_profile("default").max_examples,
)

CHANCE = Chance.of(os.environ)
"""What this run tries."""
