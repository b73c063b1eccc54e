"""Encoders that others made: a function, a model of sentence-transformers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from slimdex import Collection, InputError, TransformerEncoder
from slimdex.retrieval.encoders.adapters import as_encoder
from slimdex.retrieval.encoders.base import CountingEncoder
from tests.encoders import direction

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TEXTS = {"a": "the cat sat", "b": "rain fell", "c": "a dog ran"}


def theirs(folder: Path, **options: Any) -> SentenceTransformer:
    """A model of the library, whose import takes seconds."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", **options)


def words(texts: list[str]) -> Any:
    return np.array([sum(direction(word, 16) for word in text.split()) for text in texts])


def test_a_function_is_an_encoder(tmp_path: Path) -> None:
    documents = [{"id": id, "text": text} for id, text in TEXTS.items()]
    with Collection.create(tmp_path / "i", words) as collection:
        collection.add(documents)
        assert [hit.id for hit in collection.search("rain", 1)] == ["b"]
    with pytest.raises(InputError, match="pass that encoder to open"):
        Collection.open(tmp_path / "i").search("rain")
    with Collection.open(tmp_path / "i", words) as collection:
        assert [hit.id for hit in collection.search("dog", 1)] == ["c"]
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open(tmp_path / "i", lambda texts: words(texts))


def make_function(shift: int) -> Any:
    """Make an encoding function; its name does not tell which model it uses."""
    return lambda texts: np.roll(words(texts), shift, axis=1)


class Model:
    """A callable object that encodes with one of two models."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def __call__(self, texts: list[str]) -> Any:
        return np.roll(words(texts), self.shift, axis=1)


@pytest.mark.parametrize("make", [make_function, Model, lambda shift: partial(Model(shift))])
def test_a_function_whose_model_has_changed_is_refused(make: Any, tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", make(0)) as collection:
        collection.add([{"id": id, "text": text} for id, text in TEXTS.items()])
    with pytest.raises(InputError):
        Collection.open(tmp_path / "i", make(1))
    with Collection.open(tmp_path / "i", make(0)) as collection:
        assert collection.search("rain", 1)[0].id == "b"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda texts: 5, "expected two dimensions"),
        (lambda texts: [[1.0, float("nan")]], "is nan"),
        (lambda texts: [[1.0], [2.0]], "2 vectors for 3 texts"),
        (lambda texts: "no", "expected rows of numbers"),
    ],
)
def test_functions_without_vectors_are_refused(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Collection.create(tmp_path / "i", function)
    assert not (tmp_path / "i").exists()


@pytest.mark.slow
def test_a_sentence_transformer_is_an_encoder(tiny_bert: Path, tmp_path: Path) -> None:
    model = theirs(tiny_bert)
    with Collection.create(tmp_path / "i", model) as collection:
        collection.add([{"id": id, "text": text} for id, text in TEXTS.items()])
        expected = model.encode([*TEXTS.values()])
        assert isinstance(expected, np.ndarray)
        found = collection.index.snapshot.vectors().take(np.arange(3))
        np.testing.assert_allclose(found, expected, atol=2e-3)  # half precision
        assert collection.search("the cat sat", 1)[0].id == "a"
    again = theirs(tiny_bert)
    with Collection.open(tmp_path / "i", again) as collection:
        assert collection.search("rain fell", 1)[0].id == "b"
    next(again.parameters()).data.mul_(1.5)
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open(tmp_path / "i", again)
    reader = TransformerEncoder(str(tiny_bert), pooling="mean", precision="fp32")  # as theirs
    ours = reader.encode([*TEXTS.values()])
    np.testing.assert_allclose(as_encoder(model).encode([*TEXTS.values()]), ours, atol=1e-4)


@pytest.mark.slow
def test_a_sentence_transformer_counts_tokens(tiny_bert: Path, tmp_path: Path) -> None:
    model = theirs(tiny_bert, prompts={"document": "the cat "})
    model.max_seq_length = 24
    texts = ["", "the dog", "the cat sat on the mat " * 9]
    own = TransformerEncoder(str(tiny_bert), max_length=24, document_prompt="the cat ")
    adapted = as_encoder(model)
    assert isinstance(adapted, CountingEncoder)
    assert adapted.token_counts(texts) == own.token_counts(texts)
    with Collection.create(tmp_path / "i", model) as collection:
        collection.add([{"id": "long", "text": texts[2]}, {"id": "short", "text": texts[1]}])
        assert collection.info()["passages"] == {"tokens": 24, "documents_cut": 1, "rows": 7}
        assert len(collection.search("the dog")) == 2
