"""Cases of a test that only `make check` runs: `make test` tries one or two of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any]) -> list[Any]:
    """Cases of a test's parameter, or of several as tuples, each marked as slow."""
    return [
        pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
