"""Commands about an index: what it costs, how good it is, how it is made, whether it is whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes import options as choices
from slimdex.indexes.reducers.registry import reducer_class
from slimdex.retrieval.atomic_files import FIXED, MANIFEST
from slimdex.retrieval.collection import Collection
from tests.slow import slow

from ..running import Runner, held, write

TRUSTED = "note: code that comes with the model is run with your permissions"


def test_info(pets: Runner, tiny_bert: Path) -> None:
    facts = pets("info", "pets", "--json").json
    assert (facts["documents"], facts["dimensions"]) == (3, 32)
    assert facts["columns"] == {"year": "BIGINT", "kind": "VARCHAR"}
    assert facts["encoder"]["model"] == str(tiny_bert)
    assert facts["memory"]["ram_bytes_per_vector"] == 12
    assert facts["files"]["vectors-000001.f16"] == 3 * 32 * 2
    assert facts["stored"] == {"vectors": "fp16", "bytes_per_vector": 64}
    assert "documents" in pets("info", "pets").out


def test_reduce_keeps_what_is_not_given(pets: Runner) -> None:
    facts = pets("reduce", "pets", "--kind", "sq8", "--k", "2", "--json").json
    assert facts["settings"]["kind"] == "sq8"
    assert facts["settings"]["k"] == 2
    facts = pets("reduce", "pets", "--reducer", "pca", "--candidates", "0", "--json").json
    assert (facts["settings"]["kind"], facts["settings"]["candidates"]) == ("sq8", 0)
    assert (facts["settings"]["reducer"], facts["settings"]["k"]) == ("pca", 2)
    facts = pets("reduce", "pets", "--reducer", "identity", "--json").json
    assert facts["settings"]["k"] == 32


def test_reducers_have_the_names_that_help_lists() -> None:
    """Help can't ask the classes, which take numpy a tenth of a second."""
    assert [reducer_class(name).name for name in choices.REDUCERS] == list(choices.REDUCERS)


def test_eval_reports_both_sides(pets: Runner) -> None:
    write("queries.jsonl", [{"_id": "q1", "text": "the cat"}, {"_id": "q2", "text": "unlabelled"}])
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tcat\t1\n")
    labels = ("--queries", "queries.jsonl", "--qrels", "qrels.tsv")
    report = pets("eval", "pets", *labels, "--json").json
    assert report["queries"] == 1
    expected = {
        *("ndcg@10", "mrr@10", "recall@10", "recall@100", "encoder_agreement@10"),
        *("agreement@10", "p50_ms", "p95_ms", "p99_ms"),
        *(f"{way}_to_documents_p{p}_ms" for way in ("vector", "text") for p in (50, 95, 99)),
        *("ram_bytes_per_vector", "ram_bytes_fixed", "disk_bytes_per_vector"),
    }
    assert all(set(report[column]) == expected for column in ("default", "index", "exact"))
    assert report["index"]["recall@10"] == report["index"]["encoder_agreement@10"] == 1
    assert report["exact"]["ram_bytes_per_vector"] == 128
    table = pets("eval", "pets", *labels).out
    assert "ndcg@10" in table
    assert "exact" in table


@pytest.mark.slow
def test_eval_without_labels(pets: Runner) -> None:
    report = pets("eval", "pets", "--self", "--sample", "2", "--json").json
    assert (report["queries"], report["documents"]) == (2, 3)
    assert report["exact"]["agreement@10"] is None
    assert "ndcg@10" not in report["index"]
    assert "agreement@10 with exact search" in pets("eval", "pets", "--self").out
    for words in ((), ("--self", "--qrels", "q"), ("--queries", "q"), ("--qrels", "q")):
        pets.refuses("eval", "pets", *words)


def test_a_document_that_is_the_query_is_dropped(notes: Runner) -> None:
    """Every query is a document word for word, and the answer to it the next best."""
    write("asked.jsonl", [{"id": "0", "text": "the cat"}])
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\n0\t3\t1\n")
    labels = ("--queries", "asked.jsonl", "--qrels", "qrels.tsv", "--json")
    for words, expected in (((), 0.6309), (("--drop-self",), 1.0)):
        report = notes("eval", "i", *labels, *words).json
        assert report["exact"]["ndcg@10"] == pytest.approx(expected, abs=1e-4)


