"""The study of builds on Ray: two builds, compared, and a build that fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from slimdex.bench.reporting.ray_tables import builds
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder

pytest.importorskip("psutil", reason="the extra bench is not installed")
from slimdex.bench.experiments.ray_study import build_with_kills, compared, measure_ray


@pytest.mark.slow
def test_a_row_for_each_build(tiny_bert: Path, tmp_path: Path, docstrings: list[Document]) -> None:
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    source, results = tmp_path / "d.jsonl", ResultsFile(tmp_path / "ray-builds.jsonl")
    lines = [json.dumps({"id": d.id, "text": d.text[:60]}) for d in docstrings]
    source.write_text("\n".join(lines))
    folder = tmp_path / "indexes"
    folder.mkdir()
    measure_ray(source, str(tiny_bert), [2], (0, 0), results, {}, folder)
    alone, two = results.rows.values()
    assert (alone["workers"], two["workers"]) == (0, 2)
    assert alone["ratio"] == 1.0
    assert two["ratio"] == pytest.approx(two["build_s"] / alone["build_s"], rel=1e-4)
    assert two["documents"] == 1200
    assert two["reducer_difference"] < 1e-6
    assert two["same_answers"] == 1.0
    (table,) = builds([alone, two])
    assert len(table.rows) == 2


@pytest.mark.slow
def test_indexes_that_differ_are_told_apart(tmp_path: Path, docstrings: list[Document]) -> None:
    for name, documents in (("a", docstrings[:300]), ("b", docstrings[1:301])):
        with Collection.create(tmp_path / name, WordEncoder(), Settings(16, kind="sq8")) as made:
            made.add(documents)
    same, other = (compared(tmp_path / "a", tmp_path / name) for name in "ab")
    assert (same["files_differing"], same["reducer_difference"], same["same_answers"]) == (0, 0, 1)
    assert other["files_differing"] > 4
    assert other["reducer_difference"] > 1e-4
    assert other["same_answers"] < 0.5


def test_a_build_that_fails_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such corpus')"]
    with pytest.raises(InputError, match="exit code 1: no such corpus"):
        build_with_kills(command, 0, 0, Random(0), tmp_path / "log")
