"""Answers: the order of their steps, the vectors of texts, and the way down to FAISS."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import slimdex
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
from tests.encoders import ReadingEncoder, WordEncoder

PACKAGE = Path(slimdex.__file__).parent
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


@pytest.mark.parametrize("passages", ["off", 16])
@pytest.mark.parametrize("hybrid", ["off", "auto"])
def test_the_way_down_to_faiss_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passages: str | int, hybrid: str
) -> None:
    """At most nine functions in six files, from `Collection.search` to FAISS."""
    ways = list[Sequence[tuple[str, str]]]()
    create = slimdex.Collection.create  # with the checks of the public name
    with create(tmp_path / "y.index", ReadingEncoder(), passages=passages) as collection:
        collection.add(
            [Document(str(i), f"{text}. {text}. {text}.") for i, text in enumerate(TEXTS)]
        )
        assert collection.index.snapshot.document_rows.is_one_each == (passages == "off")
        codes = type(collection.index.snapshot.index.index._index)
        search = codes.search

        def noted(*args: Any, **options: Any) -> Any:
            ways.append(way(sys._getframe(1)))
            return search(*args, **options)

        monkeypatch.setattr(codes, "search", noted)
        assert len(collection.search("word3 cats", hybrid=hybrid)) == 10
    assert ways
    for functions in ways:
        assert ("retrieval/collection.py", "Collection.search") in functions[:2]
        assert functions[-1] == ("indexes/codes/faiss_index.py", "FaissIndex.search")
        assert len({*functions}) <= 9, functions
        assert len({file for file, _ in functions}) <= 6, functions


def way(frame: FrameType | None) -> list[tuple[str, str]]:
    """Files and functions of slimdex that a frame has been called through, in order."""
    found = list[tuple[str, str]]()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            found.insert(0, (path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname))
        frame = frame.f_back
    return found
