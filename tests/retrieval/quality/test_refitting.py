"""Refitting after additions, if the fit has seen few of the documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.errors import InputError
from slimdex.indexes.codes import kinds
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.quality.refitting import after_addition
from tests.encoders import WordEncoder


def topic(name: str, count: int) -> list[Document]:
    return [
        Document(f"{name}{i}", f"{name}{i % 13} {name}{i % 29} {name}{i % 31}")
        for i in range(count)
    ]


def test_an_index_that_has_more_than_doubled_advises_a_new_fit(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        assert collection.add(topic("a", 700)).notes == []
        assert collection.add(topic("b", 700)).notes == []  # doubled, not more
        (note,) = collection.add([Document("c", "c")], refit="never").notes
        assert "fitted on 700 of 1,401 documents; `slimdex reduce" in note
        assert collection.add(topic("d", 10), refit="never").notes == []  # not each time
        assert collection.add(topic("e", 700), refit="never").notes == []
        (note,) = collection.add(topic("f", 700), refit="never").notes  # doubled again
        assert "fitted on 700 of 2,811 documents; `slimdex reduce" in note
        with pytest.raises(InputError, match="refit='soon'; expected auto, never or always"):
            collection.add([Document("d", "d")], refit="soon")
    info = json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "i"), "--json"]).stdout)
    assert info["fitted_rows"] == 700
    assert "fitted on 700 of 2,811 documents" in info["notes"][0]


@pytest.mark.parametrize(("seconds", "is_refitted"), [(0.05, False), (0.5, True)])
def test_auto_refits_only_if_that_takes_hardly_longer_than_the_addition(
    tmp_path: Path, seconds: float, is_refitted: bool
) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(topic("a", 700))
        collection.add(topic("b", 800), refit="never")
        (note,), refitted = after_addition(collection.index, 700, seconds)
        assert refitted is is_refitted
        assert ("refitted in" if is_refitted else f"`slimdex reduce {tmp_path}/i`") in note
        assert collection.index.state.fit_rows == (1500 if is_refitted else 700)
        assert len(collection.search("a3")) == 10


@pytest.mark.slow
def test_a_refitted_index_equals_a_fresh_build(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(topic("a", 640))
        added = collection.add(topic("b", 800), refit="always")
        assert added.refitted
        assert collection.index.state.fit_rows == len(collection)
        vectors = collection.index.snapshot.vectors().take(np.arange(1440))
        refitted = collection.index.snapshot.index.reducer.transform(vectors)
    with Collection.create(tmp_path / "fresh", WordEncoder()) as fresh:
        fresh.add([*topic("a", 640), *topic("b", 800)])
        expected = fresh.index.snapshot.index.reducer.transform(vectors)
    np.testing.assert_allclose(np.abs(refitted), np.abs(expected), atol=2e-3)
    assert verify(tmp_path / "i") == []


@pytest.mark.slow
def test_auto_says_when_another_kind_would_be_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And changes to it when it is told to, not in the middle of an addition."""
    monkeypatch.setattr(kinds, "LISTS_FROM", 1000)
    advice = f"1,001 documents: kind ivf-pq, from `slimdex reduce {tmp_path}/i`, is faster"
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        assert collection.add(topic("a", 999)).notes == []
        assert collection.info()["search"] == {"candidates": 200}
        assert collection.add(topic("b", 2)).notes == [advice]
        assert collection.info()["notes"] == [advice]
        before = collection.search_many("a3")[0]
        assert collection.reduce(collection.index.state.requested) == []
        assert collection.info()["notes"] == []
        assert collection.info()["settings"]["kind"] == "ivf-pq"
        assert collection.info()["search"] == {"candidates": 200, "lists_probed": 8, "lists": 8}
        assert [hit.id for hit in collection.search_many("a3")[0]] == [hit.id for hit in before]
    assert verify(tmp_path / "i") == []


@pytest.mark.slow
def test_when_nothing_is_left_of_the_first_fit_there_is_another(tmp_path: Path) -> None:
    """As in a fresh build: the codes of the new topic are trained on it."""
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(topic("a", 800))
        # Replaces all of them.
        other = [Document(f"a{i}", d.text) for i, d in enumerate(topic("b", 800))]
        collection.add(other)
        assert collection.index.state.fit_rows == 800
        reducer = collection.index.snapshot.index.reducer
        vectors = collection.index.snapshot.vectors().take(
            collection.index.snapshot.searchable_rows()
        )
    with Collection.create(tmp_path / "fresh", GivenEncoder(48)) as fresh:
        fresh.add(other, vectors=vectors)
        expected = fresh.index.snapshot.index.reducer.transform(vectors)
    np.testing.assert_allclose(np.abs(reducer.transform(vectors)), np.abs(expected), atol=2e-3)
