from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.datasets import (
    QUICK_QUERIES,
    WRITTEN_AT_ONCE,
    Dataset,
    content_key,
    encode_texts,
    every_docstring,
    load_dataset,
    names_of,
)
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder

TEXTS = [f"text number {i}" for i in range(WRITTEN_AT_ONCE + 300)]


def test_a_beir_folder(beir: Path, dataset: Dataset) -> None:
    loaded = load_dataset("words", beir)
    assert loaded.texts == dataset.texts
    assert loaded.query_texts == dataset.query_texts
    assert loaded.qrels == dataset.qrels
    assert names_of("all", beir) == ["words"]
    assert names_of("a,b", beir) == ["a", "b"]


def test_a_query_that_is_a_document_is_no_answer_to_itself() -> None:
    documents = [Document("a", "rain"), Document("b", "snow"), Document("c", "hail")]
    queries = [("a", "rain"), ("b", "another text"), ("z", "hail"), ("none", "x")]
    qrels = {"a": {"b": 1}, "b": {"c": 1}, "z": {"c": 1}}
    loaded = Dataset.of("s", documents, queries, qrels)
    assert loaded.query_ids == ["a", "b", "z"]
    assert loaded.self_rows.tolist() == [0, -1, -1]


@pytest.mark.usefixtures("library")
def test_docstrings_are_known_items() -> None:
    loaded = load_dataset("docstrings", None)
    assert len(loaded.texts) == len(loaded.query_texts) > 300
    place = loaded.ids.index("difflib.get_close_matches")
    assert "return list of the best" in loaded.query_texts[place]
    assert loaded.texts[place].startswith("word is a sequence for which close matches")
    assert loaded.qrels["q:difflib.get_close_matches"] == {"difflib.get_close_matches": 1}
    every = every_docstring(20)
    assert (len(every.ids), len(every.query_ids)) == (1200, 20)
    for id, text in zip(every.query_ids, every.query_texts, strict=True):
        assert text not in every.texts[every.ids.index(id.removeprefix("q:"))]


def test_a_quick_part_keeps_the_answers() -> None:
    documents = [Document(f"d{i}", f"text {i}") for i in range(3000)]
    queries = [(f"d{i}", f"text {i}") for i in range(500)]
    qrels = {f"d{i}": {f"d{2999 - i}": 1} for i in range(500)}
    quick = Dataset.of("s", documents, queries, qrels).quick()
    assert len(quick.query_ids) == QUICK_QUERIES
    assert len(quick.ids) == len(quick.texts) == 1500
    known = set(quick.ids)
    for i, query in enumerate(quick.query_ids):
        assert known >= quick.qrels[query].keys()
        assert quick.ids[quick.self_rows[i]] == query


def test_encoded_once(tmp_path: Path) -> None:
    encoder = WordEncoder()
    first = encode_texts(encoder, TEXTS, tmp_path)
    assert len(encoder.encoded) == len(TEXTS)
    again = encode_texts(encoder, TEXTS, tmp_path)
    assert len(encoder.encoded) == len(TEXTS)
    rows = np.arange(len(TEXTS))
    np.testing.assert_array_equal(again.take(rows), WordEncoder().encode(TEXTS))
    assert first.path == again.path


@pytest.mark.parametrize("cut", [0, 17, 48 * 4 * WRITTEN_AT_ONCE, 48 * 4 * WRITTEN_AT_ONCE + 5])
def test_what_a_kill_left_is_gone_on_with(tmp_path: Path, cut: int) -> None:
    path = encode_texts(WordEncoder(), TEXTS, tmp_path).path
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    encoder = WordEncoder()
    encode_texts(encoder, TEXTS, tmp_path)
    assert path.read_bytes() == whole
    assert len(encoder.encoded) == len(TEXTS) - cut // (48 * 4)


def test_the_key_is_the_content() -> None:
    class Named(WordEncoder):
        def __init__(self, **facts: str) -> None:
            super().__init__()
            self.facts = facts

        def spec(self) -> dict[str, str]:
            return dict(self.facts)

    key = content_key(Named(model="a", sha256="1"), ["x", "y"])
    assert key == content_key(Named(model="elsewhere/a", sha256="1"), ["x", "y"])
    others = [
        content_key(Named(model="a", sha256="2"), ["x", "y"]),
        content_key(Named(model="a", sha256="1", pooling="cls"), ["x", "y"]),
        content_key(Named(model="a", sha256="1"), ["y", "x"]),
        content_key(Named(model="a", sha256="1"), ["xy"]),
        content_key(Named(model="a"), ["x", "y"]),
        content_key(Named(model="b"), ["x", "y"]),
    ]
    assert len({key, *others}) == 7
