"""Related documents, by brute force over the encoder's own vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import ReadingEncoder

PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity", kind="flat", candidates=1000)
TOPICS = ["cats sleep all day", "trains leave at nine", "rain fell on the roof", "a dog barked"]


@pytest.fixture
def texts() -> dict[str, str]:
    rng = np.random.default_rng(0)
    drawn = (rng.choice(TOPICS, size=rng.integers(1, 9)) for _ in range(60))
    return {f"d{i}": ". ".join([*words, f"number {i}"]) + "." for i, words in enumerate(drawn)}


@pytest.fixture
def collection(tmp_path: Path, texts: dict[str, str]) -> Collection:
    made = Collection.create(tmp_path / "x", ReadingEncoder(), PLAIN)
    made.add([{"id": id, "text": text, "n": int(id[1:])} for id, text in texts.items()])
    return made


def unit(collection: Collection, document: Document) -> Matrix:
    spans = document.passages or [(0, len(document.text))]
    X = ReadingEncoder().encode([document.text[a:b] for a, b in spans])
    return normalize_rows(X)


@pytest.mark.parametrize("where", [None, "n % 2 = 0"])
def test_the_nearest_to_the_mean_of_its_passages(collection: Collection, where: str | None) -> None:
    documents = {document.id: document for document in collection}
    assert sum(bool(document.passages) for document in documents.values()) > 20
    by_passages = sorted(documents, key=lambda id: len(documents[id].passages))
    for id in (by_passages[0], *by_passages[-2:]):
        query = unit(collection, documents[id]).mean(axis=0)
        query /= np.linalg.norm(query)
        scores = {
            other: float((unit(collection, document) @ query).max())
            for other, document in documents.items()
            if other != id and (where is None or int(other[1:]) % 2 == 0)
        }
        best = sorted(scores.values(), reverse=True)[:7]
        hits = collection.related(id, 7, where)
        assert id not in {hit.id for hit in hits}
        assert len({hit.id for hit in hits}) == 7
        np.testing.assert_allclose([hit.score for hit in hits], best, atol=2e-3)
        np.testing.assert_allclose([scores[hit.id] for hit in hits], best, atol=2e-3)


def test_deleted_documents_are_not_related(collection: Collection) -> None:
    (first,) = collection.related("d3", 1)
    collection.delete(first.id)
    assert first.id not in {hit.id for hit in collection.related("d3", 60)}
    assert len(collection.related("d3", 60)) == 58


def test_invalid_requests_are_refused(collection: Collection) -> None:
    collection.add({"id": "empty", "text": ""})
    for id, limit, message in (
        ("none", 1, "'none'"),
        ("empty", 1, "no text"),
        ("d3", 0, "limit=0"),
    ):
        with pytest.raises(InputError, match=message):
            collection.related(id, limit)
