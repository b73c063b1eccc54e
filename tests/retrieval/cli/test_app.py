"""The command line as a user meets it: answers, bad input, exit codes, files left behind."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from typer.testing import CliRunner

from slimdex.__main__ import main
from slimdex.indexes.settings import Settings
from slimdex.retrieval.building import Sources, build
from slimdex.retrieval.cli.app import app
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.hub import DEFAULT_MODEL
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.search.reranking import CrossEncoder
from slimdex.retrieval.sources.given_vectors import GivenEncoder
from tests import forked
from tests.encoders import WordEncoder, make_cross_encoder
from tests.slow import slow

PETS = [
    {"id": "cat", "text": "the cat sat on the mat", "year": 2001, "kind": "pet"},
    {"id": "dog", "text": "the dog chased the cat", "year": 2002, "kind": "pet"},
    {"id": "rain", "text": "rain fell on the roof", "year": 2003, "kind": None},
]


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


class Runner:
    """Runs `slimdex` in this process, in a folder of its own, with a tiny real model."""

    def __init__(self, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.model, self._capsys = str(model), capsys

    def __call__(self, *words: str) -> Result:
        if words[0] == "build" and "--model" not in words:
            words = (*words, "--model", self.model)
        if words[0] == "build" and "--max-length" not in words:
            words = (*words, "--max-length", "32")
        self._capsys.readouterr()
        before = sys.argv
        sys.argv = ["slimdex", *words]
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            sys.argv = before
        out, err = self._capsys.readouterr()
        return Result(code, out, err)

    def refuses(self, *words: str) -> str:
        """The one line on stderr of a command that must exit with 2."""
        result = self(*words)
        assert result.code == 2, (result.code, result.out, result.err)
        assert "Traceback" not in result.err
        assert result.out == ""
        assert result.err.count("\n") == 1, result.err
        return result.err


@pytest.fixture
def slimdex(
    tiny_bert: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Runner:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write("pets.jsonl", PETS)
    return Runner(tiny_bert, capsys)


@pytest.fixture(scope="module")
def first_pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first index of the pets is kept, to be copied for each other test."""
    return tmp_path_factory.mktemp("first") / "pets"


@pytest.fixture
def pets(slimdex: Runner, first_pets: Path) -> Runner:
    if first_pets.exists():
        shutil.copytree(first_pets, "pets")
    else:
        assert slimdex("build", "pets.jsonl", "--out", "pets").code == 0
        shutil.copytree("pets", first_pets)
    return slimdex


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_from_documents_to_answers_with_the_default_encoder(slimdex: Runner) -> None:
    """Meaning finds what shares no word with the question."""
    slimdex.model = DEFAULT_MODEL
    assert slimdex("build", "pets.jsonl", "--out", "pets", "--json").json["documents"] == 3
    assert slimdex("info", "pets", "--json").json["dimensions"] == 384
    questions = {"a kitten lay upon a rug": "cat", "bad weather over a house": "rain"}
    asked = [word for question in questions for word in ("--query", question)]
    found = slimdex("search", "pets", *asked, "--json").json["queries"]
    assert [query["hits"][0]["id"] for query in found] == [*questions.values()]
    found = slimdex("search", "pets", "bad weather", "--where", "year < 2003", "--json").json
    assert {hit["id"] for hit in found["queries"][0]["hits"]} == {"cat", "dog"}
    assert slimdex("verify", "pets").code == 0


