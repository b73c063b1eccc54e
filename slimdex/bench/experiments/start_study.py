"""`slimdex bench start`: cold processes of slimdex and of other libraries, in turns.

Each command is a new process. All open an index of the same documents by the same model, and files
are in the system's page cache, since a first round is not counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from os import environ
from pathlib import Path
from time import perf_counter
from typing import Self

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.encoders.opening import model_place
from slimdex.retrieval.sources.source import open_source

from ..engines import peer_programs
from ..engines.processes import Attempts, WorkerError, in_turns, replace_rows
from ..machine import not_installed
from ..rows import ResultsFile, Row, key_of

ROUNDS, QUICK_ROUNDS, QUICK_DOCUMENTS = 10, 3, 300
MODEL, QUERY = "all-MiniLM-L6-v2", "remove a directory tree"
ROOT = Path(__file__).parents[3]
OURS = "slimdex"
SEARCH = f"{OURS} search"
PACKAGES = {
    "sentence-transformers": ("sentence-transformers",),
    "txtai": ("txtai",),
    "Chroma": ("chromadb", "sentence-transformers"),
}
"""Other libraries and the packages that they need here."""
OWN_PACKAGES = ("slimdex", "numpy", "faiss-cpu", "duckdb", "openvino")
CONSTRAINTS = "torch==2.13.0\n"
"""For the others' installation: newer releases pull gigabytes of CUDA."""
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


@dataclass(frozen=True)
class StartJob:
    """The work of each library: index the documents, then answer the query.

    Attributes
    ----------
    name, model : name and folder of the model.
    documents : file with an object of id and text a line.
    folder : where indexes, caches and environments are written.
    rounds : in which each command is timed.
    """

    name: str
    model: str
    documents: Path
    query: str
    folder: Path
    rounds: int

    @classmethod
    def of_docstrings(cls, folder: Path, *, quick: bool) -> StartJob:
        """Write Python's docstrings, or the first ones, to a file of the folder."""
        most = QUICK_DOCUMENTS if quick else None
        batches = open_source("python:").batches()
        found = [document for batch in batches for document in batch][:most]
        lines = [json.dumps({"id": each.id, "text": each.content}) + "\n" for each in found]
        documents = folder / "documents.jsonl"
        documents.write_text("".join(lines), encoding="utf-8")
        name, place = model_place(MODEL)
        rounds = QUICK_ROUNDS if quick else ROUNDS
        return cls(Path(name).name, str(place), documents, QUERY, folder, rounds)

    @property
    def index(self) -> Path:
        """Index of slimdex."""
        return self.folder / "slimdex.index"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables: a cache of its own, no requests to a model hub, and modules
        compiled once, as Python does unless told otherwise."""
        cache = {"SLIMDEX_CACHE": str(self.folder / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
        return cache | {"HF_HUB_OFFLINE": "1"}


@dataclass(kw_only=True)
class Command(Attempts):
    """A command and its environment."""

    words: Sequence[str]
    environment: Environment
    seconds: list[float] = field(default_factory=list)

    def run(self, variables: Mapping[str, str]) -> None:
        """Run and time the command."""
        start = perf_counter()
        run(self.words, variables)
        self.seconds.append(perf_counter() - start)

    def measured(self) -> Row:
        """Columns, with the median and the extremes of all seconds but the first."""
        if self.error is not None:
            return super().measured()
        seconds = self.seconds[1:]  # the first process may have read files from disk
        return self.row | {
            "processes": len(seconds),
            "start_s": statistics.median(seconds),
            "start_s_least": min(seconds),
            "start_s_most": max(seconds),
        }


def measure_start(job: StartJob, results: ResultsFile, about: Row, *, install: bool) -> list[str]:
    """Write a row for each command; returns a line for each failure."""
    with job.documents.open(encoding="utf-8") as file:
        shared = {"model": job.name, "documents": sum(1 for _ in file)}
    commands = [*_ours(job, shared, install=install), *_others(job, shared, install=install)]
    in_turns(commands, lambda command, _: command.run(job.variables), "starting", job.rounds + 1)
    versions = about["versions"] | _versions(commands)
    return replace_rows(results, commands, about | {"versions": versions})


def _ours(job: StartJob, shared: Row, *, install: bool) -> list[Command]:
    """Python itself, and commands of slimdex on an index that is built first."""
    environment, index = Environment.current(), str(job.index)
    if install:
        progress(f"installing {OURS}", 0, 1)
        place = job.folder / "environments" / OURS
        environment = Environment.installed(place, [str(_clone(job.folder))], "")
    words = {
        "python -c pass": [str(environment.python), "-c", "pass"],
        f"{OURS} --help": [environment.slimdex, "--help"],
        f"{OURS} info": [environment.slimdex, "info", index],
        SEARCH: [environment.slimdex, "search", index, job.query],
    }
    commands = {name: _command(name, own, shared, environment) for name, own in words.items()}
    build = [environment.slimdex, "build", str(job.documents), "--out", index]
    progress(f"building with {OURS}", 0, 1)
    run([*build, "--model", job.model], job.variables)
    search = commands[SEARCH]
    search.row |= environment.facts
    search.run(job.variables | {"SLIMDEX_CACHE": str(job.folder / "empty")})
    search.row["first_s"] = search.seconds.pop()
    return [*commands.values()]


def _clone(folder: Path) -> Path:
    """Clone this checkout's last commit, since building a package leaves files in its folder."""
    if not (ROOT / ".git").exists():
        raise InputError(f"--install without a checkout: {ROOT} has no .git")
    clone = folder / "checkout"
    run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(clone)])
    return clone


def _others(job: StartJob, shared: Row, *, install: bool) -> list[Command]:
    """A search of each other library in an index that is built first; missing ones are left out."""
    missing = {} if install else not_installed(PACKAGES)
    return [_other(name, job, shared, install=install) for name in PACKAGES if name not in missing]


def _other(name: str, job: StartJob, shared: Row, *, install: bool) -> Command:
    """A search of another library."""
    command = _command(name, [], shared, Environment.current())

    def prepare() -> None:
        if install:
            progress(f"installing {name}", 0, 1)
            place = job.folder / "environments" / name
            command.environment = Environment.installed(place, PACKAGES[name], CONSTRAINTS)
        command.row |= command.environment.facts
        program = [str(command.environment.python), str(peer_programs.__file__), name]
        given = [str(job.folder / name), job.model]
        progress(f"building with {name}", 0, 1)
        run([*program, "build", *given, str(job.documents)], job.variables)
        command.words = [*program, "search", *given, job.query]

    command.attempt(prepare)
    return command


def _command(name: str, words: Sequence[str], shared: Row, environment: Environment) -> Command:
    row = {"method": name} | shared
    row = {"key": key_of(row)} | row
    return Command(name=name, row=row, words=words, environment=environment)


def _versions(commands: Sequence[Command]) -> Row:
    """Versions of each library's packages in the environment that was installed for it."""
    return {
        package: command.environment.versions[package]
        for command in commands
        for package in PACKAGES.get(command.row["method"], OWN_PACKAGES)
        if package in command.environment.versions
    }
