"""Commands and services, each in real processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from slimdex.bench.engines import peer_programs
from slimdex.bench.engines.processes import WorkerError
from slimdex.bench.engines.servers import serving
from slimdex.bench.experiments import running_study
from slimdex.bench.experiments.running_study import Extent
from slimdex.bench.reporting.tables import beside_busy_processes, commands
from slimdex.bench.rows import read_rows
from slimdex.errors import InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.bench.test_commands import bench

TEXTS = {"1": "the cat", "2": "a dog and the rain", "3": "dog dog"}
PROGRAM = """
import pathlib, sys
_, library, action, folder, model, argument = sys.argv
if action == "build":
    assert len(pathlib.Path(argument).read_text().splitlines()) == 3
    pathlib.Path(folder).mkdir()
else:
    assert action == "search" and pathlib.Path(folder).is_dir()
"""
"""In place of another library's, whose import takes seconds."""


@pytest.fixture
def index(tiny_bert: Path, tmp_path: Path) -> Path:
    """An index of the texts."""
    with Collection.create(tmp_path / "texts.index", open_encoder(str(tiny_bert))) as collection:
        collection.add(Document(id, text) for id, text in TEXTS.items())
    return tmp_path / "texts.index"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the quick extent of the study still smaller."""
    extent = Extent(documents=2, rounds=1, seconds=0.5)
    monkeypatch.setattr(running_study, "QUICK", extent)


@pytest.mark.slow
def test_commands_and_calls_are_timed_alone_and_beside_busy_processes(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    program = SimpleNamespace(__file__=tmp_path / "program.py")
    monkeypatch.setattr(running_study, "peer_programs", program)
    monkeypatch.setattr(running_study, "PACKAGES", {"other": ("numpy",)})
    before = {path: path.stat().st_mtime_ns for path in index.rglob("*")}
    said = bench("running", index, "--only", "start", "--quick", folder=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in index.rglob("*")} == before
    every = read_rows(tmp_path / "bench-results", "start")
    rows = {row["method"]: row for row in every}
    programs = ["python -c pass", "slimdex --help", "slimdex info", "slimdex search", "other"]
    calls = ["search", "search_many of 3", "add 3", "slimdex serve"]
    assert [*rows] == [*programs, *calls]
    assert [row["error"] for row in every if "error" in row] == []
    for row in every:
        assert row["documents"] == 3
        for way in ("alone", "busy"):
            assert 0 <= row[f"{way}_cpu_s"] < 60
            assert 0 < row[f"{way}_s"] < 60
    floor, search = rows["python -c pass"]["alone_s"], rows["slimdex search"]
    assert 0 < floor < min(search["alone_s"], search["first_s"])
    assert rows["search"]["busy_s"] < search["busy_s"]
    for made, lines in (
        (commands(every), len(programs)),
        (beside_busy_processes(every), len(every)),
    ):
        (table,) = made
        assert len(table.rows) == lines
        assert f"\n| {' | '.join(table.heads)} |\n" in said


@pytest.mark.slow
def test_sentence_transformers_finds_the_nearest(
    tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(f"{json.dumps({'id': i, 'text': t})}\n" for i, t in TEXTS.items()))
    folder = str(tmp_path / "index")
    for action, argument in (("build", str(documents)), ("search", "rain")):
        peer_programs.main("sentence-transformers", action, folder, str(tiny_bert), argument)
    encoder = TransformerEncoder(str(tiny_bert), precision="fp32")
    scores = normalize_rows(encoder.encode([*TEXTS.values()])) @ encoder.encode(["rain"])[0]
    expected = sorted(TEXTS, key=lambda id: -scores[[*TEXTS].index(id)])
    assert json.loads(capsys.readouterr().out) == expected


def test_an_index_of_vectors_is_refused(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", lambda texts: np.ones((len(texts), 4))) as collection:
        collection.add([Document("1", "the cat")])
    with pytest.raises(InputError, match="expected an index of texts, made by a model"):
        bench("running", tmp_path / "x", "--only", "start", folder=tmp_path)


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(WorkerError, match=r"^nothing there$"):
        running_study.run(["sh", "-c", "echo nothing there >&2; exit 3"])


@pytest.mark.slow
def test_a_service_answers_and_its_memory_is_named(index: Path, tmp_path: Path) -> None:
    with serving(index) as server:
        answer = json.loads(server.ask(json.dumps({"query": "rain", "limit": 1})))
        assert len(answer["queries"][0]["hits"]) == 1
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    bench("running", index, "--only", "serve", "--quick", "--out", "rows", folder=tmp_path)
    every = read_rows(tmp_path / "rows", "serve")
    loads = [row for row in every if row["what"] == "serve" and row["method"] == "slimdex serve"]
    asked = [(row["way"], row["callers"]) for row in loads]
    assert asked == [(way, callers) for way in ("texts", "vectors") for callers in (1, 8, 64)]
    assert min(row["searches_per_s"] for row in loads) > 0
    parts = {row["part"]: row["loaded_bytes"] for row in every if row["what"] == "memory"}
    whole = parts.pop("whole process")
    assert sum(parts.values()) == whole > parts["openvino"] > 0


def test_a_service_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}/none"), serving(tmp_path / "none"):
        pass
