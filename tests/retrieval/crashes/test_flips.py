"""Every byte of every file: a flipped one is found by `verify`, or changes no answer."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import SlimdexError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import verify
from tests.chance import CHANCE, sweep
from tests.conftest import Report
from tests.encoders import ReadingEncoder

FLIPS = CHANCE.count(500, 24)
QUERIES = ["parse a date", "remove a directory", "thread lock"]


def told(path: Path) -> Any:
    """All that an index tells: documents, answers with and without a filter, and its state."""
    with Collection.open(path, ReadingEncoder(max_length=48)) as collection:
        store = collection.index.store
        return (
            collection.index.state,
            dict(store.columns),
            [*store.records()],
            store.ids_by_row(),
            store.rows_where("kind = 'function'").tolist(),
            collection.index.snapshot.deleted.tolist(),
            collection.search_many(QUERIES, limit=20),
            collection.search_many(QUERIES, limit=20, where="kind = 'function'"),
        )


def outcome(path: Path, expected: Any) -> str:
    with suppress(SlimdexError):  # or found when opened
        return "found" if verify(path) else _effect(path, expected)
    return "found when opened"


def _effect(path: Path, expected: Any) -> str:
    return "no effect" if told(path) == expected else "MISSED"


def flipped(path: Path, file: Path, offset: int, bit: int, expected: Any) -> str:
    """What comes of it when one bit is another; it is put back."""
    with file.open("rb+") as opened:
        opened.seek(offset)
        byte = opened.read(1)
        opened.seek(offset)
        opened.write(bytes([byte[0] ^ 1 << bit]))
    try:
        return outcome(path, expected)
    finally:
        with file.open("rb+") as opened:
            opened.seek(offset)
            opened.write(byte)


@sweep
@pytest.mark.parametrize(
    ("stored", "flips"), [("fp16", FLIPS), ("int8", FLIPS // 4), ("int4", FLIPS // 4)]
)
def test_flipped_bits_are_found_or_have_no_effect(
    tmp_path: Path,
    docstrings: list[Document],
    report: Report,
    stored: str,
    flips: int,
) -> None:
    rng = np.random.default_rng(CHANCE.seed)
    path = tmp_path / "x.index"
    settings = Settings(kind="sq8")
    with Collection.create(
        path, ReadingEncoder(max_length=48), settings, vector_dtype=stored
    ) as collection:
        collection.add(docstrings[:300])
        collection.delete(where="kind = 'class'")
        collection.add(docstrings[200:400])
        collection.add([Document("tea", "some tea", metadata={"kind": "function"})])
        assert collection.index.state.column_rows < collection.index.state.rows
        assert collection.info()["passages"]["documents_cut"] > 50
    expected = told(path)
    found = (file for file in path.rglob("*") if file.is_file() and file.stat().st_size)
    files = sorted(found)  # some locks are empty
    columns = [file for file in files if file.suffix == ".parquet"]
    counts: Counter[tuple[str, str]] = Counter()
    missed = []
    for i in range(flips):
        file = files[i % len(files)] if i % 2 else columns[i // 2 % len(columns)]
        size = file.stat().st_size
        offset = int(rng.integers(size))
        bit = int(rng.integers(8))
        result = flipped(path, file, offset, bit, expected)
        counts[file.relative_to(path).parts[0].split("-")[0], result] += 1
        if result == "MISSED":
            missed.append((file.name, offset, bit))
    report(f"{flips} flipped bits ({stored}), seed {CHANCE.seed}: {dict(counts)}", flips=flips)
    assert not missed, f"seed {CHANCE.seed}: {missed}"
    assert told(path) == expected
