"""Segments are rebuilt from the lines, and lines from the segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import CorruptError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import repair, verify
from tests.encoders import ReadingEncoder

from .test_lines import relation
from .test_trailing import flip

PLACE = "0" * 32


def made(path: Path) -> Collection:
    """Three segments: of texts that are cut, of values of every type, of origins that changed."""
    cut = [
        Document(
            f"cut{i}",
            " ".join(f"Sentence {j} of word{i}." for j in range(i)),
            f"title {i}",
            parts=(Part(0, ("A",)), Part(20, ("A", "B"), 2)) if i % 2 else (),
            origin=f"{PLACE}/{i}" if i % 3 else "",
        )
        for i in range(2, 12)
    ]
    more = [Document(f"more{i}", f"word{i}", metadata={"m": {"a": i}}) for i in range(20)]
    collection = Collection.create(path, ReadingEncoder(), passages=16)
    add(collection.index, Addition(cut))
    collection.add(relation())
    collection.add(more)
    collection.delete(["cut3", "more7"])
    with collection.index.change() as change:
        change.origins = {0: f"{PLACE}/changed"}
        change.commit()
    collection.add([Document("late", "word5")])
    assert len(collection.index.state.segments) == 3
    assert collection.index.state.segment_rows < collection.index.state.rows
    return collection


def told(collection: Collection) -> list[Any]:
    store = collection.index.store
    return [
        *(
            repr(store.fetch(f"FROM {t} ORDER BY ALL"))
            for t in ("documents", "passages", "origins")
        ),
        [*map(repr, collection)],
        dict(collection.index.snapshot.columns),
        [(hit.id, hit.start) for hit in collection.search("word5", limit=20)],
    ]


@pytest.mark.parametrize("damaged", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("is_missing", [True, False])
def test_damaged_segments_are_rebuilt_from_the_lines(
    tmp_path: Path, damaged: tuple[int, ...], is_missing: bool
) -> None:
    path = tmp_path / "x"
    with made(path) as collection:
        expected = told(collection)
        segments = [path / each.name for each in collection.index.state.segments]
    for number in damaged:
        if is_missing:
            segments[number].unlink()
        else:
            flip(segments[number], 9_000)
    faults = verify(path)
    assert [fault.partition(":")[0] for fault in faults] == [str(segments[i]) for i in damaged]
    assert repair(path) == faults
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder()) as collection:
        assert told(collection) == expected
        collection.add([Document("another", "word9")])
        collection.compact()
        assert verify(path) == []
    assert repair(path) == []


@pytest.mark.parametrize("is_missing", [True, False])
def test_damaged_readings_keep_the_rows_without_text(tmp_path: Path, is_missing: bool) -> None:
    path = tmp_path / "x"
    with Collection.create(path, ReadingEncoder(max_length=8), passages="off") as collection:
        collection.add([Document("long", "word " * 40), Document("none", ""), Document("a", "b")])
        with collection.index.change() as change:
            change.readings.add({0: (40, 8)})
            change.commit()
        snapshot = collection.index.snapshot
        assert snapshot.state.readings is not None
        assert snapshot.store.readings.of(np.arange(3)) == {0: (40, 8), 1: (0, 0)}
    readings = path / snapshot.state.readings
    if is_missing:
        readings.unlink()
    else:
        flip(readings, 9)
    (fault,) = verify(path)
    assert repair(path) == [f"{fault}; how much of long texts was read is forgotten"]
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder(max_length=8)) as collection:
        assert collection.index.snapshot.store.readings.of(np.arange(3)) == {1: (0, 0)}
        assert [hit.id for hit in collection.search("b", limit=1)] == ["a"]


def test_segments_are_rebuilt_while_others_read(tmp_path: Path) -> None:
    with made(tmp_path / "x") as reader:
        expected = told(reader)
        flip(tmp_path / "x" / reader.index.state.segments[0].name, 9_000)
        repair(tmp_path / "x")
        assert told(reader) == expected


def test_a_document_is_lost_if_its_segment_and_its_line_are_damaged(tmp_path: Path) -> None:
    """Damage to either one alone is repaired."""
    with made(tmp_path / "x") as collection:
        state = collection.index.state
        expected = told(collection)
        assert state.lines is not None
    lines = tmp_path / "x" / state.lines.documents
    segments = [tmp_path / "x" / each.name for each in state.segments]
    whole = {path: path.read_bytes() for path in (lines, *segments)}
    flip(lines, 40)  # of the first document
    flip(segments[0], 9_000)
    damaged = {path: path.read_bytes() for path in (lines, *segments)}
    with pytest.raises(CorruptError, match="can't be rebuilt"):
        repair(tmp_path / "x")
    assert {path: path.read_bytes() for path in damaged} == damaged
    segments[0].write_bytes(whole[segments[0]])
    flip(segments[1], 9_000)
    assert len(repair(tmp_path / "x")) == 2
    assert verify(tmp_path / "x") == []
    with Collection.open(tmp_path / "x", ReadingEncoder()) as collection:
        assert told(collection) == expected
