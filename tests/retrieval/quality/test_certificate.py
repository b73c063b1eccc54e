"""A certificate is kept with the settings that it is of, and goes when they do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store.state import Certificate, State
from tests.conftest import Copies
from tests.encoders import WordEncoder

SETTINGS = Settings(k=24, kind="sq8", candidates=50)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, copied: Copies) -> Path:
    path = copied(tmp_path_factory.mktemp("made") / "x", 200, SETTINGS)
    with Collection.open(path, WordEncoder()) as collection:
        certify(collection)
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x"))


def certify(collection: Collection) -> Certificate:
    settings = collection.index.state.settings
    assert settings is not None
    certificate = Certificate(0.99, 0.98, 0.05, "a log", 500, len(collection), 0.9)
    writer.keep_certificate(collection.index, certificate, settings)
    return certificate


def said(path: Path) -> str | None:
    with Collection.open(path, WordEncoder()) as collection:
        shown: dict[str, Any] | None = collection.info()["certificate"]
    return shown["said"] if shown else None


def test_a_kept_certificate_is_in_info_and_on_disk(path: Path) -> None:
    with Collection.open(path, WordEncoder()) as collection:
        index = collection.index.snapshot.index
        certificate = certify(collection)
        assert collection.index.snapshot.index is index  # nothing is loaded again
        assert collection.info()["certificate"]["pool"] == "a log"
        assert State.from_json(collection.index.state.to_json()).certificate == certificate
    assert "measured on all 200 documents" in (said(path) or "")
    assert verify(path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "measured"),
    [
        (
            lambda c: c.add([Document("new", "one more")]),
            "measured on 200 documents; now there are 201",
        ),
        (lambda c: c.delete(next(iter(c)).id), "measured on 200 documents; now there are 199"),
        (lambda c: writer.rebuild(c.index), "measured on all 200 documents"),
        (lambda c: writer.rebuild(c.index, fit_again=True), None),
        (lambda c: c.reduce(SETTINGS), None),
    ],
)
def test_a_certificate_says_what_it_covers_after_changes_and_ends_with_the_fit(
    path: Path, change: Callable[[Collection], object], measured: str | None
) -> None:
    with Collection.open(path, WordEncoder()) as collection:
        change(collection)
    shown = said(path)
    if measured is None:
        assert shown is None
    else:
        assert shown is not None
        assert measured in shown


def test_repair_keeps_the_certificate_unless_it_refits(path: Path) -> None:
    (codes,) = path.glob("codes-*")
    os.truncate(codes, 10)
    assert repair(path)
    assert "measured on all 200" in (said(path) or "")
    (reducer,) = path.glob("reducer-*")
    os.truncate(reducer, 10)
    assert repair(path)
    assert said(path) is None
    assert verify(path) == []
