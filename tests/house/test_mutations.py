"""Each mutation changes one place of the source as it is now."""

from __future__ import annotations

import pytest

from .mutations import MUTATIONS, ROOT, Mutation


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return [path.read_text("utf-8") for path in (ROOT / "slimdex").rglob("*.py")]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.old.strip() for each in MUTATIONS])
def test_a_mutation_has_one_place(mutation: Mutation, sources: list[str]) -> None:
    assert sum(text.count(mutation.old) for text in sources) == 1
    assert mutation.new != mutation.old
