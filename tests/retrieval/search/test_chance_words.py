"""Notes among code: words that match by chance, and names that only words can find."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.data import mixed_folder
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.transformer import TransformerEncoder

MODULES = {"heapq", "textwrap", "difflib", "pathlib", "statistics"}
"""Python's words differ between its versions; those of these change little."""
CLEAR = 0.2
"""Cosine by which an answer is nearer than a row that matches by chance."""


@pytest.mark.slow
def test_a_chance_word_seldom_beats_a_near_answer_and_names_come_first(tmp_path: Path) -> None:
    documents = [
        document
        for document in mixed_folder.documents()
        if not document.id.startswith("code/") or document.id.split("/")[1] in MODULES
    ]
    first, beaten = list[str](), list[str]()
    with Collection.create(tmp_path / "x.index", TransformerEncoder(precision="fp32")) as made:
        made.add(documents)
        for id, text, answer in mixed_folder.queries():
            hit = made.search(text, limit=1)[0]
            if id.startswith("meaning:"):
                near = {hit.id: hit.score for hit in made.search(text, limit=50, hybrid="off")}
                first += [answer] * (hit.id == answer)
                beaten += [text] * (near.get(answer, -1) - hit.score > CLEAR)
            elif " " not in text:
                assert hit.id == answer, text
    assert len(first) >= 10
    assert beaten == []
