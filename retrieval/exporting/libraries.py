"""Libraries required by export formats, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from slimdex.indexes.errors import InputError

from ..extras import install_command


def require(name: str, *modules: str) -> None:
    """Raise `InputError` if a library of a format is not installed; nothing is imported."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InputError(f"to={name!r} requires {', '.join(missing)}: {install_command('export')}")
