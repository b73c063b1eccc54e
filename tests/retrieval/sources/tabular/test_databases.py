"""Tables of databases and workbooks, answers of queries, and packed tables."""

from __future__ import annotations

import gc
import sqlite3
import struct
import sys
import tempfile
import zipfile
import zlib
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.source import open_source
from slimdex.retrieval.sources.tabular import databases, table_worker
from slimdex.retrieval.sources.tabular.table_worker import LARGEST_WORKBOOK, rows_of_workbook

ENDLESS = "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


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


def test_a_query(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,text\n1,one\n2,two\n")
    query = f"sql:SELECT id, upper(text) AS text FROM '{tmp_path}/*.csv' WHERE id > 1;"
    assert [(d.id, d.text) for d in read(query)] == [("2", "TWO")]
    assert open_source(query).fingerprint() == open_source(query).fingerprint()
    with pytest.raises(InputError, match="sql 'DROP TABLE x': Parser Error"):
        read("sql:DROP TABLE x")


@pytest.mark.parametrize("rows", ["count(*) AS text FROM n", "'letter ' || i AS text FROM n"])
def test_a_view_without_an_end(rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(ENDLESS + rows)
        connection.commit()
    monkeypatch.setattr(databases, "SECONDS", 0.6)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="reading takes over 1 s; expected at most 1 s, "):
        read(str(path))
    gc.collect()
    assert [each.name for each in tmp_path.iterdir()] == ["notes.db"]


def test_a_view_of_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(ENDLESS + "hex(zeroblob(500000)) AS text FROM n")
        connection.commit()
    monkeypatch.setattr(table_worker, "LARGEST_ROWS", 3 << 20)
    error = table_worker._error(path, "", tmp_path)
    assert error == f"{path}: its rows take over 3 MiB as JSON; expected at most that"
    assert (tmp_path / table_worker.ROWS).stat().st_size == 3 * len('{"text": ""}\n' + "0" * 10**6)


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
    aside = book.create_sheet("More")
    for cell, value in {"B3": "text", "B4": "Aside", "C3": "year", "C4": 1998}.items():
        aside[cell] = value
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="which sheet"):
        read(str(tmp_path / "a.xlsx"))
    (aside_only,) = read(f"{tmp_path / 'a.xlsx'}#More")
    assert (aside_only.text, aside_only.metadata) == ("Aside", {"year": 1998})
    (tmp_path / "b.xlsx").write_bytes(b"no book")
    with pytest.raises(InputError, match="expected an Excel workbook"):
        read(str(tmp_path / "b.xlsx"))


PARTS = {
    "[Content_Types].xml": "<Types/>",
    "_rels/.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        '<sheets><sheet name="One" sheetId="1" r:id="rId1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    ),
}
SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    '<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c></row>{}</sheetData></worksheet>'
)


def workbook(path: Path, rows: str, spaces: int = 0) -> str:
    """A workbook of one sheet, with so many spaces before its end."""
    before, after = SHEET.format(rows).split("</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, text in PARTS.items():
            packed.writestr(name, text)
        with packed.open("xl/worksheets/sheet1.xml", "w") as sheet:
            sheet.write(before.encode())
            for start in range(0, spaces, 1 << 20):
                sheet.write(b" " * min(1 << 20, spaces - start))
            sheet.write(f"</sheetData>{after}".encode())
    return str(path)


def say(path: Path, length: int, checksum: int) -> None:
    """Let the sheet's entry say that it is another one."""
    with zipfile.ZipFile(path) as packed:
        entry = packed.getinfo("xl/worksheets/sheet1.xml")
    told = struct.pack("<LLL", entry.CRC, entry.compress_size, entry.file_size)
    data = path.read_bytes()
    assert data.count(told) == 2  # before the entry, and in the table of all
    path.write_bytes(data.replace(told, struct.pack("<LLL", checksum, entry.compress_size, length)))


ROW = '<row r="2"><c r="A2" t="inlineStr"><is><t>Tea</t></is></c></row>'


def test_a_workbook_that_says_it_is_large_is_not_unpacked(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    assert [d.text for d in read(workbook(path, ROW, 9_000_000))] == ["Tea"]
    say(path, LARGEST_WORKBOOK + 1, 0)
    with pytest.raises(InputError, match=r"bytes unpacked in 5 entries; expected at most 1,073,7"):
        read(str(path))


def test_a_workbook_is_unpacked_no_further_than_it_says(tmp_path: Path) -> None:
    """Else a file that says it has a kilobyte might be unpacked for hours."""
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    workbook(path, ROW, 9_000_000)
    with zipfile.ZipFile(path) as packed:
        beginning = packed.read("xl/worksheets/sheet1.xml")[:1000]
    say(path, 1000, 0)
    with pytest.raises(InputError, match=r"a\.xlsx: Bad CRC-32 .*; expected an Excel workbook"):
        read(str(path))
    workbook(path, ROW, 9_000_000)
    say(path, 1000, zlib.crc32(beginning))
    unpacked = tmp_path / "unpacked.xlsx"
    with suppress(InputError):  # what is read is a sheet that breaks off
        list(rows_of_workbook(path, "", unpacked))
    assert 1000 < unpacked.stat().st_size < 5000
    with zipfile.ZipFile(unpacked) as copy:
        assert copy.read("xl/worksheets/sheet1.xml") == beginning


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_workbook_of_17_billion_cells_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    last = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    spec = workbook(tmp_path / "a.xlsx", ROW + last)
    with pytest.raises(InputError, match=r"a\.xlsx: .*over 2,048 MiB of memory"):
        read(spec)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_database_that_makes_texts_larger_than_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW a AS SELECT hex(zeroblob(450000000)) AS text")
        connection.commit()
    with pytest.raises(InputError, match=r"a\.db: needs over 2,048 MiB of memory"):
        read(str(path))


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
