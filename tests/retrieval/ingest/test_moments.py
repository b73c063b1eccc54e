"""The moments are those of the live rows after any change, whether it wrote their file or not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import fitting
from slimdex.retrieval.ingest.repairing import verify
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder

LONG = " ".join(f"Sentence {i} of other{i} and word{i}." for i in range(9))
"""Three passages."""
TEXTS = {f"id{i}": f"word{i} text {LONG * (i % 9 == 4)}" for i in range(80)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "x"
    with Collection.create(path, ReadingEncoder(16), Settings(k=8, kind="sq8")) as collection:
        collection.add([Document(*each) for each in TEXTS.items()])
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x"))


def opened(path: Path) -> Collection:
    return Collection.open(path, ReadingEncoder(16))


def check(collection: Collection) -> None:
    """Compare the moments of the index with those of the live rows; scatters are in float32."""
    snapshot = collection.index.snapshot
    X = snapshot.vectors().take(snapshot.searchable_rows()).astype(np.float64)
    moments = snapshot.moments()
    assert moments.n == len(X)
    if not len(X):
        return
    np.testing.assert_allclose(moments.mean, X.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(moments.covariance(), np.cov(X.T, bias=True), atol=1e-5)


def file_of(collection: Collection) -> str:
    return collection.index.state.files["moments"].name


def test_moments_are_written_again_once_many_rows_are_late(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "MOST_UNCOUNTED", 4)
    with opened(path) as collection:
        name = file_of(collection)
        collection.add([Document("late", "one more")])
        collection.delete(["id1", "id2"])
        assert file_of(collection) == name
        collection.add([Document("later", "another"), Document("latest", "the last")])
        assert file_of(collection) != name
        assert collection.index.state.moments_rows == collection.index.state.encoded
        check(collection)


any_changes = st.lists(
    st.tuples(st.just("add"), st.sets(st.integers(0, 90), min_size=1, max_size=6))
    | st.tuples(st.just("delete"), st.sets(st.integers(0, 90), min_size=1, max_size=4))
    | st.tuples(st.sampled_from(["undo", "undo", "compact", "refit", "open"]), st.just(set())),
    min_size=4,
    max_size=12,
)


@given(changes=any_changes)
@settings(max_examples=CHANCE.examples(CHANCE.count(200, 12)), deadline=None)
def test_moments_after_any_changes(
    changes: list[tuple[str, set[int]]], made: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = shutil.copytree(made, tmp_path_factory.mktemp("changed") / "x")
    expected, before, collection = dict(TEXTS), dict[str, str](), opened(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "MOST_UNCOUNTED", 12)
        for number, (change, places) in enumerate(changes):
            ids = [f"id{place}" for place in sorted(places)]
            old = dict(expected)
            if change == "add":
                expected |= {
                    id: ("", f"text {number} {id}", f"{number} {LONG}")[(number + i) % 3]
                    for i, id in enumerate(ids)
                }
                collection.add([Document(id, expected[id]) for id in ids])
            elif change == "delete":
                collection.delete([id for id in ids if id in expected])
                expected = {id: text for id, text in old.items() if id not in ids}
            elif change == "undo" and collection.index.state.before:
                collection.undo()
                expected = before
            elif change == "compact":
                collection.compact()
            elif change == "refit":
                collection.reduce(Settings(k=4 + number % 2, kind="sq8"))
            elif change == "open":
                collection.close()
                collection = opened(path)
            if change == "refit" or expected != old:
                before = old
            assert {each.id: each.text for each in collection} == expected
            check(collection)
    collection.close()
    assert verify(path) == []
    shutil.rmtree(path.parent)
