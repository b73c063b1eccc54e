"""Documents as lines: cut anywhere on the way, committed some at a time, with the line at fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.conditional import Conditional
from slimdex.retrieval.server.limits import LimitError, Limits
from slimdex.retrieval.server.metrics import Metrics
from slimdex.retrieval.server.routes.bulk import _lines, commits
from slimdex.retrieval.server.served_index import ServedIndex
from tests.encoders import WordEncoder


async def pieces(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\r", b"\n")), st.data())
def test_lines_are_the_same_however_they_come(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    async def read() -> list[tuple[int, bytes]]:
        return [line async for line in _lines(pieces(parts), Limits(line=1000))]

    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert asyncio.run(read()) == [*enumerate(expected, start=1)]


def served(path: Path, limits: Limits) -> ServedIndex:
    collection = Collection.create(path, WordEncoder())
    return ServedIndex("i", collection, limits, Metrics(), Conditional())


def sent(
    index: ServedIndex, parts: Sequence[bytes]
) -> tuple[list[dict[str, int]], Exception | None]:
    """What was told of each commit, and what ended it."""
    told = list[dict[str, int]]()

    async def send() -> Exception | None:
        try:
            async for durable in commits(index, pieces(parts)):
                told.append({"lines": durable.lines, "documents": durable.documents})
        except (InputError, LimitError) as error:
            return error
        return None

    return told, asyncio.run(send())


def lines(ids: Sequence[object]) -> bytes:
    return b"".join(json.dumps({"id": id, "text": f"text {id}"}).encode() + b"\n" for id in ids)


def test_some_are_committed_together(tmp_path: Path) -> None:
    index = served(tmp_path / "i", Limits(commit=3))
    told, error = sent(index, [lines(range(4)) + b"\n\n" + lines(range(4, 8))])
    assert error is None
    assert told == [
        {"lines": 3, "documents": 3},
        {"lines": 8, "documents": 6},
        {"lines": 10, "documents": 8},
    ]
    assert sorted(d.id for d in index.collection) == [*"01234567"]
    many = served(tmp_path / "j", Limits(commit_bytes=1))
    assert len(sent(many, [lines(range(3))])[0]) == 3


def test_the_last_of_an_id_counts(tmp_path: Path) -> None:
    index = served(tmp_path / "i", Limits())
    body = b'{"id": "a", "text": "old"}\n{"id": "a", "text": "new"}'
    told, error = sent(index, [body])
    assert (told, error) == ([{"lines": 2, "documents": 1}], None)
    assert index.collection.get("a").text == "new"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3: "),
        (b'"text"', "line 3: expected a JSON object with an id and a text"),
        (b'{"id": 1}', "line 3: expected a JSON object with an id and a text"),
        (b"\xff", "line 3: "),
        (b'{"id": 1, "text": "x", "row": 5}', "lines 3 to 4: "),
    ],
)
def test_a_line_at_fault_is_named_and_what_was_told_stays(
    line: bytes, message: str, tmp_path: Path
) -> None:
    index = served(tmp_path / "i", Limits(commit=2))
    told, error = sent(index, [lines("ab"), line + b"\n", lines("cd")])
    assert told == [{"lines": 2, "documents": 2}]
    assert isinstance(error, InputError)
    assert str(error).startswith(message), error
    assert sorted(d.id for d in index.collection) == ["a", "b"]


def test_nothing_and_too_much(tmp_path: Path) -> None:
    index = served(tmp_path / "i", Limits(line=50))
    assert "no documents; expected lines of JSON" in str(sent(index, [b"\n \n"])[1])
    long = [lines("a"), b"x" * 30, b"x" * 30]
    assert "line 2: 60 bytes; expected 50 or fewer" in str(sent(index, long)[1])
    assert len(index.collection) == 0  # the first was not told yet
