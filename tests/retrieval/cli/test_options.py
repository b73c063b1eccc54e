"""What the command line says of choices is what the library has."""

from __future__ import annotations

from slimdex.indexes import choices
from slimdex.indexes.registry import REDUCERS


def test_reducers_have_the_names_that_help_lists() -> None:
    """Help can't ask the classes, which take numpy a tenth of a second."""
    assert [reducer.name for reducer in REDUCERS.values()] == list(choices.REDUCERS)
