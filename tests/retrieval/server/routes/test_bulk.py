"""Documents as lines: cut anywhere on the way, committed in batches, with the line at fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import InputError, SlimdexError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.limits import Limits
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


def sent(
    path: Path, limits: Limits, *parts: bytes
) -> tuple[list[tuple[int, int]], SlimdexError | None, Collection]:
    """Lines and documents after each commit, the error that ended it, and the collection."""
    reports, collection = list[dict[str, Any]](), Collection.create(path, WordEncoder())

    async def send() -> SlimdexError | None:
        index = ServedIndex("i", collection.index, limits, Metrics(), ThreadPoolExecutor())
        try:
            async for counts in commits(index, pieces(parts)):
                reports.append(counts)
        except SlimdexError as error:
            return error
        return None

    error = asyncio.run(send())
    return [(each["lines"], each["documents"]) for each in reports], error, collection


def lines(ids: Sequence[object]) -> bytes:
    return b"".join(json.dumps({"id": id, "text": f"text {id}"}).encode() + b"\n" for id in ids)


def test_batches_are_limited_by_documents_and_by_bytes(tmp_path: Path) -> None:
    body = lines(range(4)) + b"\n\n" + lines(range(4, 8))
    reports, error, collection = sent(tmp_path / "i", Limits(commit=3), body)
    assert (reports, error) == ([(3, 3), (8, 6), (10, 8)], None)
    assert sorted(document.id for document in collection) == [*"01234567"]
    reports, _, _ = sent(tmp_path / "j", Limits(commit_bytes=1), lines(range(3)))
    assert reports == [(1, 1), (2, 2), (3, 3)]


def test_the_last_document_of_an_id_counts(tmp_path: Path) -> None:
    body = b'{"id": "a", "text": "old"}\n{"id": "a", "text": "new"}'
    reports, error, collection = sent(tmp_path / "i", Limits(), body)
    assert (reports, error) == ([(2, 1)], None)
    assert collection.get("a").text == "new"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b"{", "line 3: "),
        (b'"text"', "line 3: "),
        (b'{"id": 1}', "line 3: "),
        (b"\xff", "line 3: "),
        (b'{"id": 1, "text": "x", "row": 5}', "lines 3 to 4: "),
    ],
)
def test_the_line_at_fault_is_named_and_earlier_commits_stay(
    line: bytes, place: str, tmp_path: Path
) -> None:
    parts = (lines("ab"), line + b"\n", lines("cd"))
    reports, error, collection = sent(tmp_path / "i", Limits(commit=2), *parts)
    assert reports == [(2, 2)]
    assert isinstance(error, InputError)
    assert str(error).startswith(place), error
    assert sorted(document.id for document in collection) == ["a", "b"]


@pytest.mark.parametrize("parts", [(b"\n \n",), (lines("a"), b"x" * 30, b"x" * 30)])
def test_no_document_or_too_long_a_line_is_refused(parts: Sequence[bytes], tmp_path: Path) -> None:
    reports, error, collection = sent(tmp_path / "i", Limits(line=50), *parts)
    assert (reports, len(collection)) == ([], 0)
    assert error is not None
