"""`slimdex reduce`."""

from __future__ import annotations

from ... import console
from ...execution import do
from ...options.opening import Dir, Json, Wait
from ...options.settings import UNCHANGED, SettingsOptions


def reduce(
    index: Dir, settings: SettingsOptions = UNCHANGED, wait: Wait = 0, as_json: Json = False
) -> None:
    """Reduce the vectors again, without encoding. Options that are not given stay as they are."""
    from ....operations.commands import Reduce

    console.show_index(do(Reduce(settings.changes()), index, wait), as_json)
