"""Files of too many columns, or of endless lines: refused in one line before memory is spent."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import duckdb
import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import MOST_COLUMNS, Document
from slimdex.retrieval.sources.files.input_files import LARGEST_OBJECT
from slimdex.retrieval.sources.source import open_source
from tests.encoders import WordEncoder

WIDE = 100_000
REFUSED = f"columns; expected {MOST_COLUMNS:,} or fewer"


def test_a_table_that_is_too_wide(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(WIDE)]
    row = {"id": "1", "text": "x"} | dict.fromkeys(names, 1)
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "b.json").write_text(json.dumps([row]))
    with (tmp_path / "c.jsonl").open("w") as lines:  # each row is narrow
        for i in range(1500):
            own = {f"c{i}_{j}": 1 for j in range(10)}
            lines.write(json.dumps({"id": i, "text": "x"} | own) + "\n")
    (tmp_path / "d.csv").write_text(",".join(["id", "text", *names]) + "\n" + "1," * WIDE + "1,1\n")
    (tmp_path / "e.tsv").write_text("\t".join(["id", "text", *names]) + "\n")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InputError, match=REFUSED) as raised:
            open_source(str(path))
        assert str(raised.value).startswith(str(path))


def test_a_relation_that_fails_is_bad_input(tmp_path: Path) -> None:
    relation = duckdb.sql(
        "SELECT i AS id, CASE i WHEN 7 THEN error('odd') ELSE 'x' END AS text FROM range(9) t(i)"
    )
    with Collection.create(tmp_path / "x", WordEncoder(8), Settings(kind="flat")) as collection:
        with pytest.raises(InputError, match="odd; expected documents"):
            collection.add(relation)
        assert len(collection) == 0


def test_documents_that_are_too_wide(tmp_path: Path) -> None:
    metadata = dict.fromkeys((f"c{i}" for i in range(MOST_COLUMNS + 1)), 1)
    columns = ", ".join(f"1 AS {name}" for name in metadata)
    with Collection.create(tmp_path / "x", WordEncoder(8), Settings(kind="flat")) as collection:
        for given in (
            Document("1", "x", metadata=metadata),
            {"id": "1", "text": "x"} | metadata,
            duckdb.sql(f"SELECT '1' AS id, 'x' AS text, {columns}"),
            [{"id": i, "text": "x"} | {f"c{i}_{j}": 1 for j in range(2000)} for i in range(6)],
        ):
            with pytest.raises(InputError, match=REFUSED):
                collection.add(given)
        assert len(collection) == 0
        collection.add({"id": "1", "text": "x", "c1": 1})
        assert collection.get("1").metadata == {"c1": 1}


CSV = pytest.param("a.csv.gz", marks=pytest.mark.slow)
BEGINNINGS = {".jsonl": b'{"id": "1", "text": "', ".csv": b"id,text\r\n1,", ".txt": b"one\n"}


@pytest.mark.parametrize("name", ["a.jsonl.gz", CSV, "a.jsonl", "a.txt"])
def test_an_endless_line_is_not_held(tmp_path: Path, name: str) -> None:
    path, length = tmp_path / name, 5 * LARGEST_OBJECT
    is_packed = name.endswith(".gz")
    with gzip.open(path, "wb", compresslevel=1) if is_packed else path.open("wb") as file:
        file.write(BEGINNINGS[Path(name.removesuffix(".gz")).suffix])
        for _ in range(length >> 20):
            file.write(b"a" * (1 << 20))
        file.write(b'"}\n')
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"line [12]: .*over {LARGEST_OBJECT:,} bytes"):
            [*open_source(str(path)).batches()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LARGEST_OBJECT
