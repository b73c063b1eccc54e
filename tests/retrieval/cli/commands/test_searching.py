"""`slimdex search`: queries, filters, scores, and what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from slimdex.retrieval.encoders.hub import DEFAULT_MODEL
from slimdex.retrieval.encoders.runtimes.quick_start import quick_start
from slimdex.retrieval.search.reranking import CrossEncoder
from tests.encoders import make_cross_encoder

from ..running import PETS, Runner, write


def test_from_documents_to_answers_with_the_default_encoder(slimdex: Runner) -> None:
    """Meaning finds what shares no word with the question."""
    slimdex.model = DEFAULT_MODEL
    assert slimdex("build", "pets.jsonl", "--out", "pets", "--json").json["documents"] == 3
    assert slimdex("info", "pets", "--json").json["dimensions"] == 384
    questions = {"a kitten lay upon a rug": "cat", "bad weather over a house": "rain"}
    asked = [word for question in questions for word in ("--query", question)]
    found = slimdex("search", "pets", *asked, "--json").json["queries"]
    assert [query["hits"][0]["id"] for query in found] == [*questions.values()]
    found = slimdex.found("pets", "bad weather", "--where", "year < 2003")
    assert {hit["id"] for hit in found} == {"cat", "dog"}
    assert slimdex("verify", "pets").code == 0


def test_build_search_and_filter(pets: Runner) -> None:
    both = ("--query", "the cat sat on the mat", "--query", "rain")
    first, second = pets("search", "pets", *both, "-n", "2", "--json").json["queries"]
    assert first["query"] == "the cat sat on the mat"
    assert first["hits"][0]["id"] == "cat"
    assert first["hits"][0]["score"] == pytest.approx(1, abs=1e-3)
    assert first["hits"][0]["metadata"] == {"year": 2001, "kind": "pet"}
    assert len(second["hits"]) == 2
    filtered = pets.found("pets", "the cat", "--where", "year > 2001 AND kind = 'pet'")
    assert [hit["id"] for hit in filtered] == ["dog"]
    table = pets("search", "pets", "the", "cat sat", "on the mat")  # all words are one query
    assert table.out.startswith("the cat sat on the mat\n 1.000  cat\n")
    assert table.err == ""


def test_meaning_ranks_what_patterns_leave(slimdex: Runner) -> None:
    files = {
        "code/valve.c": "int shut(void) { return 0; }",
        "code/deep/valve.py": "import os\n\ndef shut():\n    return 'shut the valve'\n",
        "code/deep/test_valve.py": "def test_shut():\n    pass\n\nclass Rain: pass\n",
        "code/it's.md": "Shut the valve.\n\nThen import the def.",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    slimdex("build", "code", "--out", "x")

    def found(*options: str) -> set[str]:
        return {hit["id"] for hit in slimdex.found("x", "shut the valve", *options)}

    everything = {name.removeprefix("code/") for name in files}
    assert found() == everything
    for glob, names in {
        "*.py": {"deep/valve.py", "deep/test_valve.py"},
        "valve.*": {"valve.c", "deep/valve.py"},
        "**/valve.c": {"valve.c"},
        "deep/*": {"deep/valve.py", "deep/test_valve.py"},
        "code/valve.?": {"valve.c"},
        "test_[a-w]*.py": {"deep/test_valve.py"},
        "it's.md": {"it's.md"},
        "valve": set(),
    }.items():
        assert found("--glob", glob) == names, glob
    assert found("--glob", "*.c", "--glob", "*.md") == {"valve.c", "it's.md"}
    for regex, names in {
        r"^def \w+\(": {"deep/valve.py", "deep/test_valve.py"},
        r"^class|^int": {"valve.c", "deep/test_valve.py"},
        "shut": {"valve.c", "deep/valve.py", "deep/test_valve.py"},
        "(?i)shut": everything,
        "'shut": {"deep/valve.py"},
    }.items():
        assert found("--regex", regex) == names, regex
    both = ("--glob", "*.py", "--regex", "^import", "--where")
    assert found(*both, "folder = 'deep' OR true") == {"deep/valve.py"}
    assert found(*both, "folder = '' -- no file") == set()
    for option, value in (("--regex", "("), ("--regex", ""), ("--glob", "")):
        slimdex.refuses("search", "x", "valve", option, value)
    write("plain.jsonl", [{"id": "a", "text": "dog"}])
    slimdex("build", "plain.jsonl", "--out", "plain")
    assert "path" in slimdex.refuses("search", "plain", "dog", "--glob", "*.py")


def test_queries_from_a_file_keep_their_ids(pets: Runner) -> None:
    write(
        "asked.jsonl", [{"_id": "q7", "text": "rain fell on the roof"}, {"_id": "8", "text": "c"}]
    )
    Path("asked.txt").write_text("the dog chased the cat\n\nrain\n")
    first, second = pets("search", "pets", "--queries", "asked.jsonl", "--json").json["queries"]
    assert (first["id"], first["query"], second["id"]) == ("q7", "rain fell on the roof", "8")
    assert first["hits"][0]["id"] == "rain"
    lines = pets("search", "pets", "--queries", "asked.txt", "--json").json["queries"]
    assert [line["id"] for line in lines] == ["asked.txt:1", "asked.txt:3"]
    assert lines[0]["hits"][0]["id"] == "dog"
    assert "rain fell on the roof\n" in pets("search", "pets", "--queries", "asked.jsonl").out


def test_columns_that_are_asked_for_are_shown(pets: Runner) -> None:
    found = pets("search", "pets", "rain fell on the roof", "-n", "1", "--show", "YEAR,kind").out
    assert found.splitlines()[1:] == [
        " 1.000  rain",
        "        year: 2003  kind: -",
        "        rain fell on the roof",
    ]
    assert "column 'size'" in pets.refuses("search", "pets", "rain", "--show", "year,size")


@pytest.mark.slow
def test_hits_below_a_score_are_left_out(pets: Runner) -> None:
    words = ("search", "pets", "the cat sat on the mat", "--json")
    hits = pets(*words).json["queries"][0]["hits"]
    assert (hits[0]["id"], len(hits)) == ("cat", 3)
    with quick_start(), Collection.open("pets", model=pets.model) as collection:
        scores = [hit.score for hit in collection.search(words[2])]
    assert scores[1] < scores[0]
    for least, left in ((-1, 3), (scores[1], 2), (scores[1] + 1e-6, 1), (scores[0], 1)):
        kept = pets(*words, "--min-score", repr(float(least))).json["queries"][0]["hits"]
        assert kept == hits[:left]
    assert pets("search", "pets", "rain", "--min-score", "1").out == "rain\n  nothing found\n"
    pets.refuses("search", "pets", "rain", "--min-score", "nan")


def test_a_best_hit_no_nearer_than_chance_is_noted(slimdex: Runner) -> None:
    """A query beside all that the documents span, and one that is a document's own vector."""
    X = np.random.default_rng(0).standard_normal((120, 256))
    with Collection.create("x", GivenEncoder(256), Settings(kind="flat", gamma=0)) as collection:
        collection.add([Document(f"d{i}", "text") for i in range(120)], vectors=X)
        score = collection.chance_score()
    np.save("asked.npy", np.stack([X[3], np.linalg.svd(X)[2][-1]]))
    both = slimdex("search", "x", "--query-vector", "asked.npy")
    assert both.err.startswith("note: the best hit is no nearer than a random document would be")
    assert both.err.endswith("for 'vector 2'\n")
    answer = slimdex("search", "x", "--query-vector", "asked.npy", "--json")
    assert (answer.json["chance_score"], answer.err) == (pytest.approx(score), "")


