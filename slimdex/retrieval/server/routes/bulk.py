"""Bulk upload: documents as lines of JSON, read no faster than they are committed.

During a commit no more is read: the connection's buffer fills up, and the caller waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic
from typing import Any

from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.json_text import parsed

from ...adding import add_given
from ...collection import Collection
from ...documents import id_text
from ...ingest.writer import Added
from ..limits import LimitError, Limits
from ..served_index import ServedIndex

STREAMED = ("application/x-ndjson", "application/jsonl", "application/ndjson")
"""Content types that are read line by line, with a limit per line."""
Line = tuple[int, bytes]
"""A line's number, from 1, and its bytes."""


@dataclass(frozen=True)
class Durable:
    """Committed part of a stream.

    `lines` counts lines read, including empty ones.
    """

    lines: int = 0
    documents: int = 0
    replaced: int = 0
    unchanged: int = 0
    encoded: int = 0

    def and_then(self, added: Added, lines: int) -> Durable:
        """Add a commit that ends at line `lines`."""
        return Durable(
            lines,
            self.documents + added.documents,
            self.replaced + added.replaced,
            self.unchanged + added.unchanged,
            self.encoded + added.encoded,
        )


async def commits(index: ServedIndex, body: AsyncIterator[bytes]) -> AsyncGenerator[Durable]:
    """Yield the committed part after each commit.

    Raises
    ------
    InputError
        For an invalid document, with its line number. Earlier commits remain.
    LimitError
        For a line that is too long.
    """
    done = Durable()
    async for lines in _parts(body, index.limits):
        added = await index.change(partial(_add, lines=lines))
        done = done.and_then(added, lines[-1][0])
        yield done
    if not done.lines:
        raise InputError("no documents; expected lines of JSON, each with an id and a text")


async def commit(index: ServedIndex, body: Any, refit: str = "auto") -> dict[str, Any]:
    """Commit the documents of a JSON value, an object or a list of them.

    Returns the fields of `Durable`, and the notes of the addition and whether it refitted.
    Raises `InputError` for an invalid document, with its number.
    """
    given = body if isinstance(body, list) else [body]
    documents = _last(enumerate(given, start=1), "document")
    if not documents:
        raise InputError("no documents; expected at least one")
    if len(documents) < len(given):
        id, times = Counter(id_text(one["id"]) for one in given).most_common(1)[0]
        raise InputError(f"id {shortened(id)} occurs {times} times; expected each id once")
    added = await index.change(lambda collection: add_given(collection, documents, refit=refit))
    durable = Durable().and_then(added, len(given))
    return asdict(durable) | {"notes": added.notes, "refitted": added.refitted}


def _last(found: Iterable[tuple[int, Any]], what: str) -> list[dict[str, Any]]:
    """Return the last document of each id, as if documents were added one after the other."""
    documents = {}
    for number, value in found:
        if not isinstance(value, dict) or "id" not in value or "text" not in value:
            raise InputError(f"{what} {number:,}: expected a JSON object with an id and a text")
        try:
            documents[id_text(value["id"])] = value
        except InputError as error:
            raise InputError(f"{what} {number:,}: {error}") from error
    return [*documents.values()]


def _parsed(lines: Sequence[Line]) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        try:
            yield number, parsed(line.decode())
        except ValueError as error:
            raise InputError(f"line {number:,}: {error}; expected a JSON object") from error


def _add(collection: Collection, lines: Sequence[Line]) -> Added:
    documents = _last(_parsed(lines), "line")
    try:
        return add_given(collection, documents)
    except InputError as error:
        raise InputError(f"lines {lines[0][0]:,} to {lines[-1][0]:,}: {error}") from error


async def _parts(body: AsyncIterator[bytes], limits: Limits) -> AsyncIterator[list[Line]]:
    """Yield nonempty lines, in batches to be committed together."""
    part, size = list[Line](), 0
    async for number, line in _lines(body, limits):
        if line.strip():
            part.append((number, line))
            size += len(line)
        if len(part) >= limits.commit or size >= limits.commit_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part


async def _lines(body: AsyncIterator[bytes], limits: Limits) -> AsyncIterator[Line]:
    number, rest, since = 1, bytearray(), monotonic()
    async for chunk in body:
        first, *others = chunk.split(b"\n")
        rest += first
        _check(number, len(rest), monotonic() - since, limits)
        for other in others:
            yield number, bytes(rest)
            number, rest = number + 1, bytearray(other)
            _check(number, len(rest), 0.0, limits)
        if others:
            since = monotonic()
    if rest:
        yield number, bytes(rest)


def _check(number: int, size: int, seconds: float, limits: Limits) -> None:
    """Raise `LimitError` for a line that is too long or too slow."""
    if size > limits.line:
        raise LimitError(413, f"line {number:,}: {size:,} bytes; expected {limits.line:,} or fewer")
    if seconds > limits.idle:
        raise LimitError(
            408, f"line {number:,}: incomplete after {limits.idle:g} s; expected the rest of it"
        )
