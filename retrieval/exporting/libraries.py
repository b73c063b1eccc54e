"""Libraries that formats need, and what to install where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from slimdex.indexes.errors import InputError

from ..extras import install_command


def require(name: str, *modules: str) -> None:
    """Raise `InputError` if a format needs a library that is not there; none is imported."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise InputError(f"to={name!r} needs {', '.join(missing)}: {install_command('export')}")
