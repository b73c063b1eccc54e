"""Options of the command line: what each of them does in each command that has it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes import choices
from slimdex.indexes.registry import REDUCERS
from tests.slow import slow

from .test_app import (  # noqa: F401  fixtures
    Runner,
    first_pets,
    held,
    pets,
    slimdex,
    write,
)
from .test_static_models import Run, ids, refused, run  # noqa: F401  fixtures

TRUSTED = "note: code that comes with the model is run, with your rights"
LETTERS = "nr;heading;body;zip\n7;Café;rain and rain;01234\n"
COLUMNS = ("--id", "nr", "--title", "heading", "--text", "body", "--types", "zip=VARCHAR")


@pytest.fixture
def notes(run: Run, tmp_path: Path) -> Run:  # noqa: F811
    """The same, with an index of the notes."""
    assert run("build", "notes.jsonl", "--model", "glove.txt", "--out", "i")[0] == 0
    return run


def command(name: str, *words: str) -> tuple[str, ...]:
    """A command that brings documents into "j", which is new, or into "i"."""
    if name == "build":
        return (name, *words, "--model", "glove.txt", "--out", "j")
    return (name, "i", *words)


def opened(run: Run, name: str, document: str) -> Any:  # noqa: F811
    code, out, err = run("open", "j" if name == "build" else "i", document, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("name", ["build", "add", "sync"])
def test_columns_types_and_the_form_of_a_file(notes: Run, name: str) -> None:
    Path("letters.data").write_text(LETTERS, encoding="latin-1")
    words = ("letters.data", *COLUMNS, "--encoding", "latin-1", "--format", "csv")
    code, _, err = notes(*command(name, *words))
    assert code == 0, err
    document = opened(notes, name, "7")
    assert (document["title"], document["text"]) == ("Café", "rain and rain")
    assert document["metadata"] == {"zip": "01234"}
    for option, column in (("--id", "no"), ("--title", "no"), ("--text", "no")):
        code, _, err = notes(*command(name, "letters.data", *words[1:], option, column))
        assert (code, err.count("\n")) == (2, 1)
        assert f"no column 'no' for the {option[2:]}; it has nr, heading, body, zip" in err


@pytest.mark.parametrize("name", ["build", "add", "sync"])
def test_the_answer_to_a_query_is_a_source(notes: Run, name: str) -> None:
    asked = "SELECT 7 AS id, 'rain and rain' AS text UNION ALL SELECT 8, 'the dog'"
    code, _, err = notes(*command(name, "--sql", asked))
    assert code == 0, err
    assert [opened(notes, name, id)["text"] for id in "78"] == ["rain and rain", "the dog"]
    code, _, err = notes(*command(name, "--sql", "SELECT 7 AS"))
    assert (code, err.count("\n")) == (2, 1)
    assert "sql 'SELECT 7 AS': Parser Error: syntax error" in err


def test_a_sync_refits_only_if_it_is_to(notes: Run) -> None:
    more = [{"id": str(i), "text": text} for i, text in enumerate(["rain"] * 9)]
    write("notes.jsonl", more)
    for refit, refitted in (("never", False), ("always", True)):
        write("notes.jsonl", [*more, {"id": refit, "text": f"the cat and the dog {refit}"}])
        code, out, err = notes("sync", "i", "notes.jsonl", "--refit", refit, "--json")
        assert code == 0, err
        assert (json.loads(out)["added"] > 0, json.loads(out)["refitted"]) == (True, refitted)
    code, _, err = notes("sync", "i", "notes.jsonl", "--refit", "soon")
    assert (code, err) == (2, "error: refit='soon'; expected auto, never or always\n")


def test_a_corpus_to_distill_by_has_its_text_where_it_is_said(run: Run) -> None:  # noqa: F811
    Path("letters.csv").write_text("kind,body\nx,rain rain rain\ny,the cat\n")
    corpus = ("--sif", "--corpus", "letters.csv", "--text", "body")
    assert run("distill", "glove.txt", *corpus, "--out", "fitted")[0] == 0
    write("same.jsonl", [{"text": "rain rain rain"}, {"text": "the cat"}])
    expected = ("--sif", "--corpus", "same.jsonl")
    assert run("distill", "glove.txt", *expected, "--out", "same")[0] == 0
    made = [path for path in Path("fitted").iterdir() if path.suffix == ".safetensors"]
    assert made
    assert all(path.read_bytes() == Path("same", path.name).read_bytes() for path in made)
    said = refused(run, "distill", "glove.txt", *corpus[:-1], "no", "--out", "none")
    assert "no column 'no' for the text; it has kind, body" in said


def test_a_document_that_is_the_query_is_dropped(notes: Run) -> None:
    """Every query is a document word for word, and the answer to it the next best."""
    write("asked.jsonl", [{"id": "0", "text": "the cat"}])
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\n0\t3\t1\n")
    labels = ("--queries", "asked.jsonl", "--qrels", "qrels.tsv", "--json")
    for words, expected in (((), 0.6309), (("--drop-self",), 1.0)):
        report = json.loads(notes("eval", "i", *labels, *words)[1])
        assert report["exact"]["ndcg@10"] == pytest.approx(expected, abs=1e-4)
        steps = json.loads(notes("info", "i", "--losses", *labels, *words)[1])["steps"]
        assert [step["value"] for step in steps[1:]] == pytest.approx([expected] * 5, abs=1e-4)


def test_all_that_is_derived_is_rebuilt_of_an_untrusted_index(notes: Run) -> None:
    before = {path.name: path.read_bytes() for path in Path("i").iterdir()}
    code, out, err = notes("repair", "i", "--untrusted")
    assert (code, err, out.splitlines()[-1]) == (0, "", "i: rebuilt")
    replaced = {name for name in before if name not in ("catalog.duckdb", "vectors-000001.f16")}
    assert len(replaced) == 7
    assert {
        Path(line.removesuffix(": untrusted")).name for line in out.splitlines()[:-1]
    } == replaced
    assert not replaced & {path.name for path in Path("i").iterdir()}
    assert ids(notes, "i", "RAIN")[0] == "1"
    assert notes("repair", "i")[1] == "i: nothing to repair\n"


@pytest.mark.slow
def test_where_a_model_has_moved_to(notes: Run) -> None:
    Path("asked.txt").write_text("the cat\nrain\n")
    Path("glove.txt").rename("moved.txt")
    exported = ("export", "i", "--to", "onnx", "--out", "exported")
    tuned = ("tune", "i", "--queries", "asked.txt", "--agreement", "0.9")
    for words in (exported, tuned):
        assert "no such file or folder; if it has moved" in refused(notes, *words)
    code, out, _ = notes(*exported, "--model", "moved.txt")
    assert (code, out) == (0, "a model of reduced vectors of 4 dimensions in exported\n")
    assert "2 queries prove 0.0000 at most" in refused(notes, *tuned, "--model", "moved.txt")


@pytest.mark.slow
def test_a_command_waits_for_a_writer(pets: Runner) -> None:  # noqa: F811
    commands = [
        ("health", "pets"),
        ("tune", "pets", "--agreement", "0.9"),
        ("export", "pets", "--to", "npz", "--out", "new"),
        ("push", "pets", "--milvus", "new.db"),
        ("serve", "pets", "--port", "0"),
        ("mcp", "pets"),
    ]
    with held("write", 60) as process:
        for words in commands:
            start = time.monotonic()
            said = pets.refuses(*words, "--wait", "0.2")
            assert f"process {process.pid} is writing to it; expected no writer" in said
            assert time.monotonic() - start >= 0.2
    assert sorted(path.name for path in Path().iterdir()) == ["pets", "pets.jsonl"]


@pytest.mark.slow
def test_the_demonstration_shows_an_existing_index(slimdex: Runner) -> None:  # noqa: F811
    assert slimdex("build", "python:json", "--out", "shown", "--passages", "off").code == 0
    shown = slimdex("demo", "--out", "shown")
    assert shown.code == 0
    documents = slimdex("info", "shown", "--json").json["documents"]
    assert shown.out.startswith(f"{documents} docstrings in shown\n")
    assert "Try your own: slimdex search shown sort a list\n" in shown.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "2"), "--workers 2 without --ray; expected --ray local or an address"),
        (("--ray", "local", "--workers", "0"), "workers=0; expected 1 or more"),
    ],
)
def test_workers_are_rays(slimdex: Runner, words: tuple[str, ...], said: str) -> None:  # noqa: F811
    assert said in slimdex.refuses("build", "pets.jsonl", "--out", "new", *words)
    assert not Path("new").exists()


@pytest.mark.slow
def test_prompts_are_written_before_texts(slimdex: Runner) -> None:  # noqa: F811
    """What is asked is then word for word a document: without one of the prompts it is not."""
    write("pets.jsonl", [{"id": "dog", "text": "dog"}, {"id": "rain", "text": "rain"}])
    own = ("build", "pets.jsonl", "--precision", "fp32", "--out")
    both = ("--document-prompt", "the cat ", "--query-prompt", "the ")
    assert slimdex(*own, "both", *both).code == 0
    assert slimdex(*own, "one", *both[:2], "--query-prompt", "").code == 0
    assert slimdex("info", "both", "--json").json["encoder"]["prompts"] == ["the ", "the cat "]
    scores = []
    for index, query in (("both", "cat dog"), ("one", "the cat dog"), ("one", "dog")):
        found = slimdex("search", index, query, "--json").json["queries"][0]["hits"]
        scores.append({hit["id"]: hit["score"] for hit in found}["dog"])
    assert scores[:2] == pytest.approx([1, 1], abs=1e-3)
    assert scores[2] < 0.99


@pytest.fixture(scope="module")
def first_trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an index is kept whose model's code is trusted, to be copied for each test."""
    return tmp_path_factory.mktemp("trusted") / "pets"


@pytest.fixture
def trusted(slimdex: Runner, first_trusted: Path) -> Runner:  # noqa: F811
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
                ["tune", "pets", "--queries", "asked.txt"],
                ["export", "pets", "--to", "onnx", "--out", "new"],
                ["eval", "pets", "--self"],
                ["info", "pets", "--losses"],
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


def test_reducers_have_the_names_that_help_lists() -> None:
    """Help can't ask the classes, which take numpy a tenth of a second."""
    assert [reducer.name for reducer in REDUCERS.values()] == list(choices.REDUCERS)
