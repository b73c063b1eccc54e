"""Commands on an index whose encoder only Python can pass, such as a function."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.retrieval.collection import Collection
from tests.encoders import WordEncoder

from ..running import PETS, Runner, write


@pytest.fixture
def own(slimdex: Runner) -> Runner:
    rows = [*PETS, *({"id": f"{i}", "text": f"word{i} the cat"} for i in range(20))]
    with Collection.create("own", WordEncoder()) as collection:
        collection.add(rows)
    write("new.jsonl", [{"id": "new", "text": "a fish"}])
    np.save("cat.npy", WordEncoder().encode(["the cat sat on the mat"]))
    return slimdex


def test_an_index_with_a_python_encoder_is_searched_by_vectors(own: Runner) -> None:
    def found(*words: str) -> list[str]:
        answer = own("search", "own", "--query-vector", "cat.npy", "--json", *words).json
        return [hit["id"] for hit in answer["queries"][0]["hits"]]

    assert found("-n", "1") == ["cat"]
    assert set(found("--where", "year > 2001")) == {"dog", "rain"}
    assert own("open", "own", "rain", "--json").json["metadata"]["kind"] is None
    assert own("info", "own", "--json").json["documents"] == 23
    assert own("verify", "own").code == 0
    assert own("health", "own").code == 0
    assert own("eval", "own", "--self").code == 0
    assert own("delete", "own", "--where", "year = 2003").code == 0
    assert own("compact", "own").code == 0
    assert own("reduce", "own", "--k", "4").code == 0
    assert found("-n", "1") == ["cat"]


@pytest.mark.parametrize("words", [("search", "own", "a cat"), ("add", "own", "new.jsonl")])
def test_texts_are_refused_in_one_line(own: Runner, words: tuple[str, ...]) -> None:
    said = own.refuses(*words)
    assert "pass that encoder to open(), or vectors in place of texts" in said
    assert own("verify", "own").code == 0
    assert own("info", "own", "--json").json["documents"] == 23
