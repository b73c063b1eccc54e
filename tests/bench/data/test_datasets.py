from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.data.datasets import QUICK_QUERIES, Dataset, load_dataset, names_of
from slimdex.retrieval.documents import Document


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
    assert loaded.own_rows.tolist() == [0, -1, -1]


@pytest.mark.slow
def test_docstrings_are_known_items() -> None:
    loaded = load_dataset("docstrings", None)
    assert len(loaded.texts) == len(loaded.query_texts) > 1000
    place = loaded.ids.index("textwrap.wrap")
    assert "Wrap a single paragraph of text, returning a list" in loaded.query_texts[place]
    assert loaded.texts[place].startswith("Reformat the single paragraph")
    assert loaded.qrels["q:textwrap.wrap"] == {"textwrap.wrap": 1}


def test_names_of_the_mixed_folder_are_in_their_answers_and_paraphrases_in_none() -> None:
    """But for misspelt names, which no document has."""
    loaded = load_dataset("mixed-folder", None)
    text_by_id = dict(zip(loaded.ids, loaded.texts, strict=True))
    assert len(text_by_id) == len(loaded.ids) > 1000
    misspelt = []
    for id, query in zip(loaded.query_ids, loaded.query_texts, strict=True):
        (answer,) = loaded.qrels[id]
        last = query.split()[-1]
        if id.startswith("meaning:"):
            assert query not in text_by_id[answer]
            assert answer.removeprefix("notes/") not in query
        elif last not in f"{answer} {text_by_id[answer]}":
            misspelt.append(last)
    assert misspelt == ["sourdogh", "vegtables", "migraene", "marathn"]


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
        assert quick.ids[quick.own_rows[i]] == query