def test_where_an_index_is_as_seen_from_here(
    pets: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("more.jsonl", [{"id": "x", "text": "one more"}])
    assert pets("add", "pets", "more.jsonl").out.startswith("4 documents in pets: ")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    added = pets("add", "../pets", "../more.jsonl")
    assert added.out.startswith("4 documents in ../pets, 1 unchanged: ")


def test_build_search_and_filter(pets: Runner) -> None:
    both = ("--query", "the cat sat on the mat", "--query", "rain")
    first, second = pets("search", "pets", *both, "-n", "2", "--json").json["queries"]
    assert first["query"] == "the cat sat on the mat"
    assert first["hits"][0]["id"] == "cat"
    assert first["hits"][0]["score"] == pytest.approx(1, abs=1e-3)
    assert first["hits"][0]["metadata"] == {"year": 2001, "kind": "pet"}
    assert len(second["hits"]) == 2
    filtered = pets(
        "search", "pets", "the cat", "--where", "year > 2001 AND kind = 'pet'", "--json"
    )
    assert [hit["id"] for hit in filtered.json["queries"][0]["hits"]] == ["dog"]
    table = pets("search", "pets", "the cat sat on the mat")
    assert "the cat sat on the mat" in table.out
    assert "1.000" in table.out
    assert table.err == ""


def test_all_words_are_one_query(pets: Runner) -> None:
    found = pets("search", "pets", "the", "cat sat", "on the mat", "-n", "1", "--json").json
    (answers,) = found["queries"]
    assert answers["query"] == "the cat sat on the mat"
    assert answers["hits"][0]["id"] == "cat"
    assert answers["hits"][0]["score"] == pytest.approx(1, abs=1e-3)


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
    twice = pets("search", "pets", "rain", "-n", "1", "--show", "kind", "--show", "year").out
    assert "kind: -  year: 2003" in twice
    assert "--show 'size': no such column; expected year, kind" in pets.refuses(
        "search", "pets", "rain", "--show", "year,size"
    )


@pytest.mark.slow
def test_what_scores_less_is_left_out(pets: Runner) -> None:
    words = ("search", "pets", "the cat sat on the mat", "--json")
    hits = pets(*words).json["queries"][0]["hits"]
    assert (hits[0]["id"], len(hits)) == ("cat", 3)
    with Collection.open("pets", read_only=True, model=pets.model) as collection:
        scores = [hit.score for hit in collection.search(words[2])]
    assert scores[1] < scores[0]
    for least, left in ((-1, 3), (scores[1], 2), (scores[1] + 1e-6, 1), (scores[0], 1)):
        kept = pets(*words, "--min-score", repr(float(least))).json["queries"][0]["hits"]
        assert kept == hits[:left]
    shown = pets(*words[:-1], "--min-score", repr(scores[1] + 1e-6))
    assert (" cat\n" in shown.out, " rain\n" in shown.out) == (True, False)
    assert pets("search", "pets", "rain", "--min-score", "1").out == "rain\n  nothing found\n"
    nothing = pets("search", "pets", "rain", "--min-score", "1", "--json").json
    assert nothing["queries"] == [{"query": "rain", "hits": []}]


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1.01", "-1.5", "60"])
def test_a_score_that_none_can_be(pets: Runner, score: str) -> None:
    said = pets.refuses("search", "pets", "rain", "--min-score", score)
    assert said == f"error: min_score={score}; expected a cosine, -1 to 1\n"


@pytest.mark.slow
def test_a_best_hit_as_if_by_chance_is_told(slimdex: Runner) -> None:
    """A query beside all that the documents span, and one that is a document's own vector."""
    X = np.random.default_rng(0).standard_normal((120, 256))
    beside = np.linalg.svd(X)[2][-1]
    with Collection.create("x", GivenEncoder(256), Settings(kind="flat", gamma=0)) as collection:
        collection.add([Document(f"d{i}", "text") for i in range(120)], vectors=X)
        score = collection.chance_score()
        assert score is not None
    np.save("asked.npy", np.stack([X[3], beside]))
    np.save("own.npy", X[:1])
    np.save("beside.npy", beside[None])
    said = "note: the best hit is no nearer than a random document would be "
    both = slimdex("search", "x", "--query-vector", "asked.npy")
    assert both.err == f"{said}(they reach {score:.3f}) for 'vector 2'\n"
    assert slimdex("search", "x", "--query-vector", "own.npy").err == ""
    alone = slimdex("search", "x", "--query-vector", "beside.npy")
    (best,) = re.findall(r"^ *(-?0\.\d+)  d", alone.out, re.MULTILINE)[:1]
    assert alone.err == f"{said}({best}; random ones reach {score:.3f})\n"
    found = slimdex("search", "x", "--query-vector", "beside.npy", "--json")
    assert (found.json["chance_score"], found.err) == (pytest.approx(score), "")
    coarse = slimdex("search", "x", "--query-vector", "beside.npy", "--candidates", "0")
    assert coarse.err == ""
    left_out = slimdex("search", "x", "--query-vector", "beside.npy", "--min-score", "0.5")
    assert (left_out.out.endswith("nothing found\n"), left_out.err) == (True, "")


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
    assert "candidates=-1; expected 0" in slimdex.refuses(*asked, "--candidates", "-1")
    slimdex("reduce", "x", "--candidates", "0")
    assert slimdex(*asked, "--candidates", "0").json["queries"][0]["hits"] == codes
    assert "candidates=5: this index was built with candidates=0" in slimdex.refuses(
        *asked, "--candidates", "5"
    )


def test_a_part_of_a_long_text_is_shown_and_json_has_all_of_it(slimdex: Runner) -> None:
    sentences = [f"The cat number {i} sat on a mat and looked at the rain. " for i in range(9)]
    write("long.jsonl", [{"id": "a", "text": "".join(sentences)}, {"id": "b", "text": "dog"}])
    slimdex("build", "long.jsonl", "--out", "x", "--passages", "off")
    lines = slimdex("search", "x", "the cat", "number 1", "-n", "2").out.splitlines()
    (shown,) = (line.strip() for line in lines if "number" in line and line.startswith("  "))
    assert shown.strip("…") in "".join(sentences)
    assert shown.endswith("…")
    assert len(shown) <= 162
    (hit,) = slimdex("search", "x", "cat", "-n", "1", "--json").json["queries"][0]["hits"]
    assert hit["text"] in ("".join(sentences), "dog")


def test_passages(slimdex: Runner) -> None:
    text = "".join(f"the cat {word}.\n" for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn") * 2)
    write("long.jsonl", [{"id": "a", "text": text}, {"id": "b", "text": "dog"}])
    built = slimdex("build", "long.jsonl", "--out", "x", "--json")
    rows = built.json["passages"]["rows"]
    assert built.json["passages"] == {"tokens": 32, "documents_cut": 1, "rows": rows}
    assert built.json["documents"] == 2
    assert f"note: 1 of 2 documents cut into {rows - 1} passages\n" in built.err
    found = slimdex("search", "x", "cat", "ij", "--json").json["queries"][0]["hits"]
    assert sorted(hit["id"] for hit in found) == ["a", "b"]
    (hit,) = (hit for hit in found if hit["id"] == "a")
    assert hit["text"] == text[hit["start"] : hit["end"]]
    assert hit["line"] == 1 + text[: hit["start"]].count("\n")
    assert (hit["page"], hit["headings"], hit["anchor"]) == (None, [], "")
    words = ("search", "x", "cat", "--per", "passage")
    found = slimdex(*words, "--json", "-n", "99").json["queries"][0]["hits"]
    assert len(found) == rows
    assert "line " in slimdex(*words).out
    assert "per='line'; expected document or passage" in slimdex.refuses(*words[:-1], "line")
    assert f"2 documents ({rows} passages) in x" in slimdex("add", "x", "long.jsonl").out
    off = slimdex("build", "long.jsonl", "--out", "off", "--passages", "off", "--json").json
    assert off["passages"] == {"tokens": None, "documents_cut": 0, "rows": 2}
    shorter = slimdex("build", "long.jsonl", "--out", "y", "--passages", "20", "--json").json
    assert shorter["passages"]["rows"] > rows
    for wrong, said in (("15", "expected 16 to 32"), ("33", "16 to 32"), ("no", "auto, off or")):
        refused = slimdex.refuses("build", "long.jsonl", "--out", "z", "--passages", wrong)
        assert said in refused
        assert not Path("z").exists()


def test_a_whole_document(slimdex: Runner) -> None:
    text = "".join(f"the cat {word}.\n" for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn") * 2)
    write("long.jsonl", [{"id": "a", "text": text, "year": 3}, {"id": "b", "text": "dog"}])
    slimdex("build", "long.jsonl", "--out", "x")
    shown = slimdex("open", "x", "a").out
    assert shown.endswith(text + "\n")
    assert re.search(r"^year +3$", shown, re.MULTILINE)
    found = slimdex("open", "x", "a", "--json").json
    assert (found["text"], found["metadata"], found["parts"]) == (text, {"year": 3}, [])
    assert "".join(text[p["start"] : p["end"]] for p in found["passages"]).startswith("the cat ab")
    assert slimdex("open", "x", "b", "--json").json["passages"] == []
    assert "unknown id 'c'; expected the id of a document" in slimdex.refuses("open", "x", "c")


@pytest.mark.slow
def test_a_build_that_goes_on_is_cut_as_it_was_begun(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    write("long.jsonl", [{"id": str(i), "text": "the cat sat on a mat. " * 9} for i in range(5)])
    build = ("build", "long.jsonl", "--out", "x", "--json")
    slimdex(*build[:4], "--passages", "20")
    expected = slimdex("info", "x", "--json").json["passages"]
    shutil.rmtree("x")
    with monkeypatch.context() as patch:
        patch.setattr("slimdex.retrieval.collection.writer.add_pending", interrupted)
        assert slimdex(*build, "--passages", "20").code == 130
    built = slimdex(*build)
    assert built.json["passages"] == expected
    assert "cut into passages of at most 20 tokens, as it was begun, and not by passages=auto" in (
        built.err
    )


def test_version(slimdex: Runner) -> None:
    assert slimdex("--version").out == f"slimdex {metadata.version('slimdex')}\n"


def test_a_small_corpus_gets_what_fits_and_is_told(slimdex: Runner) -> None:
    result = slimdex("build", "pets.jsonl", "--out", "pets", "--json")
    assert result.json["settings"]["kind"] == "flat"
    assert result.json["settings"]["k"] == 3
    assert result.err == (
        "note: a small index, refitted as it grows: not whitened below 32 vectors; k=3, all "
        "dimensions that 3 vectors span; float32 vectors, searched exactly (kind flat): kind pq "
        "needs 624 vectors\n"
    )


def test_a_k_that_few_documents_do_not_span_adapts_as_well(slimdex: Runner) -> None:
    built = slimdex("build", "pets.jsonl", "--out", "pets", "--k", "32", "--json")
    assert (built.json["settings"]["k"], built.json["requested"]["k"]) == (3, 32)
    assert "k=3, all dimensions that 3 vectors span" in built.err
    assert slimdex("search", "pets", "cat", "--json").json["queries"][0]["hits"][0]["id"]
    reduced = slimdex("reduce", "pets", "--k", "16", "--json")
    assert (reduced.json["settings"]["k"], reduced.json["requested"]["k"]) == (3, 16)


def test_info(pets: Runner, tiny_bert: Path) -> None:
    facts = pets("info", "pets", "--json").json
    assert facts["documents"] == 3
    assert facts["dimensions"] == 32
    assert facts["columns"] == {"year": "BIGINT", "kind": "VARCHAR"}
    assert facts["encoder"]["model"] == str(tiny_bert)
    assert facts["memory"]["ram_bytes_per_vector"] == 12
    assert facts["files"]["vectors-000001.f16"] == 3 * 32 * 2
    assert facts["stored"] == {"vectors": "fp16", "bytes_per_vector": 64}
    assert "documents" in pets("info", "pets").out


@pytest.mark.slow
def test_vectors_stored_as_int8(pets: Runner) -> None:
    words = ("build", "pets.jsonl", "--out", "bytes", "--json", "--stored")
    built = pets(*words, "int8").json
    assert built["stored"] == {"vectors": "int8", "bytes_per_vector": 32 + 2}
    assert built["files"]["vectors-000001.i8"] == 3 * 34
    words_and_bytes = [pets("search", name, "cat", "--json").json for name in ("pets", "bytes")]
    first, second = (found["queries"][0]["hits"] for found in words_and_bytes)
    assert [hit["id"] for hit in first] == [hit["id"] for hit in second]
    assert [hit["score"] for hit in first] == pytest.approx([h["score"] for h in second], abs=0.01)
    assert "stored" in pets("info", "bytes").out
    assert pets("verify", "bytes", "--json").json == {"faults": []}
    refused = pets.refuses("build", "pets.jsonl", "--out", "other", "--stored", "int4")
    assert refused.endswith("stored='int4'; expected fp16 or int8\n")


@pytest.mark.slow
def test_add_and_delete(pets: Runner) -> None:
    write("more.jsonl", [{"id": "cat", "text": "the rain", "year": 9}, {"id": "x", "text": "dog"}])
    added = pets("add", "pets", "more.jsonl", "--json").json
    assert (added["added"], added["replaced"], added["documents"]) == (2, 1, 4)
    assert pets("delete", "pets", "x", "rain", "--json").json == {"deleted": 2, "documents": 2}
    assert pets("delete", "pets", "--where", "year = 9", "--json").json["deleted"] == 1
    hits = pets("search", "pets", "anything", "--json").json["queries"][0]["hits"]
    assert [hit["id"] for hit in hits] == ["dog"]


def test_reduce_keeps_what_is_not_given(pets: Runner) -> None:
    facts = pets("reduce", "pets", "--kind", "sq8", "--k", "2", "--json").json
    assert facts["settings"]["kind"] == "sq8"
    assert facts["settings"]["k"] == 2
    facts = pets("reduce", "pets", "--candidates", "0", "--json").json
    assert (facts["settings"]["kind"], facts["settings"]["candidates"]) == ("sq8", 0)
    facts = pets("reduce", "pets", "--reducer", "pca", "--json").json
    assert (facts["settings"]["reducer"], facts["settings"]["k"]) == ("pca", 2)
    facts = pets("reduce", "pets", "--reducer", "identity", "--json").json
    assert facts["settings"]["k"] == 32


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
    assert set(report["index"]) == set(report["exact"]) == expected
    assert report["index"]["recall@10"] == report["index"]["encoder_agreement@10"] == 1
    assert report["exact"]["ram_bytes_per_vector"] == 128
    table = pets("eval", "pets", *labels)
    assert "ndcg@10" in table.out
    assert "exact" in table.out
    lines = table.out.splitlines()
    (alone,) = (line.split() for line in lines if "index alone, p50 ms" in line)
    (text,) = (line.split() for line in lines if "text to documents, p50 ms" in line)
    assert alone[:4] == ["index", "alone,", "p50", "ms"]
    assert (len(alone[4:]), len(text[5:])) == (2, 1)  # exact search has no documents to read
    assert float(text[5]) >= float(alone[4])


@pytest.mark.slow
def test_eval_without_labels(pets: Runner) -> None:
    report = pets("eval", "pets", "--self", "--sample", "2", "--json").json
    assert (report["queries"], report["documents"]) == (2, 3)
    assert report["exact"]["agreement@10"] is None
    assert "ndcg@10" not in report["index"]
    shown = pets("eval", "pets", "--self").out
    assert shown.index("agreement@10 with exact search") < shown.index("agreement@10 with the enc")
    assert "It searches the encoder's vectors, " in shown
    either = "expected either --queries and --qrels, or --self"
    for words in ((), ("--self", "--qrels", "q"), ("--queries", "q"), ("--qrels", "q")):
        assert either in pets.refuses("eval", "pets", *words)
    assert "sample=0; expected 1" in pets.refuses("eval", "pets", "--self", "--sample", "0")


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


def test_several_sources_become_one_index(slimdex: Runner) -> None:
    Path("lines.txt").write_text("the dog\nthe rain\n")
    facts = slimdex("build", "pets.jsonl", "lines.txt", "--out", "x", "--json").json
    assert facts["documents"] == 5
    hits = slimdex("search", "x", "the dog", "-n", "1", "--json").json["queries"][0]["hits"]
    assert hits[0]["id"] == "lines.txt:1"


@pytest.mark.slow
def test_made_up_ids_are_told_and_tell_files_apart(slimdex: Runner) -> None:
    for folder in ("jan", "feb"):
        Path(folder).mkdir()
        Path(folder, "report.csv").write_text(f"text\nthe cat in {folder}\nthe dog\n")
    built = slimdex("build", "jan/report.csv", "--out", "rep")
    assert "note: jan/report.csv: no id column; ids are jan/report.csv:1, ...\n" in built.err
    added = slimdex("add", "rep", "feb/report.csv")
    assert added.out.startswith("4 documents in rep: ")
    hits = slimdex("search", "rep", "the dog", "--json").json["queries"][0]["hits"]
    assert {hit["id"] for hit in hits} == {
        f"{m}/report.csv:{n}" for m in ("jan", "feb") for n in "12"
    }


@pytest.mark.slow
def test_options_of_files(slimdex: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.data").write_bytes("id;text;zip\n1;the café;01234\n2;x;5\n".encode("latin-1"))
    options = ("--encoding", "latin-1", "--format", "csv", "--types", "zip=VARCHAR")
    assert slimdex("build", "a.data", "--out", "a", *options).code == 0
    piped = io.TextIOWrapper(io.BytesIO(b'{"id": 3, "text": "the dog", "zip": "7"}\n'))
    monkeypatch.setattr(sys, "stdin", piped)
    added = slimdex("add", "a", "-")
    assert added.err.startswith("note: standard input: read as jsonl, by its first bytes")
    hits = slimdex("search", "a", "the café", "--json").json["queries"][0]["hits"]
    assert {hit["text"]: hit["metadata"]["zip"] for hit in hits} == {
        "the café": "01234",
        "x": "5",
        "the dog": "7",
    }
    for words, message in (
        (("--encoding", "nonsense"), "encoding 'nonsense'; expected a name such as utf-8"),
        (("--encoding", "hex"), "encoding 'hex'; expected a name such as utf-8"),
        (("--format", "xml"), "pets.jsonl: ending '.xml'; expected .jsonl"),
        (("--types", "size=BIGINT"), "no column 'size'; expected one of id, text, year, kind"),
        (("-", "-"), "-: standard input named twice"),
    ):
        assert message in slimdex.refuses("build", "pets.jsonl", *words, "--out", "new")


def test_bytes_are_base64_in_json(slimdex: Runner) -> None:
    duckdb.connect().sql(
        "SELECT 1 AS id, 'the cat' AS text, '\\xFF\\x00a'::BLOB AS b"
    ).write_parquet("b.parquet")
    assert slimdex("build", "b.parquet", "--out", "b").code == 0
    (hit,) = slimdex("search", "b", "the cat", "--json").json["queries"][0]["hits"]
    assert hit["metadata"] == {"b": "/wBh"}


def test_json_is_json_whatever_the_columns_hold(slimdex: Runner) -> None:
    Path("odd.csv").write_text("id,text,x\n1,the cat,nan\n2,the dog,1.5\n")
    assert slimdex("build", "odd.csv", "--out", "odd").code == 0
    hits = slimdex("search", "odd", "the cat", "--json").json["queries"][0]["hits"]
    assert [hit["metadata"] for hit in hits] == [{"x": None}, {"x": 1.5}]
    Path("more.csv").write_text("id,text,x\n3,the cat,0.5\n4,the dog,inf\n")
    assert "document '4', column 'x': inf; expected a finite number" in slimdex.refuses(
        "add", "odd", "more.csv"
    )


@pytest.mark.slow
def test_sources_whose_columns_differ_are_widened_or_refused(slimdex: Runner) -> None:
    write("a.jsonl", [{"id": "a", "text": "the cat", "x": 1.5}])
    write("b.jsonl", [{"id": "b", "text": "the dog", "X": 2}])
    assert slimdex("build", "a.jsonl", "b.jsonl", "--out", "ab").code == 0
    assert slimdex("build", "b.jsonl", "a.jsonl", "--out", "ba").code == 0
    for index in ("ab", "ba"):
        found = slimdex("search", index, "cat", "--json").json["queries"][0]["hits"]
        assert {v for hit in found for v in hit["metadata"].values()} == {1.5, 2.0}
    write("c.jsonl", [{"id": "c", "text": "the rain", "x": "many"}])
    assert slimdex("build", "a.jsonl", "c.jsonl", "--out", "ac").code == 0
    found = slimdex("search", "ac", "cat", "--json").json["queries"][0]["hits"]
    assert {hit["id"]: hit["metadata"] for hit in found} == {"a": {"x": 1.5}, "c": {"x": "many"}}
    assert "c.jsonl, row 1: 'many' in column 'x' is not DOUBLE" in slimdex.refuses(
        "add", "ab", "c.jsonl"
    )


def test_a_file_called_interrupted_is_no_ctrl_c(slimdex: Runner) -> None:
    assert "interrupted.csv: no such file" in slimdex.refuses(
        "build", "interrupted.csv", "--out", "x"
    )


def test_arguments_that_are_no_text(pets: Runner) -> None:
    assert "expected UTF-8" in pets.refuses("search", "pets", "\udcff")
    assert len(pets("search", "pets", "cat", "-n", "3000000000", "--json").json["queries"]) == 1


BUILD = ("build", "pets.jsonl", "--out", "new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "none.jsonl", "--out", "new"), "none.jsonl: no such file"),
        (("build", "empty.txt", "--out", "new"), "no documents; expected at least one"),
        ((*BUILD, "--text", "body"), "no column 'body' for the text; it has id, text, year, kind"),
        (("build", "broken.jsonl", "--out", "new"), "broken.jsonl, line 3: broken JSON"),
        (
            ("build", "twice.jsonl", "--out", "new"),
            "id '1' stands twice, in twice.jsonl (its document 1) and twice.jsonl (its document 2)",
        ),
        (("search", "pets", " "), "a query without words; expected some"),
        (("build", "python:nosuchpackage", "--out", "new"), "'nosuchpackage' is not installed"),
        ((*BUILD, "--k", "33"), "k=33; expected 1 to the encoder's 32 dimensions"),
        ((*BUILD, "--k", "7"), "k=7 does not suit kind pq; expected a multiple of 4"),
        ((*BUILD, "--kind", "bogus"), "kind 'bogus'"),
        ((*BUILD, "--gamma", "nan"), "gamma=nan; expected 0 to 1"),
        ((*BUILD, "--gamma", "9"), "gamma=9.0; expected 0 to 1"),
        ((*BUILD, "--candidates", "-5"), "candidates=-5; expected 0"),
        ((*BUILD, "--reducer", "magic"), "reducer='magic'; expected one of"),
        ((*BUILD, "--pooling", "median"), "pooling 'median'; expected cls, mean, max"),
        ((*BUILD, "--model", "./none"), "model './none': no such folder"),
        ((*BUILD, "--model", "broken-model"), "broken-model': Unrecognized model"),
        ((*BUILD, "--max-length", "9999"), "max_length=9999; expected 3 to the model's 64"),
    ],
)
def test_a_build_that_is_refused_leaves_nothing(
    slimdex: Runner, words: tuple[str, ...], message: str
) -> None:
    Path("empty.txt").write_text("\n")
    write("twice.jsonl", [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}])
    Path("broken.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": \n')
    Path("broken-model").mkdir()
    Path("broken-model/model.safetensors").write_text("junk")
    before = sorted(os.listdir())
    assert message in slimdex.refuses(*words)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "pets.jsonl", "--out", "pets"), "pets exists; expected a new folder"),
        (
            ("build", "pets.jsonl", "--out", "pets.jsonl"),
            "pets.jsonl exists and is no slimdex index",
        ),
        (("search", "none", "cat"), "none: no slimdex index there"),
        (("search", "folder", "cat"), "folder: no slimdex index there"),
        (("search", "foreign", "cat"), "not a slimdex catalog, or damaged"),
        (("search", "pets"), "search: no query; expected QUERY, --query, --queries or"),
        (("search", "pets", "cat", "--query", "dog"), "search: QUERY and --query; expected QUERY"),
        (("search", "pets", "--queries", "none.txt"), "none.txt: no such file"),
        (("search", "pets", "--queries", "empty.txt"), "empty.txt: no queries; expected at least"),
        (("search", "pets", "cat", "--wait", "-1"), "wait=-1; expected 0 or more seconds"),
        (("search", "pets", "cat", "-n", "0"), "limit=0; expected 1 or more"),
        (("search", "pets", "cat", "--where", "nope = 1"), 'column "nope" not found'),
        (("search", "pets", "cat", "--where", "1=1) OR (1=1"), "expected a condition"),
        (("delete", "pets", "nope"), "unknown id 'nope'; expected the id of a document"),
        (("delete", "pets", "cat", "nope"), "unknown id 'nope'"),
        (("delete", "pets"), "expected either ids or a condition"),
        (("delete", "pets", "--where", "year >"), "expected a condition"),
        (("add", "pets", "none.csv"), "none.csv: no such file"),
        (("add", "pets", "wrong.jsonl"), "column 'year' holds BIGINT; the new values are VARCHAR"),
        (("reduce", "pets", "--k", "99"), "k=99; expected 1 to the encoder's 32"),
        (("reduce", "pets", "--kind", "bogus"), "kind 'bogus'"),
        (("reduce", "pets", "--gamma", "9"), "gamma=9.0; expected 0 to 1"),
        (("reduce", "pets", "--gamma", "-3"), "gamma=-3.0; expected 0 to 1"),
        (("reduce", "pets", "--beta", "1.5"), "beta=1.5; expected 0 to 1"),
        (("eval", "pets", "--queries", "none", "--qrels", "q"), "none: no such file"),
        (("eval", "pets", "--queries", "pets.jsonl", "--qrels", "q"), "q: can't be read"),
        (
            ("eval", "pets", "--queries", "pets.jsonl", "--qrels", "pets.jsonl"),
            "expected query, document",
        ),
    ],
)
def test_bad_input_changes_nothing(pets: Runner, words: tuple[str, ...], message: str) -> None:
    Path("folder").mkdir()
    Path("empty.txt").write_text("\n")
    Path("foreign").mkdir()
    Path("foreign/catalog.duckdb").write_bytes(b"junk" * 5000)
    write("wrong.jsonl", [{"id": "z", "text": "cat", "year": "many"}])
    before = {p: p.read_bytes() for p in Path("pets").iterdir() if p.suffix != ".duckdb"}
    assert message in pets.refuses(*words)
    after = {p: p.read_bytes() for p in Path("pets").iterdir() if p.suffix != ".duckdb"}
    assert before == after
    assert pets("verify", "pets").code == 0  # the catalog's documents are those of the other files


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`slimdex` in a process of its own."""
    command = [sys.executable, "-m", "slimdex", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def write_many(count: int = 4500) -> None:
    """Many short texts that differ, in letters that the tiny model knows."""
    letters = np.random.default_rng(0).choice(list("abcdefghij"), (count, 2, 5))
    texts = [" the ".join(map("".join, words)) for words in letters]
    write("many.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)])


@pytest.mark.slow
def test_a_build_killed_at_any_moment_goes_on(slimdex: Runner, tiny_bert: Path) -> None:
    write_many()
    model = ("--model", str(tiny_bert), "--max-length", "32", "--passages", "off")
    words = ("build", "many.jsonl", "--out", "lib", *model)
    process = subprocess.Popen([sys.executable, "-m", "slimdex", *words], stderr=subprocess.DEVNULL)
    vectors = Path("lib/vectors-000001.f16")
    while not (vectors.exists() and vectors.stat().st_size >= 2 * 1024 * 32 * 2):
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert "an unfinished build: run it again" in slimdex.refuses("search", "lib", "x")
    assert "unfinished build of another source" in slimdex.refuses(
        "build", "pets.jsonl", "--out", "lib"
    )
    result = slimdex(*words, "--json")
    kept = int(result.err.split("went on after ")[1].split()[0].replace(",", ""))
    assert kept >= 1024
    assert result.json["documents"] == result.json["added"] == 4500
    assert slimdex("verify", "lib").code == 0


@pytest.mark.slow
def test_a_build_that_is_stopped_says_how_to_go_on(slimdex: Runner, tiny_bert: Path) -> None:
    write_many()
    model = ("--model", str(tiny_bert), "--max-length", "32", "--precision", "fp32")
    words = ("build", "many.jsonl", "--out", "lib", *model)
    with subprocess.Popen(
        [sys.executable, "-m", "slimdex", *words],
        stderr=subprocess.PIPE,
        text=True,
        # What a shell starts in the background ignores Ctrl-C, and so would we after it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        vectors = Path("lib/vectors-000001.f16")
        while not (vectors.exists() and vectors.stat().st_size >= 1024 * 32 * 2):
            assert process.poll() is None, "it ended before it was stopped"
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "error: stopped; run the same command again to go on"
    assert "Traceback" not in err


def test_a_build_killed_before_its_documents_were_in_starts_over(pets: Runner) -> None:
    from slimdex.indexes.settings import Settings
    from slimdex.retrieval.collection.collection import Collection
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    encoder = TransformerEncoder(pets.model, max_length=32)
    Collection.create("cut", encoder, Settings(kind="flat")).close()
    facts = pets("build", "pets.jsonl", "--out", "cut", "--kind", "fp16", "--k", "2", "--json")
    assert facts.json["documents"] == 3
    assert facts.json["settings"]["kind"] == "fp16"


@pytest.mark.slow
def test_a_build_goes_on_in_the_precision_that_it_was_begun_in(pets: Runner) -> None:
    from slimdex.retrieval.collection.collection import Collection
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    encoder = TransformerEncoder(pets.model, max_length=32, precision="int8")
    Collection.create("cut", encoder).close()
    built = pets("build", "pets.jsonl", "--out", "cut", "--precision", "fp32", "--json")
    assert "note: encoded in int8, as it was begun, and not in fp32" in built.err
    assert pets("info", "cut", "--json").json["encoder"]["precision"] == "int8"
    assert pets("search", "cut", "a", "cat", "--json").code == 0


def test_a_second_writer_and_a_reader_meanwhile(pets: Runner) -> None:
    code = (
        "from slimdex import Collection; import sys\n"
        "open_ = Collection.open('pets'); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for words in (("delete", "pets", "cat"), ("search", "pets", "cat")):
            message = pets.refuses(*words)
            assert f"process {writer.pid} is writing to it; expected no writer" in message
        writer.communicate("")
    assert pets("delete", "pets", "cat").code == 0


def hold(how: str, seconds: float, opened: Connection) -> None:
    with Collection.open("pets", read_only=how == "read"):
        opened.send("open")
        time.sleep(seconds)


@contextmanager
def held(how: str, seconds: float) -> Iterator[ForkServerProcess]:
    """A second process that reads the index or writes to it for some time."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = forked.process(hold, how, seconds, there)
    there.close()
    try:
        assert here.recv() == "open"
        yield process
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("write", ("search", "pets", "the cat sat on the mat", "--json")),
        ("write", ("info", "pets")),
        ("write", ("verify", "pets")),
        ("write", ("eval", "pets", "--self")),
        ("read", ("delete", "pets", "cat")),
        ("read", ("add", "pets", "more.jsonl")),
        ("read", ("compact", "pets")),
        ("read", ("reduce", "pets", "--kind", "flat")),
        ("read", ("repair", "pets")),
    ],
)
def test_a_command_waits_as_long_as_it_is_told(
    pets: Runner, how: str, words: tuple[str, ...]
) -> None:
    write("more.jsonl", [{"id": "x", "text": "one more"}])
    verb = "reading it" if how == "read" else "writing to it"
    with held(how, 60) as process:
        message = pets.refuses(*words)
        wanted = "no process may have it open" if how == "read" else "expected no writ"
        assert f"process {process.pid} is {verb}" in message
        assert wanted in message
        assert "(--wait 30 " in message
        start = time.monotonic()
        assert verb in pets.refuses(*words, "--wait", "0.5")
        assert time.monotonic() - start >= 0.5
    with held(how, 0.5):
        assert pets(*words, "--wait", "60").code == 0


