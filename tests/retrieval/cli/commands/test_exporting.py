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


def test_it_says_what_it_wrote(run: Runner) -> None:
    code, out, _ = run("export", "i", "--to", "npz", "--out", "a.npz", "--vectors", "reduced")
    assert (code, out) == (0, "9 documents with reduced vectors of 2 dimensions in a.npz\n")
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
    assert sorted(path.name for path in Path().iterdir()) == ["a.npz", "b", "i"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--to", "xml", "--out", "x"), "to='xml'; expected parquet, jsonl, csv, npz, faiss, sen"),
        (("--to", "npz", "--out", "i"), "i exists; expected a new file"),
        (("--to", "faiss", "--out", "i"), "i exists; expected a new folder"),
        (("--to", "npz", "--out", "x", "--where", "year = 1"), "no documents where 'year = 1'"),
        (("--to", "onnx", "--out", "x"), "encoder 'given'; expected a TransformerEncoder or"),
    ],
)
def test_bad_input_is_one_line(run: Runner, words: tuple[str, ...], line: str) -> None:
    assert line in run.refuses("export", "i", *words)
    assert [path.name for path in Path().iterdir()] == ["i"]
