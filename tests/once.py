"""What takes long is made once in a run, whichever of its processes needs it first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import portalocker


def once(path: Path, make: Callable[[Path], object]) -> Path:
    """A file or folder in the run's own folder; `make` is given a path to make it at."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        portalocker.lock(lock, portalocker.LOCK_EX)
        if not path.exists():
            new = path.with_name(f"new-{path.name}")
            make(new)
            new.rename(path)
    return path
