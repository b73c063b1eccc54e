"""`slimdex mcp`: what it refuses before it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..running import Runner


@pytest.mark.parametrize(
    "words",
    [
        ("none",),
        ("pets", "--sync", "gone"),
        ("pets", "b=pets", "--sync", "notes"),
        ("pets", "--write", "--wait", "-1"),
        ("pets", "--write", "--shared-filesystem", "--model", "gone", "--sync", "gone"),
    ],
)
def test_a_wrong_index_or_source_is_refused(pets: Runner, words: tuple[str, ...]) -> None:
    Path("notes").mkdir()
    pets.refuses("mcp", *words)
