"""Tables of databases and workbooks, answers of queries, and packed tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.source import open_source


def read(spec: str) -> list[Document]:
    return [document for batch in open_source(spec).batches() for document in batch]


def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (id, text, year INTEGER, picture BLOB)")
        connection.execute("INSERT INTO letters VALUES ('a', 'Tea at four', 1998, x'00')")
        connection.commit()
    (found,) = read(str(path))
    assert (found.id, found.text, found.metadata["year"]) == ("a", "Tea at four", 1998)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "the others" (text)')
        connection.execute("INSERT INTO \"the others\" VALUES ('Cake')")
        connection.commit()
    with pytest.raises(InputError, match=r"which table\? Name one as .*#NAME: letters, the others"):
        read(str(path))
    (found,) = read(f"{path}#the others")
    assert (found.id, found.text) == (f"{path.as_posix()}#the others:1", "Cake")
    with pytest.raises(InputError, match="no table 'none'; it has letters, the others"):
        read(f"{path}#none")
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(InputError, match="expected an SQLite database"):
        read(str(path))


def test_duckdb_and_a_query(tmp_path: Path) -> None:
    path = tmp_path / "notes.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE a AS SELECT 7 AS id, 'Tea' AS text, DATE '2024-05-01' AS d"
        )
    (found,) = read(str(path))
    assert (found.id, found.text, str(found.metadata["d"])) == ("7", "Tea", "2024-05-01")
    (tmp_path / "x.csv").write_text("id,text\n1,one\n2,two\n")
    query = f"sql:SELECT id, upper(text) AS text FROM '{tmp_path}/*.csv' WHERE id > 1;"
    assert [(d.id, d.text) for d in read(query)] == [("2", "TWO")]
    assert open_source(query).fingerprint() == open_source(query).fingerprint()
    with pytest.raises(InputError, match="sql: Parser Error"):
        read("sql:DROP TABLE x")


def test_excel(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active.append(["id", "text", "when", "price", None])
    book.active.append([1, "Tea", datetime(2024, 5, 1, 12), 1.5, None])
    book.active.append([None, None, None, None, None])
    book.active.append([2, 'Größe; "x"', None, 2, None])
    book.save(tmp_path / "a.xlsx")
    found = read(str(tmp_path / "a.xlsx"))
    assert [(d.id, d.text) for d in found] == [("1", "Tea"), ("2", 'Größe; "x"')]
    assert found[0].metadata == {"when": datetime(2024, 5, 1, 12), "price": 1.5}
    book.create_sheet("More").append(["text"])
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="which sheet"):
        read(str(tmp_path / "a.xlsx"))
    (tmp_path / "b.xlsx").write_bytes(b"no book")
    with pytest.raises(InputError, match="expected an Excel workbook"):
        read(str(tmp_path / "b.xlsx"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("id;text\r\n1;größer\r\n", "utf-8-sig"), ("id\ttext\r\n1\tgrößer\r\n", "utf-16")],
)
def test_packed_csv_as_excel_writes_it(tmp_path: Path, text: str, encoding: str) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "a.csv.zst").write_bytes(zstandard.compress(text.encode(encoding)))
    assert [(d.id, d.text) for d in read(str(tmp_path / "a.csv.zst"))] == [("1", "größer")]
    (tmp_path / "b.csv.zst").write_bytes(zstandard.compress(text.encode())[:12])
    with pytest.raises(InputError, match=r"b\.csv\.zst"):
        read(str(tmp_path / "b.csv.zst"))
