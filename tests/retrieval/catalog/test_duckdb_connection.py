"""Releases of DuckDB: the locked one has been tried; any other is reported once."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from slimdex.retrieval.catalog.duckdb_connection import TRIED, tell_if_untried

ROOT = Path(__file__).parents[3]


def test_the_locked_release_has_been_tried() -> None:
    lock = (ROOT / "constraints.txt").read_text()
    assert re.findall(r"^duckdb==(\S+)", lock, re.MULTILINE) == [TRIED[-1]]


@pytest.mark.parametrize(("version", "lines"), [(TRIED[-1], 0), ("2.0.99", 1)])
def test_an_untried_release_is_named_once(
    version: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    tell_if_untried.cache_clear()
    with caplog.at_level(logging.WARNING, "slimdex"):
        tell_if_untried(version)
        tell_if_untried(version)
    assert [version in line and "\n" not in line for line in caplog.messages] == [True] * lines