def test_a_copy_is_an_index(notes: Runner) -> None:
    assert notes("copy", "i", "--out", "b").out.startswith("b: i at version ")
    assert notes.found("b", "RAIN") == notes.found("i", "RAIN")
    assert notes("copy", "i", "--out", "c", "--json").json == {"path": "c", "version": 2}
    assert "b exists; expected a new folder" in notes.refuses("copy", "i", "--out", "b")


@pytest.mark.slow
def test_verify_and_repair(pets: Runner) -> None:
    assert "are right" in pets("verify", "pets").out
    assert pets("verify", "pets", "--json").json == {"faults": []}
    (codes,) = Path("pets").glob("codes-*")
    codes.write_bytes(b"x" + codes.read_bytes()[1:])
    assert f"{codes.name}: damaged" in pets.refuses("verify", "pets")
    assert f"{codes.name}: damaged" in pets.refuses("search", "pets", "cat")
    assert "rebuilt" in pets("repair", "pets").out
    assert "nothing to repair" in pets("repair", "pets").out
    assert pets("search", "pets", "the cat", "--json").code == 0


def test_all_that_is_derived_is_rebuilt_of_an_untrusted_index(notes: Runner) -> None:
    before = {path.name for path in Path("i").iterdir()}
    code, out, err = notes("repair", "i", "--untrusted")
    assert (code, err, out.splitlines()[-1]) == (0, "", "i: rebuilt")
    replaced = {name for name in before if not name.startswith((*FIXED, "vectors", "segment"))}
    assert len(replaced) == 9
    assert {
        Path(line.removesuffix(": untrusted")).name for line in out.splitlines()[:-1]
    } == replaced
    assert not replaced & {path.name for path in Path("i").iterdir()}
    assert notes.found("i", "RAIN")[0]["id"] == "1"
    assert notes("repair", "i")[1] == "i: nothing to repair\n"


@pytest.mark.slow
def test_where_a_model_has_moved_to(notes: Runner) -> None:
    Path("asked.txt").write_text("the cat\nrain\n")
    Path("glove.txt").rename("moved.txt")
    exported = ("export", "i", "--to", "sentence-transformers", "--out", "exported")
    tuned = ("tune", "i", "--agreement", "0.9")
    assert "no such file or folder; if it has moved" in notes.refuses(*exported)
    code, out, _ = notes(*exported, "--model", "moved.txt")
    assert (code, out) == (0, "a model of reduced vectors of 4 dimensions in exported\n")
    asked = ("--queries", "asked.txt", "--model", "moved.txt")
    assert "2 queries prove 0.0000 at most" in notes.refuses(*tuned, *asked)


@pytest.mark.slow
def test_the_demonstration_shows_an_existing_index(slimdex: Runner) -> None:
    assert slimdex("build", "python:json", "--out", "shown", "--passages", "off").code == 0
    shown = slimdex("demo", "--out", "shown")
    assert shown.code == 0
    documents = slimdex("info", "shown", "--json").json["documents"]
    assert shown.out.startswith(f"{documents} docstrings in shown\n")
    assert "bytes per vector in RAM" in shown.out or "agreement@10" in shown.out
    assert "Try your own: slimdex search shown sort a list\n" in shown.out


@pytest.fixture(scope="module")
def first_trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an index is kept whose model's code is trusted, to be copied for each test."""
    return tmp_path_factory.mktemp("trusted") / "pets"


@pytest.fixture
def trusted(slimdex: Runner, first_trusted: Path) -> Runner:
    if not first_trusted.exists():
        words = ("build", "pets.jsonl", "--out", str(first_trusted), "--trust-remote-code")
        built = slimdex(*words, "--precision", "fp32")
        assert (built.code, built.err.splitlines()[0]) == (0, TRUSTED)
    shutil.copytree(first_trusted, "pets")
    return slimdex


