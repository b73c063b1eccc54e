"""Pages cut off beside passages, on a small documentation of the standard library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lxml")

from slimdex.bench.data.python_pages import Pages, Question, first_sentence, questions_of
from slimdex.bench.experiments.passages_study import ask, measure_passages
from slimdex.bench.reporting.passage_tables import passages
from slimdex.bench.reporting.verdict import passages_line
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document, Part
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
