"""What tests share: small encoders that are real, and real text that every Python has."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

# Threads that wait by spinning make tests crawl on a machine that others use too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A slow machine fails no test by time: conditions have ten times as long as users give them.
os.environ["SLIMDEX_WHERE_SECONDS"] = "600"

import numpy as np
import pytest
from hypothesis import settings

from slimdex.bench.options import MEASURED
from slimdex.bench.rows import ResultsFile, Row, key_of
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.runtimes.openvino_runtime import openvino_library
from slimdex.retrieval.sources.files import file_source
from slimdex.retrieval.sources.files.reading_process import Worker
from slimdex.retrieval.sources.source import open_source

from .chance import CHANCE
from .encoders import WordEncoder, make_tiny_bert
from .once import once

openvino_library()  # before tests import it themselves
settings.load_profile(CHANCE.profile)
# The processes that pytest starts try the same.
os.environ["SLIMDEX_SEED"] = str(CHANCE.seed)


def pytest_report_header() -> str:
    return str(CHANCE)


LONGEST = (
    "tests/house/test_linear_time.py",
    "tests/test_docs.py",
    "tests/bench/test_commands.py",
    "tests/retrieval/cluster/test_milvus_search.py",
    "tests/test_shared.py",
    "tests/examples/test_notebooks.py",
    "tests/retrieval/cluster/test_ray_workers.py",
)
"""Long test files run first, so that no process waits for another's last test."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def _own_cache(run_folder: Path) -> None:
    """Conversions of tests' models are not kept among the user's."""
    os.environ["SLIMDEX_CACHE"] = str(run_folder / "models")


class KeptReader(Worker):
    """Reader whose process keeps running for the next source."""

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def _kept_readers() -> Iterator[None]:
    """One reader for each thread: to start its process takes half of the time of a small build."""
    readers = defaultdict[tuple[int, int], KeptReader](KeptReader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "Worker", lambda: readers[os.getpid(), threading.get_ident()])
        yield
    for reader in readers.values():
        reader.close()


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a BERT of three layers and 32 dimensions, random weights."""
    return make_tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def docstrings(run_folder: Path) -> list[Document]:
    """1,200 documents from the standard library."""

    def make(path: Path) -> None:
        every = chain.from_iterable(open_source("python:").batches())
        path.write_bytes(pickle.dumps(list(islice(every, 1200))))

    made: list[Document] = pickle.loads(once(run_folder / "docstrings", make).read_bytes())
    return made


USUAL = Settings()


class Copies:
    """Indexes of the first docstrings, each built once and copied for every test that changes it.

    A copy takes some milliseconds, and a build half a second.
    """

    def __init__(self, folder: Path, docstrings: list[Document]) -> None:
        self._folder, self._docstrings = folder, docstrings
        self._built: dict[tuple[int, Settings], Path] = {}

    def __call__(self, path: Path, count: int = 1200, settings: Settings = USUAL) -> Path:
        key = (count, settings)
        if key not in self._built:
            made = self._folder / str(len(self._built))
            with Collection.create(made, WordEncoder(), settings) as collection:
                collection.add(self._docstrings[:count])
            self._built[key] = made
        shutil.copytree(self._built[key], path)
        return path


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]) -> Copies:
    """Makes an index of docstrings at a path, as `Collection.add` would."""
    return Copies(tmp_path_factory.mktemp("docstrings"), docstrings)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


class Report(Protocol):
    def __call__(self, line: str, **counts: float) -> None:
        """Print a line at the end of the run; of a whole sweep, store counts as a row."""


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Counts and seeds, to be seen when all is well; counts are named as columns of results."""

    def said(line: str, **counts: float) -> None:
        record_property("said", line)
        record_property("counts", counts)

    return said


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [test for tests in terminalreporter.stats.values() for test in tests]
    for test in ended:
        if getattr(test, "when", None) == "call":
            for key, value in test.user_properties:
                if key == "said":
                    terminalreporter.write_line(value)


SWEPT = (MEASURED / "sweep-counts.jsonl").absolute()
"""Counts of whole sweeps, a row for each test that passed."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Store counts, in the one process that hears of all tests."""
    if not CHANCE.whole or "PYTEST_XDIST_WORKER" in os.environ or not report.passed:
        return
    counts = dict(report.user_properties).get("counts")
    if report.when == "call" and isinstance(counts, dict) and counts:
        from slimdex.bench.machine import provenance  # needs more than most tests do

        what, _, way = report.nodeid.partition("::")[2].rstrip("]").partition("[")
        row: Row = {"key": key_of({"test": report.nodeid}), "what": what, "way": way}
        row |= {"seed": CHANCE.seed, "seconds": report.duration}
        ResultsFile(SWEPT).append(row | counts | provenance(["duckdb"]))