@pytest.mark.parametrize(
    "words",
    [
        ["search", "pets", "rain"],
        *slow(
            [
                ["add", "pets", "more.jsonl"],
                ["sync", "pets", "more.jsonl"],
                ["health", "pets"],
                ["export", "pets", "--to", "sentence-transformers", "--out", "new"],
                ["eval", "pets", "--self"],
            ]
        ),
    ],
    ids=lambda words: words[0],
)
def test_a_models_code_is_to_be_trusted_again(trusted: Runner, words: list[str]) -> None:
    write("more.jsonl", [{"id": f"x{i}", "text": f"the cat {i} and the dog"} for i in range(9)])
    Path("asked.txt").write_text("the cat\nrain\n")
    said = trusted(*words)
    assert said.code == 2
    assert "has custom code; expected --trust-remote-code" in said.err
    done = trusted(*words, "--trust-remote-code")
    assert done.err.splitlines()[0] == TRUSTED
    assert "has custom code" not in done.err


def findings(slimdex: Runner, *words: str) -> dict[str, Any]:
    result = slimdex("doctor", *words, "--json")
    found = {each["name"]: each for each in result.json["findings"]}
    bad = any(each["remedy"] for each in found.values())
    assert (result.code, result.json["well"]) == (int(bad), not bad)
    return found


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_sound_installation(bare: Runner, own_cache: Path) -> None:
    own_cache.mkdir()
    (own_cache / "w").write_bytes(bytes(2_000_000))
    findings_by_name = findings(bare)
    assert f"numpy {metadata.version('numpy')}" in findings_by_name["libraries"]["value"]
    assert "2 MB" in findings_by_name["cache"]["value"]
    assert findings_by_name["index"]["value"].startswith("none here")
    assert "libraries" in bare("doctor").out


def test_a_cache_that_is_a_file(bare: Runner, own_cache: Path) -> None:
    own_cache.write_text("")
    assert findings(bare)["cache"]["remedy"].startswith("set SLIMDEX_CACHE")


def test_an_index_is_described_and_not_changed(pets: Runner) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path("pets").rglob("*")}
    found = findings(pets, "pets")
    assert found["newest commit"]["value"].endswith(", 3 rows, 0 of them deleted")
    assert found["being changed"]["value"] == "by no process"
    assert not {"files", "addition", "commit", "work folders"} & found.keys()
    assert {path: path.stat().st_mtime_ns for path in Path("pets").rglob("*")} == before
    shutil.copytree("pets", ".slimdex")
    assert "3 rows" in findings(pets)["newest commit"]["value"]


def test_doctor_names_remedies(pets: Runner) -> None:
    assert pets("delete", "pets", "cat", "dog").code == 0
    assert findings(pets, "pets")["newest commit"]["remedy"] == "slimdex compact pets"
    with Collection.open("pets") as opened:
        state = opened.state
    Path("pets", state.files["codes"].name).unlink()
    Path("pets/work-00000000").mkdir()
    found = findings(pets, "pets")
    assert found["files"]["remedy"] == "slimdex repair pets"
    assert state.files["codes"].name in found["files"]["value"]
    assert found["work folders"]["value"].startswith("1 left by killed processes")
    Path("pets", MANIFEST).write_bytes(b"junk")
    assert findings(pets, "pets")["newest commit"]["remedy"] == "restore the folder from a copy"


def test_a_writer_is_named(pets: Runner) -> None:
    with held(60) as other:
        found = findings(pets, "pets")
        assert f"process {other.pid} is writing to it" in found["being changed"]["value"]
        assert "commit" not in found


def test_doctor_refuses_a_folder_without_an_index(
    bare: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nosuch: no slimdex index there" in bare.refuses("doctor", "nosuch")
    monkeypatch.setenv("SLIMDEX_INDEX", "nosuch")
    assert findings(bare)["index"]["remedy"].startswith("set SLIMDEX_INDEX")


WITHOUT = """
import importlib.metadata as metadata, sys
found = metadata.version
def version(name):
    if name in {"numpy", "py3langid"}:
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
sys.modules["numpy"] = None
from slimdex.__main__ import main
sys.argv = ["slimdex", "doctor", "pets"]
try:
    main()
finally:
    print(not {"torch", "transformers"} & sys.modules.keys(), file=sys.stderr)
"""


def test_missing_libraries_are_findings(pets: Runner) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "missing: numpy" in done.stdout
    assert "-m pip install numpy" in done.stdout
    assert "can't be read: import of numpy" in done.stdout
    assert "OpenVINO does not start" in done.stdout
    assert "not installed: pip install" in done.stdout
    assert done.stderr == "True\n"
