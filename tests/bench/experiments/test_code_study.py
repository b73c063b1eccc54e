"""Questions about a small repository, whose ranks are known."""

from __future__ import annotations

import json
import re
from math import log2
from pathlib import Path

import pytest

from slimdex.bench.experiments.code_study import EVERY, WAYS, Repository, measure_code
from slimdex.bench.reporting.tables import repositories, rules
from slimdex.bench.rows import ResultsFile
from slimdex.errors import InputError
from tests.bench.conftest import ABOUT
from tests.encoders import ReadingEncoder

FILES = {
    "router.go": "package a\n\nfunc match() { find a route in the tree of }\n",
    "router_test.go": "package a\n\nfind a route in the tree\n",
    "heap.go": "package a\n\nfunc sort() { left right swap merge }\n",
    "queue.go": "package a\n\nfunc push() { append to the end of a list }\n",
}
QUESTIONS = [
    {"query": "find a route in the tree", "relevant": [{"path": "a/router.go"}], "category": "x"},
    {"query": "left right swap", "relevant": ["heap.go"], "secondary": [], "category": "x"},
    {"query": "nothing of it", "relevant": ["missing.go"], "category": "x"},
]


def repository(folder: Path) -> Repository:
    (folder / "a").mkdir()
    for name, text in FILES.items():
        (folder / "a" / name).write_text(text)
    (folder / "small.json").write_text(json.dumps(QUESTIONS))
    return Repository.read(f"{folder}/small.json={folder}/a")


def test_each_rule_is_measured_alone_and_left_out(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "code-words.jsonl")
    measure_code([repository(tmp_path)], "words", ReadingEncoder, results, ABOUT)
    rows = {(row["set"], row["way"]): row for row in results.rows.values()}
    assert rows.keys() == {(name, way) for name in ("small", EVERY) for way in WAYS}
    second = 100 / log2(3)  # of the first question; the other one finds its file first
    for name in ("small", EVERY):
        points = {way: rows[name, way]["ndcg@10"] for way in WAYS}
        assert points["fusion"] == points["without tests"] == pytest.approx((second + 100) / 2)
        assert points["all"] == points["tests"] == points["without texts"] == 100
        assert rows[name, "tests"]["ndcg@10_delta"] == pytest.approx((100 - second) / 2)
        assert rows[name, "without tests"]["ndcg@10_delta"] == pytest.approx((second - 100) / 2)
    assert {row["queries"] for row in rows.values()} == {2}  # one asks for a file that is missing
    found = list(results.rows.values())
    (by_rule,), (by_set,) = rules(found), repositories(found)
    assert [row[0].shown for row in by_rule.rows] == [*WAYS]
    assert [cell.shown for cell in by_set.rows[0]][:4] == ["small", "2", "4", "4"]


def test_what_is_no_repository_with_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('[{"question": "?"}]')
    for named, expected in (
        ("chi", "'chi'; expected QUESTIONS.json=FOLDER"),
        (f"chi.json={tmp_path}/none", "none'; expected QUESTIONS.json=FOLDER"),
        (f"{tmp_path}/bad.json={tmp_path}", "bad.json: 'relevant'; expected questions of semble's"),
        (f"{tmp_path}/none.json={tmp_path}", "No such file"),
    ):
        with pytest.raises(InputError, match=re.escape(expected)):
            Repository.read(named)
