"""Evaluation, tuning, exports and the like refuse an index that is only partly encoded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import slimdex
from slimdex import Collection, InputError
from slimdex.retrieval.quality.evaluation import evaluate, evaluate_self
from slimdex.retrieval.quality.health import health
from slimdex.retrieval.quality.near_duplicates import delete_near_duplicates
from slimdex.retrieval.quality.tuning_targets import Target
from tests.encoders import WordEncoder
from tests.retrieval.word_documents import forty

QUERIES = [("q", "word3 cat")]
USES: dict[str, Callable[[Collection], object]] = {
    "evaluate": lambda it: evaluate(it.index, QUERIES, {"q": {"3": 1}}),
    "evaluate_self": lambda it: evaluate_self(it.index, sample=4),
    "health": lambda it: health(it.index, 4),
    "tune": lambda it: it.tune(Target(0.5)),
    "near_duplicates": Collection.near_duplicates,
    "delete_near_duplicates": lambda it: delete_near_duplicates(it.index),
    "parquet": lambda it: slimdex.export(it, it.path.parent / "x.parquet", "parquet"),
    "faiss": lambda it: slimdex.export(it, it.path.parent / "x.faiss", "faiss"),
    "related": lambda it: it.related("waits"),
}


@pytest.mark.parametrize("name", USES)
def test_all_documents_need_vectors(tmp_path: Path, name: str) -> None:
    with Collection.open(forty(tmp_path / "i.index"), WordEncoder()) as collection:
        before = collection.version
        collection.add({"id": "waits", "text": "word3 of a cat"}, encode=False)
        with pytest.raises(InputError, match="have vectors yet"):
            USES[name](collection)
        assert collection.version == before + 1
        assert {each.name for each in tmp_path.iterdir()} == {"i.index"}
        collection.encode()
        if name == "tune":  # too few documents
            return
        USES[name](collection)
