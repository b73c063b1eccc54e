"""Answers: the order of their steps, and the vectors of texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval import commands
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.lexical.fusion import Fusion
from slimdex.retrieval.search.answer import find, fusion_for
from slimdex.retrieval.search.request import SearchRequest, cut
from slimdex.retrieval.store.state import State
from tests.encoders import WordEncoder

TEXTS = [f"word{i} of {i % 7} cats and a dog" for i in range(40)]
AWAY = np.ones((1, 48), np.float32)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.create(tmp_path / "x.index", WordEncoder()) as made:
        made.add([Document(str(i), text) for i, text in enumerate(TEXTS)])
        yield made


def not_loaded(state: State) -> Encoder:
    pytest.fail(f"a model is loaded: {state.encoder}")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SearchRequest(texts="cats", where="nothing = 1"), "nothing"),
        (SearchRequest(texts="cats", hybrid=0.5), "has no lexical index; expected one"),
    ],
)
def test_errors_are_raised_before_a_model_is_loaded(
    collection: Collection,
    monkeypatch: pytest.MonkeyPatch,
    request_: SearchRequest,
    message: str,
) -> None:
    collection.index_lexical(False)
    with pytest.raises(InputError, match=message):
        find(collection.index.snapshot, request_, not_loaded)
    monkeypatch.setattr(collection.index, "encoder_of", not_loaded)
    for excerpts in (False, True):
        with pytest.raises(InputError, match=message):
            commands.search(collection.index, request_, excerpts=excerpts)


@pytest.mark.parametrize(
    ("vectors", "epoch", "are_encoded"),
    [(None, None, True), (AWAY, None, False), (AWAY, 0, False), (AWAY, 1, True)],
)
def test_texts_are_encoded_without_vectors_and_after_another_epoch(
    collection: Collection, vectors: Matrix | None, epoch: int | None, are_encoded: bool
) -> None:
    assert collection.index.state.epoch == 0
    request = SearchRequest(texts=["word3 cats"], vectors=vectors, epoch=epoch, hybrid="off")
    encoded = WordEncoder().encode(["word3 cats"])
    expected = collection.search_many(encoded if are_encoded else AWAY)
    encoder_of = collection.index.encoder_of if are_encoded else not_loaded
    assert find(collection.index.snapshot, request, encoder_of) == expected


def test_an_encoder_that_skips_a_text_is_refused(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = WordEncoder.encode
    monkeypatch.setattr(WordEncoder, "encode", lambda self, texts: encode(self, texts[1:]))
    with pytest.raises(InputError, match="2 texts of 1 queries; expected one of each"):
        collection.search_many(["a cat", "a dog"])


def test_auto_uses_the_fusion_of_the_index() -> None:
    auto = SearchRequest(texts="a")
    found = [fusion_for(auto, choice) for choice in ("off", "auto", "rrf", "0.3")]
    assert found == [None, Fusion("auto"), Fusion(None), Fusion(0.3)]
    assert fusion_for(SearchRequest(vectors=AWAY), "rrf") is None
    assert fusion_for(auto, "rrf", "no words") is None
    assert fusion_for(SearchRequest(texts="a", hybrid=0.0), "rrf", "no words") is None
    with pytest.raises(InputError, match=r"^hybrid='rrf': no words$"):
        fusion_for(SearchRequest(texts="a", hybrid="rrf"), "off", "no words")


def test_hits_below_the_least_score_are_left_out() -> None:
    near, far = Hit("a", 0.5, ""), Hit("b", 0.2, "")
    assert cut([[near, far], [far]], 0.3) == [[near], []]
    assert cut([[near, far]], None) == [[near, far]]
