"""`Collection.migrate`: encoders of words, of which one knows more words than the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.quality.migration import ENCODE, STAY, Migration, Option
from tests.encoders import Rotated, WordEncoder

DOCUMENTS = 500
ASKED = 150


class Coarse(WordEncoder):
    """A bag of words that does not tell words of the same first two letters apart."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        return super().encode([" ".join(w[:2] for w in text.split()) for text in texts])

    def spec(self) -> dict[str, Any]:
        return {"type": "coarse", "dim": self.dim}


def texts() -> list[str]:
    rng = np.random.default_rng(3)
    words = np.array(["".join(rng.choice(list("abcdef"), 5)) for _ in range(300)])
    return [" ".join(rng.choice(words, 12)) for _ in range(DOCUMENTS)]


def made(folder: Path, encoder: WordEncoder | None = None, **options: str) -> Collection:
    collection = Collection.create(folder / "x.index", encoder or WordEncoder(), **options)  # type: ignore[arg-type]
    collection.add([{"id": str(i), "text": text} for i, text in enumerate(texts())])
    return collection


def compared(collection: Collection, encoder: WordEncoder, sample: int | None = None) -> Migration:
    """Measure a migration, with half the words of some documents as queries."""
    queries = [(f"q{i}", " ".join(text.split()[:6])) for i, text in enumerate(texts()[:ASKED])]
    labels = {f"q{i}": {str(i): 1} for i in range(ASKED)}
    return collection.migrate(encoder, queries=queries, labels=labels, sample=sample)


def option(found: Migration, name: str) -> Option | None:
    return next((option for option in found.options if option.name == name), None)


def test_an_equal_encoder_gains_nothing(tmp_path: Path) -> None:
    with made(tmp_path) as collection:
        found = compared(collection, Rotated())
        stay, again = (option(found, name) for name in (STAY, ENCODE))
        assert stay is not None
        assert again is not None
        assert (stay.gain, stay.gain_bound) == (None, None)
        assert stay.estimate > 0.9  # half of a document's words
        assert stay.bound < stay.estimate
        assert again.estimate == pytest.approx(stay.estimate, abs=0.02)
        assert found.advice == STAY
        assert again.hours > 0 == stay.hours
        assert (found.queries, found.searched) == (ASKED, DOCUMENTS)
        assert found.as_dict()["options"][0]["name"] == STAY


def test_a_better_encoder_is_advised(tmp_path: Path) -> None:
    with made(tmp_path, Coarse()) as collection:
        found = compared(collection, WordEncoder())
        again = option(found, ENCODE)
        assert found.advice == ENCODE
        assert again is not None
        assert again.gain_bound is not None
        assert 0 < again.gain_bound < (again.gain or 0)


def test_given_vectors_have_no_encoder_to_stay_with(tmp_path: Path) -> None:
    folder, vectors = tmp_path / "x.index", WordEncoder().encode(texts())
    with Collection.create(folder, GivenEncoder(vectors.shape[1])) as collection:
        documents = [{"id": str(i), "text": text} for i, text in enumerate(texts())]
        collection.add(documents, vectors=vectors)
        found = compared(collection, Rotated())
        assert [each.name for each in found.options] == [ENCODE]
        assert found.advice == ENCODE


def test_a_sample_too_small_is_refused(tmp_path: Path) -> None:
    with (
        made(tmp_path) as collection,
        pytest.raises(InputError, match="a sample of 5 of 500 documents; expected 10 or more"),
    ):
        compared(collection, Rotated(), 5)


def test_nothing_is_compared_without_labels(tmp_path: Path) -> None:
    with made(tmp_path) as collection, pytest.raises(InputError, match="no labelled queries"):
        collection.migrate(Rotated(), queries=[], labels={})
