"""Pages of the Python interface: `mkdocstrings` fills them from docstrings and signatures."""

from __future__ import annotations

import slimdex
from slimdex.indexes.options import Choices
from slimdex.retrieval.cli.options.settings import SettingsOptions

GROUPS = {
    "Documents and searches": ("Collection", "Document", "Hit", "SearchRequest", "Target"),
    "Encoders": ("TransformerEncoder", "StaticEncoder", "HttpEncoder", "GivenEncoder"),
    "Errors": ("SlimdexError", "InputError", "CorruptError", "InUseError"),
}
"""Headings and their names; other public names come under the last heading."""
ELSEWHERE = ("Settings", "__version__")
"""Public names that have a page of their own, or need none."""


def python_page() -> str:
    """Write the page of all public names."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [name for name in slimdex.__all__ if name not in (*grouped, *ELSEWHERE)]
    lines = [
        "# Python reference",
        "All names are imported from `slimdex`. [Python](../python.md) is the tutorial, and "
        "[settings](settings.md) have a page of their own.",
    ]
    for heading, names in {**GROUPS, "More": tuple(rest)}.items():
        lines += [f"## {heading}", *(f"::: slimdex.{name}" for name in names)]
    return "\n\n".join(lines)


def settings_page() -> str:
    """Write the page of settings: a list from the command line's help, then the class."""
    from command_pages import options_of, plain

    defaults = Choices().as_dict()
    lines = [
        "# Settings reference",
        "How vectors are reduced, coded and rescored: options of `slimdex build` and `slimdex "
        "reduce`, fields of `slimdex.Settings`, and the body of `POST /indexes/NAME/reduce`. "
        "[How it works](../how-it-works.md) explains them; [tuning](../tuning.md) chooses them.",
    ]
    helps = options_of("reduce")
    for name, default in defaults.items():
        default = "auto" if default is None else default
        lines.append(f"`{name}`, by default `{default}`\n:   {plain(helps[name])}")
    assert set(defaults) == set(vars(SettingsOptions()))
    return "\n\n".join([*lines, "## In Python", "::: slimdex.Settings"])
