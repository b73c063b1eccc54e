"""Progress reporting: a function that the caller passes in."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``, for example ``("encoding", 2048, 60523)``."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing; the default."""