@pytest.mark.slow
def test_candidates_of_one_search(slimdex: Runner) -> None:
    words = ("--k", "2", "--kind", "sq8", "--passages", "off")  # few enough rows to take all
    assert slimdex("build", "python:json", "--out", "x", *words).code == 0
    asked = ("search", "x", "parse a number", "--json")
    own, all_, codes = (
        slimdex(*asked, *more).json["queries"][0]["hits"]
        for more in ((), ("--candidates", "1000"), ("--candidates", "0"))
    )
    assert own == all_
    assert [hit["id"] for hit in codes] != [hit["id"] for hit in own]
    slimdex.refuses(*asked, "--candidates", "-1")
    slimdex("reduce", "x", "--candidates", "0")
    assert slimdex(*asked, "--candidates", "0").json["queries"][0]["hits"] == codes
    slimdex.refuses(*asked, "--candidates", "5")


def test_hybrid_search(pets: Runner) -> None:
    asked = ("search", "pets", "rain", "--hybrid")
    pets.refuses(*asked, "on")
    assert pets("lexical", "pets", "--off", "--json").json == {"documents": 3, "lexical": None}
    assert "no lexical index; expected one (`slimdex lexical" in pets.refuses(*asked, "0.5")
    made = pets("lexical", "pets")
    assert re.fullmatch(r"words of 3 documents, \d+ bytes a vector\n", made.out)
    found = pets("search", "pets", "chased", "--hybrid", "1", "-n", "1", "--json").json
    assert found["queries"][0]["hits"][0]["id"] == "dog"
    for way in ("0.9", "rrf", "auto"):
        assert "rain fell on the roof" in pets(*asked, way, "-n", "1").out
    write("more.jsonl", [{"id": "x", "text": "a zebra"}])
    pets("add", "pets", "more.jsonl")
    assert pets.found("pets", "zebra", "--hybrid", "1", "-n", "1")[0]["id"] == "x"
    assert pets("verify", "pets").code == 0
    assert pets("lexical", "pets", "--off").out == "lexical index removed\n"
    pets("build", "more.jsonl", "--out", "bare", "--no-lexical")
    assert pets("info", "bare", "--json").json["lexical"] is None


@pytest.mark.slow
def test_a_cross_encoder_reorders_hits(pets: Runner, tmp_path: Path) -> None:
    model = str(make_cross_encoder(tmp_path / "cross"))
    hits = pets.found("pets", "cat", "--rerank", model, "-n", "2")
    texts = [str(pet["text"]) for pet in PETS]
    scores = CrossEncoder(model).scores("cat", texts)
    assert [hit["id"] for hit in hits] == [PETS[i]["id"] for i in np.argsort(-scores)[:2]]
    assert [hit["score"] for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:2])
    alone = pets("search", "pets", "cat", "--rerank", model, "--rerank-depth", "1", "-n", "1")
    assert pets("search", "pets", "cat", "-n", "1").out.splitlines()[1].split()[1] in alone.out
    wrong = pets.refuses("search", "pets", "cat", "--rerank", "nowhere")  # one line: no retries
    assert wrong.startswith("error: cross-encoder nowhere: none found (")
    pets.refuses("search", "pets", "cat", "--rerank", model, "--rerank-depth", "0")
