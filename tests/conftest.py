"""What tests share: small encoders that are real, and real text that every Python has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

# Threads that wait by spinning make tests crawl on a machine that others use too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A slow machine fails no test by time: conditions have ten times as long as users give them.
os.environ["SLIMDEX_WHERE_SECONDS"] = "600"

import numpy as np
import pytest
from hypothesis import settings

import slimdex.retrieval.encoders  # noqa: F401  tests that import OpenVINO do so after it
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.source import open_source

from .chance import CHANCE
from .encoders import WordEncoder, make_tiny_bert

settings.load_profile(CHANCE.profile)
# The processes that pytest starts try the same.
os.environ["SLIMDEX_SEED"] = str(CHANCE.seed)


def pytest_report_header() -> str:
    return str(CHANCE)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Conversions of tests' models are not kept among the user's."""
    os.environ["SLIMDEX_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a BERT of three layers and 32 dimensions, random weights."""
    return make_tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def docstrings() -> list[Document]:
    """1,200 documents from the standard library."""
    batches = open_source("python:").batches()
    documents = [document for batch in batches for document in batch]
    return documents[:1200]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says a line at the end of the run: counts and seeds, to be seen when all is well."""
    return lambda line: record_property("said", line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [test for tests in terminalreporter.stats.values() for test in tests]
    for test in ended:
        if getattr(test, "when", None) == "call":
            for key, line in test.user_properties:
                if key == "said":
                    terminalreporter.write_line(line)
