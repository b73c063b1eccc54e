"""`slimdex export` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slimdex import Collection, GivenEncoder, Settings

from ..running import Runner


@pytest.fixture
def run(bare: Runner) -> Runner:
    """`slimdex` beside an index "i"."""
    with Collection.create("i", GivenEncoder(3), Settings(2, kind="flat")) as collection:
        documents = [{"id": str(i), "text": "x", "year": 2000 + i} for i in range(9)]
        collection.add(documents, vectors=np.eye(9, 3) + 0.1)
    return bare


def test_an_export_reports_what_it_wrote(run: Runner) -> None:
    code, out, _ = run("export", "i", "--to", "csv", "--out", "a.csv", "--vectors", "reduced")
    assert (code, out) == (0, "9 documents with reduced vectors of 2 dimensions in a.csv\n")
    words = ("--to", "parquet", "--out", "b", "--where", "year > 2006")
    code, out, err = run("export", "i", *words, "--json")
    assert json.loads(out) == {
        "to": "parquet",
        "path": "b",
        "vectors": "full",
        "dim": 3,
        "rows": 2,
        "documents": 2,
        "notes": [],
    }
    assert (code, err) == (0, "")
    assert sorted(path.name for path in Path().iterdir()) == ["a.csv", "b", "i"]


def test_a_refused_export_leaves_nothing(run: Runner) -> None:
    for words in (("--to", "xml", "--out", "x"), ("--to", "csv", "--out", "i")):
        run.refuses("export", "i", *words)
        assert [path.name for path in Path().iterdir()] == ["i"]
