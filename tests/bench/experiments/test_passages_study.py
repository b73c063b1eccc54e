"""Pages cut off beside passages, on a small documentation of the standard library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lxml")

from slimdex.bench.data.python_pages import Pages, Question, first_sentence, questions_of
from slimdex.bench.experiments.passages_study import JudgedSet, ask, measure_passages, measure_set
from slimdex.bench.reporting.passage_tables import passages
from slimdex.bench.reporting.verdict import passages_line
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.evaluation import evaluate
from tests.bench.conftest import ABOUT
from tests.encoders import ReadingEncoder


def section(name: str, text: str) -> str:
    return f'<dl><dt id="{name}">{name}</dt><dd><p>{text}</p></dd></dl>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pages: what was asked for is at the end of one, behind much else."""
    for page, name, words in (("shelf", "shutil.rmtree", "paint"), ("clock", "time.sleep", "ink")):
        much = section("other", " ".join(f"{words}{i}" for i in range(300)))
        told = {"shutil.rmtree": "Recursively delete a directory tree.", "time.sleep": "Wait."}
        body = much + section(name, told[name])
        (tmp_path / f"{page}.html").write_text(f"<html><body><h1>{page}</h1>{body}</body></html>")
    return tmp_path


@pytest.mark.slow
def test_docstrings_ask_for_the_anchors_of_their_names(folder: Path) -> None:
    pages = Pages.read(folder)
    (question,) = pages.questions  # time.sleep is written in C
    assert question.name == "shutil.rmtree"
    assert question.page == "shelf.html"
    text = {page.id: page.text for page in pages.documents}[question.page]
    assert "delete a directory tree" in text[question.start : question.end]
    assert "paint1 " not in text[question.start : question.end]
    assert first_sentence("One two.\n\nThree.") == "One two."


def test_an_anchor_of_two_pages_asks_for_neither() -> None:
    parts = [Part(0, anchor="a.b"), Part(4, anchor="module-c")]
    pages = [Document("1", "one two", parts=parts), Document("2", "three", parts=parts[:1])]
    sentences = [("a.b", "What is this one?"), ("c", "What is that one?"), ("c.d", "Is it there?")]
    (found,) = questions_of(pages, iter(sentences))
    assert found == Question("c", "What is that one?", "1", 4, 7)


def test_a_passage_is_found_where_the_whole_page_is_not(tmp_path: Path) -> None:
    long = " ".join(f"word{i}" for i in range(200))
    text = f"{long} the needle lies here"
    others = [Document(f"o{i}", f"some other words {i} of no use") for i in range(30)]
    question = Question("x", "the needle lies here", "page", text.index("the"), len(text))
    found = {}
    for way in ("off", "auto"):
        with Collection.create(
            tmp_path / str(way), ReadingEncoder(max_length=32), passages=way
        ) as index:
            index.add([Document("page", text), *others])
            found[way] = ask(index, [question, Question("y", "word7 word8", "none", 0, 1)])
    assert found["auto"].ranks.tolist() == [1, np.inf]
    assert found["auto"].holds[0] == found["auto"].meets[0] == 1
    assert np.isnan(found["auto"].holds[1])
    assert found["off"].ranks[0] > 1
    assert found["auto"].points()[:, 0].tolist() == [100, 100]


@pytest.mark.slow  # builds in two processes of their own
def test_rows(folder: Path, tiny_bert: Path, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "passages-tiny.jsonl")
    measure_passages(folder, str(tiny_bert), results, ABOUT)
    off, cut = results.rows.values()
    assert (off["way"], cut["way"]) == ("cut off", "passages")
    assert off["documents"] == off["rows"] == cut["documents"] == 2
    assert cut["rows"] > 2
    assert cut["recall@10"] == 100  # two pages: both are among the ten
    assert off["recall@10_delta"] == 0
    assert 0 <= cut["anchor_share"] <= cut["section_share"] <= 1
    (table,) = passages([off, cut])
    assert len(table.rows) == 2
    assert "recall@10 of the page 100.0 cut off, 100.0 by passages" in passages_line([off, cut])


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A set in BEIR's layout: what is asked for ends a long text, or is a short one.

    The third query is the document `short` itself, and `twin` its answer.
    """
    folder = tmp_path / "sets" / "ends"
    (folder / "qrels").mkdir(parents=True)
    short = "a kettle boils water in the kitchen"
    texts = {
        "long": " ".join(f"word{i}" for i in range(200)) + " the needle lies here",
        "short": short,
        "twin": "a kettle boils water in the cellar",
    } | {f"o{i}": f"some other words {i} of no use" for i in range(30)}
    queries = {"q1": "the needle lies here", "q2": "a kettle in the cellar", "short": short}
    for name, rows in (("corpus", texts), ("queries", queries)):
        lines = [json.dumps({"_id": id, "text": text}) + "\n" for id, text in rows.items()]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    labels = "q1\tlong\t1\nq2\ttwin\t1\nshort\ttwin\t1\n"
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + labels)
    return folder


def test_a_set_is_judged_as_eval_does(judged: Path, tmp_path: Path) -> None:
    asked = JudgedSet.read(judged)
    assert list(asked.own) == ["", "", "short"]
    points = {}
    for way in ("off", "auto"):
        with Collection.create(
            tmp_path / way, ReadingEncoder(max_length=32), passages=way
        ) as index:
            index.add(asked.documents)
            points[way] = asked.points(index)
            oracle = evaluate(index, asked.queries, asked.qrels, drop_self=True)["index"]
        for i, name in enumerate(("ndcg@10", "recall@10")):
            assert points[way][i].mean() == pytest.approx(100 * oracle[name])
    assert points["auto"].tolist() == [[100, 100, 100]] * 2
    assert points["off"][0, 0] < 50 < points["auto"][0, 0]
    assert points["off"][:, 1:].tolist() == [[100, 100]] * 2


@pytest.mark.slow  # builds in two processes of their own
def test_rows_of_a_set(judged: Path, tiny_bert: Path, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "passages-ends-tiny.jsonl")
    measure_set(judged, str(tiny_bert), results, ABOUT)
    off, cut = results.rows.values()
    assert (off["set"], off["way"], cut["way"]) == ("ends", "cut off", "passages")
    assert off["documents"] == off["rows"] == cut["documents"] == 33 < cut["rows"]
    assert off["queries"] == cut["queries"] == 3
    assert off["ndcg@10_delta"] == off["ndcg@10_low"] == off["ndcg@10_high"] == 0
    assert cut["ndcg@10_delta"] == pytest.approx(cut["ndcg@10"] - off["ndcg@10"])
    (table,) = passages([off, cut])
    assert [row[2].shown for row in table.rows] == ["cut off", "passages"]
    assert f"nDCG@10 of ends {off['ndcg@10']:.1f} cut off" in passages_line([off, cut])
    pages = [row | {"what": "pages", "mrr@10": 1.0} for row in (off, cut)]
    assert len(passages([*pages, off, cut])) == 2
