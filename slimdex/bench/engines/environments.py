"""New Python environments with some packages: their size, and the time it takes to make them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from os import environ
from pathlib import Path
from time import perf_counter
from typing import Self

from ..engines.remote_object import WorkerError
from ..rows import Row

LONGEST = 1800.0
"""Limit of a process in seconds."""
TOOLS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
"""Starts of the names that a new environment contains before anything is installed."""


@dataclass(frozen=True)
class Environment:
    """A Python; an installed one with its seconds and bytes, and its packages' versions."""

    python: Path
    facts: Row
    versions: Mapping[str, str]

    @classmethod
    def current(cls) -> Self:
        """Return the environment of this process."""
        return cls(Path(sys.executable), {}, {})

    @classmethod
    def installed(cls, folder: Path, packages: Sequence[str], constraints: str) -> Self:
        """Install packages with pip into a new virtual environment, without pip's cache.

        `constraints` are a line each. Only the installation is timed.
        """
        run([sys.executable, "-m", "venv", str(folder)])
        python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        limits = folder / "constraints.txt"
        limits.write_text(constraints, encoding="utf-8")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        start = perf_counter()
        run([*pip, "--no-cache-dir", "--constraint", str(limits), *packages])
        seconds = perf_counter() - start
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(run([str(python), "-c", code]).strip())
        found = {each.name.lower(): each.version for each in distributions(path=[str(site)])}
        return cls(python, {"install_s": seconds, "install_bytes": site_bytes(site)}, found)

    @property
    def slimdex(self) -> str:
        """Path of the command `slimdex`."""
        return str(self.python.with_name("slimdex"))


def site_bytes(folder: Path) -> int:
    """Bytes of the packages in a folder of site-packages, without pip and setuptools."""
    own = [each for each in folder.iterdir() if not each.name.startswith(TOOLS)]
    files = [file for each in own for file in (each, *each.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files)


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Return what a command prints; raise `WorkerError` with its last line if it fails."""
    try:
        done = subprocess.run(
            command,
            env={**environ, **(variables or {})},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerError(str(error)) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise WorkerError(lines[-1])
    return done.stdout
