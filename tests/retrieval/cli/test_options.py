"""What the command line says of choices and defaults is what the library has."""

from __future__ import annotations

import inspect

from slimdex import Settings
from slimdex.indexes.registry import KINDS, REDUCERS
from slimdex.retrieval.cli import app, options


def test_help_names_every_kind_and_reducer() -> None:
    """The help can't ask the registry of reducers, which takes FAISS a tenth of a second."""
    assert f"{', '.join(KINDS)} or any FAISS factory string" == options.KINDS
    *most, last = REDUCERS
    assert f"{', '.join(most)} or {last}" == options.REDUCERS


def test_a_build_is_asked_for_what_settings_are_by_default() -> None:
    parameters = inspect.signature(app.build).parameters
    for name, value in Settings().as_dict().items():
        assert parameters[name].default == value, name