@pytest.mark.slow
def test_ctrl_c_ends_the_waiting(pets: Runner) -> None:
    command = [sys.executable, "-m", "slimdex", "delete", "pets", "cat", "--wait", "60"]
    with (
        held("read", 60),
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process,
    ):
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_unfinished_build_waits_too(pets: Runner) -> None:
    from slimdex.indexes.settings import Settings
    from slimdex.retrieval.collection.collection import Collection
    from slimdex.retrieval.encoders.transformer import TransformerEncoder

    encoder = TransformerEncoder(pets.model, max_length=32)
    shutil.rmtree("pets")
    Collection.create("pets", encoder, Settings(kind="flat")).close()
    with held("read", 1):
        assert pets("build", "pets.jsonl", "--out", "pets", "--wait", "60").code == 0


@pytest.mark.slow
def test_a_full_disk_loses_nothing(slimdex: Runner, tiny_bert: Path) -> None:
    """On a file system of 3 MB, really full; then with room, the same command ends well."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": i, "text": f"the cat and the dog number {i} sat in the rain", "note": note}
        for i, note in enumerate(rng.bytes(1000).hex() for _ in range(1500))
    ]
    write("first.jsonl", rows[:50])
    write("all.jsonl", rows)
    assert slimdex("build", "first.jsonl", "--out", "index").code == 0
    script = f"""
        mkdir disk && mount -t tmpfs -o size=3m none disk || exit 99
        cp -r index disk/index
        {sys.executable} -m slimdex add disk/index all.jsonl 2> first.txt; echo $? > first
        {sys.executable} -m slimdex verify disk/index > verify.txt 2>&1; echo $? > verify
        mount -o remount,size=90m disk
        {sys.executable} -m slimdex add disk/index all.jsonl --json > second.txt; echo $? > code
        {sys.executable} -m slimdex verify disk/index >> verify.txt; echo $? >> verify
    """
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a small file system")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    error = Path("first.txt").read_text().splitlines()[-1]
    assert Path("first").read_text() == "2\n"
    assert error.startswith("error: the disk is full")
    assert "Traceback" not in Path("first.txt").read_text()
    assert Path("verify").read_text() == "0\n0\n", Path("verify.txt").read_text()
    assert Path("code").read_text() == "0\n"
    assert json.loads(Path("second.txt").read_text())["added"] == 1450


def test_help_needs_neither_torch_nor_faiss() -> None:
    code = (
        "import sys\nfrom slimdex.__main__ import main\nsys.argv = ['slimdex', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'faiss', 'duckdb', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Semantic search in a fraction of the memory" in done.stdout


@pytest.mark.parametrize("words", [["search"], *slow([[], ["nonsense"], ["build", "x"]])])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    assert run(*words).returncode == 2


@pytest.mark.slow
def test_output_that_is_cut_off_makes_no_noise(pets: Runner) -> None:
    command = f"{sys.executable} -m slimdex search pets cat dog rain | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_a_build_that_failed_at_its_end_is_finished_without_encoding(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("many.jsonl", [{"id": i, "text": f"cat {'dog ' * (i % 9)}"} for i in range(100)])
    words = ("build", "many.jsonl", "--out", "many")
    error = slimdex.refuses(*words, "--kind", "IVF256,PQ4")
    assert "All documents are encoded already: build again with other settings" in error
    monkeypatch.setattr(TransformerEncoder, "encode_measured", None)  # it would be an error
    built = slimdex(*words, "--kind", "IVF4,Flat", "--json")
    assert (built.json["documents"], built.json["settings"]["kind"]) == (100, "IVF4,Flat")
    assert "note: went on after 100 documents that were encoded before" in built.err


def test_a_build_without_any_text_leaves_nothing(slimdex: Runner) -> None:
    write("empty.jsonl", [{"id": i, "text": " "} for i in range(3)])
    error = slimdex.refuses("build", "empty.jsonl", "--out", "new")
    assert "none of 3 documents has a text; expected at least one that has" in error
    assert not Path("new").exists()


def test_a_document_is_opened_by_its_path_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes/it's.md").write_text("# Tea\n\nBoil the water.")
    collection, _ = build(Path("x"), Sources.open("notes"), WordEncoder, Settings())
    collection.close()
    for name in ("it's.md", "notes/it's.md"):
        done = CliRunner().invoke(app, ["open", "x", name])
        assert (done.exit_code, "Boil the water." in done.stdout) == (0, True)
    failed = CliRunner().invoke(app, ["open", "x", "notes/other.md"])
    assert "unknown id 'notes/other.md'" in str(failed.exception)


def test_words_count_beside_meaning(pets: Runner) -> None:
    refused = pets("search", "pets", "the dog", "--hybrid", "0.5")
    assert refused.code == 2
    assert "no words' index; expected one (`slimdex words" in refused.err
    assert pets("search", "pets", "dog", "--hybrid", "on").err.startswith("error: hybrid='on'")
    made = pets("words", "pets")
    assert re.fullmatch(r"words of 3 documents, \d+ bytes a vector\n", made.out)
    found = pets("search", "pets", "chased", "--hybrid", "1", "-n", "1", "--json").json
    assert found["queries"][0]["hits"][0]["id"] == "dog"
    assert found["chance_score"] is None  # which is of cosines
    by_name = pets("search", "pets", "rain", "--hybrid", "0.9", "-n", "1")
    assert "rain fell on the roof" in by_name.out
    assert pets("search", "pets", "rain", "--hybrid", "rrf", "-n", "1").code == 0
    assert pets("search", "pets", "rain", "--hybrid", "auto", "-n", "1").code == 0
    write("more.jsonl", [{"id": "x", "text": "a zebra"}])
    pets("add", "pets", "more.jsonl")
    found = pets("search", "pets", "zebra", "--hybrid", "1", "-n", "1", "--json").json
    assert found["queries"][0]["hits"][0]["id"] == "x"
    assert pets("verify", "pets").code == 0
    assert pets("words", "pets", "--off", "--json").json == {"documents": 4, "words": None}
    assert pets("words", "pets", "--off").out == "no words' index any more\n"


@pytest.mark.slow
def test_hits_are_ordered_anew_by_a_cross_encoder(pets: Runner, tmp_path: Path) -> None:
    model = str(make_cross_encoder(tmp_path / "cross"))
    found = pets("search", "pets", "cat", "--rerank", model, "-n", "2", "--json").json
    hits = found["queries"][0]["hits"]
    texts = [str(pet["text"]) for pet in PETS]
    scores = CrossEncoder(model).scores("cat", texts)
    assert [hit["id"] for hit in hits] == [PETS[i]["id"] for i in np.argsort(-scores)[:2]]
    assert [hit["score"] for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:2])
    shown = pets("search", "pets", "cat", "--rerank", model, "-n", "1")
    assert hits[0]["text"] in shown.out
    alone = pets("search", "pets", "cat", "--rerank", model, "--rerank-depth", "1", "-n", "1")
    assert pets("search", "pets", "cat", "-n", "1").out.splitlines()[1].split()[1] in alone.out
    wrong = pets("search", "pets", "cat", "--rerank", "nowhere")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("error: --rerank nowhere: no cross-encoder found (")
    assert wrong.err.count("\n") == 1  # of a hub that can't be reached, no retries are told
    assert pets("search", "pets", "cat", "--rerank", model, "--rerank-depth", "0").code == 2
