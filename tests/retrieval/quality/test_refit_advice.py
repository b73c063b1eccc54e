"""A reducer that saw few of the documents: the user is told, and a new start is a new fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.indexes.codes import kinds
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli.app import app
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from slimdex.retrieval.ingest.repair import verify
from slimdex.retrieval.quality.refit_advice import coding_seconds
from tests.encoders import WordEncoder
from tests.slow import slow


def topic(name: str, count: int) -> list[Document]:
    return [
        Document(f"{name}{i}", f"{name}{i % 13} {name}{i % 29} {name}{i % 31}")
        for i in range(count)
    ]


def test_an_index_that_has_more_than_doubled_says_so(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        assert collection.add(topic("a", 700)).notes == []
        assert collection.state.fitted == 700
        assert collection.add(topic("b", 700)).notes == []  # doubled, not more
        (note,) = collection.add([Document("c", "c")], refit="never").notes
        expected = rf"fitted on 700 of 1,401 documents; `slimdex reduce {tmp_path}/i` fits again"
        assert re.fullmatch(rf"{expected} \(about \d+ s\)", note)
    info = json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "i"), "--json"]).stdout)
    assert info["fitted_documents"] == 700


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
        assert collection.reduce(collection.state.requested) == []
        assert collection.info()["notes"] == []
        assert collection.info()["settings"]["kind"] == "ivf-pq"
        assert collection.info()["search"] == {"candidates": 200, "lists_probed": 8, "lists": 8}
        assert [hit.id for hit in collection.search_many("a3")[0]] == [hit.id for hit in before]
    assert verify(tmp_path / "i") == []


def test_a_handful_of_documents_is_not_worth_a_word(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", GivenEncoder(16)) as collection:
        for first, more in ((0, 1), (1, 15), (16, 1)):
            vectors = np.eye(17, 16, dtype=np.float32)[first : first + more] + 0.1
            added = collection.add(topic("a", 17)[first : first + more], vectors=vectors)
            assert not [note for note in added.notes if note.startswith("fitted on")]


def test_the_time_is_that_of_coding_all_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.create(tmp_path / "i", GivenEncoder(16)) as collection:
        vectors = rng.normal(size=(700, 16)).astype(np.float32)
        collection.add(topic("a", 700), vectors=vectors)
        assert coding_seconds(collection.reduced_index) is not None
        collection.reduce(Settings(reducer="autoencoder", k=8))
        assert coding_seconds(collection.reduced_index) is None


@pytest.mark.slow
@pytest.mark.parametrize("way", ["delete", *slow(["delete and compact", "replace"])])
def test_when_nothing_is_left_of_the_first_fit_there_is_another(tmp_path: Path, way: str) -> None:
    """As in a fresh build: the codes of the new topic are trained on it."""
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(topic("a", 800))
        if way == "replace":
            other = [Document(f"a{i}", d.text) for i, d in enumerate(topic("b", 800))]
        else:
            collection.delete(where="true")
            other = topic("b", 800)
        if way == "delete and compact":
            collection.compact()
        collection.add(other)
        assert collection.state.fitted == 800
        reducer = collection.reduced_index.reducer
        live = np.setdiff1d(np.arange(collection.state.rows), collection.snapshot.hidden)
        vectors = collection.commit_log.vectors().take(live)
    with Collection.create(tmp_path / "fresh", GivenEncoder(48)) as fresh:
        fresh.add(other, vectors=vectors)
        expected = fresh.reduced_index.reducer.transform(vectors)
    np.testing.assert_allclose(np.abs(reducer.transform(vectors)), np.abs(expected), atol=2e-3)
    assert verify(tmp_path / "i") == []
