"""Options of experiments: what each of them changes, or refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slimdex.bench.datasets import Dataset
from slimdex.errors import InputError
from tests.encoders import direction

from .test_commands import bench


@pytest.fixture
def words(dataset: Dataset, beir: Path) -> tuple[object, ...]:
    """What says: the set of words, by vectors of them."""
    known = sorted({word for text in dataset.texts for word in text.split()})
    lines = [" ".join([word, *map(str, direction(word, 48))]) for word in known]
    model = beir.parent / "vectors.txt"
    model.write_text("\n".join(lines) + "\n")
    return ("--data", beir, "--sets", "words", "--models", model)


def rows_of(folder: Path, experiment: str) -> list[dict[str, Any]]:
    (file,) = (folder / "bench-results").glob(f"{experiment}-*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "nothing: no slimdex index there"),
        (["--out", "none/x.html"], "--out none/x.html; expected a file in an existing folder"),
        (["--queries", "x"], "expected both --queries and --qrels, or neither"),
        (["--queries", "x", "--qrels", "y"], "labels without an index"),
        (["index", "x", "--candidates", "0"], "candidates=0; expected 1 or more"),
        (["index", "x", "--candidates", "many"], "candidates='many'; expected auto or a whole"),
        (["index", "x", "--queries", "y"], "y: no such file"),
        (["search", "--only", "Oracle"], "--only 'Oracle'; expected some of slimdex, slimdex by "),
        (["peers", "--only", "Oracle"], "--only 'Oracle'; expected some of hnswlib"),
        (["retrieval", "--data", ".", "--sets", "nothing"], "nothing: no such folder"),
        (["report", "--results", "none", "--out", "page"], "none: no rows of results; "),
    ],
)
def test_what_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("the cat\n")
    with pytest.raises(InputError) as refused:
        bench(*words, folder=tmp_path)
    assert said in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["q.txt"]


@pytest.mark.slow
def test_documents_are_asked_for_by_their_names(words: tuple[object, ...], tmp_path: Path) -> None:
    bench("hybrid", *words, "--names", folder=tmp_path)
    assert {row["what"] for row in rows_of(tmp_path, "hybrid")} == {"queries", "names"}
    assert [*(tmp_path / "bench-cache").iterdir()]
