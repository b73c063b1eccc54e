"""Tables of databases and workbooks, answers of queries, and packed tables."""

from __future__ import annotations

import csv
import gc
import sqlite3
import struct
import sys
import tempfile
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import date, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.files.limits import UnreadableError
from slimdex.retrieval.sources.files.packed import zstd_library
from slimdex.retrieval.sources.source import open_source
from slimdex.retrieval.sources.tabular import databases
from slimdex.retrieval.sources.tabular.databases import csv_of_workbook
from tests.chance import CHANCE

ENDLESS = "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


def read(spec: str) -> list[Document]:
    return [document for batch in open_source(spec).batches() for document in batch]


def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (id, text, year INTEGER, weight REAL, picture)")
        connection.execute("INSERT INTO letters VALUES ('a', 'Tea at four', 1998, 20, x'00')")
        connection.commit()
    (found,) = read(str(path))
    assert (found.id, found.text) == ("a", "Tea at four")
    assert found.metadata == {"year": 1998, "weight": 20.0, "picture": None}
    source = open_source(str(path))
    assert source.columns["weight"] == "DOUBLE"
    assert source.notes == ["bytes in column 'picture' are left out"]
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
    query = f"sql:SELECT id, upper(text) AS text FROM '{tmp_path}/*.csv' WHERE id > 1 -- not one"
    assert [(d.id, d.text) for d in read(query)] == [("2", "TWO")]
    before = open_source(query).fingerprint
    assert open_source(query).fingerprint == before
    (tmp_path / "x.csv").write_text("id,text\n1,one\n2,too\n")
    assert open_source(query).fingerprint != before
    sums = open_source(f"sql:SELECT '' AS text, sum(id) AS n FROM '{tmp_path}/x.csv'")
    assert dict(sums.columns) == {"n": "BIGINT"}
    with pytest.raises(InputError, match="sql 'DROP TABLE x': Parser Error"):
        read("sql:DROP TABLE x")


@pytest.mark.slow
def test_a_view_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(ENDLESS + "count(*) AS text FROM n")
        connection.commit()
    monkeypatch.setattr(databases, "SECONDS", 0.6)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match=r"notes\.db: takes over 1 s"):
        read(str(path))
    gc.collect()
    assert [each.name for each in tmp_path.iterdir()] == ["notes.db"]


Table = list[list[Any]]
Test = Callable[..., None]
SAME: list[Table] = [
    [["Stock", None, None], ["id", "text", "n"], [1, "boiler", 5]],  # a title above the names
    [["id", "text", 2023, 0.5, date(2024, 5, 1), "  ", "id"], [1, "tea", 2, 3, 4, "kept", "b"]],
    [["id", "text", "n"], [20_000_000_000_000_000, "tea", 2**53], ["007", "x", "01"]],
    [
        ["id", "text", "day", "when", "at", "is"],
        [1, "tea", date(2024, 5, 1), datetime(2024, 5, 1, 12, 30), time(1, 2, 3), True],
        [2, "x", None, datetime(2024, 5, 2), time(23), False],
    ],
    [["id", "text", "a;b;c"], [1, 'say "tea", \n and go', "x;y"]],
    [
        [None, None, None, None, None],
        [None, "text", None, "n", None],
        [None, "tea", None, 1, "kept"],
        [None, None, None, None, None],
        [None, "x", None, 2.5, None],
    ],
    [["id", "text"], [1, "tea"], [None, "x"]],  # a row without an id
    [["id", "note", "other"], [1, "tea", "x"]],  # no column that is the text
    [],
]


def outcome(path: Path) -> Any:
    """The documents, types and notes of a file, or its error, without its name."""
    try:
        source = open_source(str(path))
        documents = [document for batch in source.batches() for document in batch]
    except InputError as error:
        return str(error).replace(str(path), "FILE")
    found = [(d.id.replace(str(path), "FILE"), d.text, dict(d.metadata)) for d in documents]
    return found, dict(source.columns), source.notes


def write_twice(folder: Path, rows: Table) -> tuple[Path, Path]:
    """The same table as CSV and as a workbook."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    book = openpyxl.Workbook()
    for number, row in enumerate(rows, start=1):
        for column, value in enumerate(row, start=1):
            if value is not None:
                book.active.cell(number, column, value)
    book.save(folder / "a.xlsx")
    return folder / "a.csv", folder / "a.xlsx"


LETTERS = st.text(st.sampled_from("aB7é .,;|'\"-\n"), max_size=5)
NAMES = st.text(st.sampled_from("aB7é .,'\"-\n"), max_size=5)  # CSV's separator is guessed by them
COLUMNS = st.sampled_from(
    [
        LETTERS,
        st.integers(-(10**15), 10**15),
        st.floats(-1e6, 1e6).map(lambda value: round(value, 3) + 0.0005),
        st.dates(date(1950, 1, 1), date(2050, 1, 1)),
        st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)).map(
            lambda value: value.replace(hour=9, microsecond=0)
        ),
    ]
)


def each_of(tables: list[Table]) -> Callable[[Test], Test]:
    """Also try these tables."""

    def tried(test: Test) -> Test:
        return reduce(lambda own, table: example(table)(own), tables, test)

    return tried


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables with any names, some columns of one kind, and gaps."""
    kinds = draw(st.lists(COLUMNS, max_size=4))
    names = [draw(st.none() | NAMES | st.integers(0, 3000)) for _ in kinds]
    rows = [[draw(st.none() | kind) for kind in kinds] for _ in range(draw(st.integers(0, 4)))]
    texts = draw(st.lists(LETTERS, min_size=len(rows), max_size=len(rows)))
    return [["text", *names], *([t, *row] for t, row in zip(texts, rows, strict=True))]


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(6))
@given(tables())
@each_of(SAME)
def test_a_table_is_the_same_as_csv_and_as_a_workbook(
    tmp_path_factory: pytest.TempPathFactory, rows: Table
) -> None:
    text, book = write_twice(tmp_path_factory.mktemp("tables"), rows)
    assert outcome(book) == outcome(text)


def test_durations_of_a_sheet(tmp_path: Path) -> None:
    lasting = [["a", "tea", timedelta(hours=26)], ["b", "cake", timedelta(minutes=5)]]
    _, book = write_twice(tmp_path, [["id", "text", "lasts"], *lasting])
    assert [d.metadata for d in read(str(book))] == [{"lasts": "26:00:00"}, {"lasts": "00:05:00"}]


@pytest.mark.parametrize("cell", ["=1+1", "#N/A"])
def test_cells_without_results_are_noted(cell: str, tmp_path: Path) -> None:
    _, book = write_twice(tmp_path, [["id", "text", "n"], [1, "tea", cell]])
    source = open_source(str(book))
    assert source.notes == ["cells with an error, or a formula without a stored result, are empty"]
    assert next(source.batches())[0].metadata == {"n": None}


XLS = (
    b"eNrtlbFKA0EQhv/Z28REMSQqFmJh7QvYiSBiKdrYBy3kQCWkSDob30IQH8FnsBZ9A+NL2On5z7iXnFZJaZjvGPaYnd"
    b"nZ3dnZfX3pjB4eN97xh11k+CqaqFd0ksRog/1Fob9lqxTOv+KTovnLmLtIqVE05wuUBqWZ8uvMJye44tfHFg5wybaH"
    b"IWZhHTUpx5Ipfar3xSmj95Cja/PIMSsrCFJdzzQ+Id1fDuu7wY2oa9U/a8lb7d+ihW3rzeSIp+Ici2PL9i/LGJbHey"
    b"oXOKOikx6JCOnTc8AzlYWWjlWGvLvf+/GLEz81ScfnZrQzfDrej2GVGrErSQ55Rj7wxvE0gFgGGSCn4joFkEkArDHA"
    b"EjXR5iJdMwiVVW+aQUgvmgxsgY7jOI7jOI7jOI4zt3wDZaLS0g=="
)
"""A workbook of Excel 97, compressed."""


def test_workbooks_of_other_formats(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xls"
    path.write_bytes(zlib.decompress(b64decode(XLS)))
    source = open_source(str(path))
    assert [(d.id, d.text, dict(d.metadata)) for d in read(str(path))] == [
        ("20000000000000000", "Größe", {"column2": "kept", "2023": 5, "id_1": "b"}),
        ("7", "x", {"column2": None, "2023": None, "id_1": None}),
    ]
    assert dict(source.columns) == {"column2": "VARCHAR", "2023": "BIGINT", "id_1": "VARCHAR"}
    for broken in (path, path.with_suffix(".xlsx"), path.with_suffix(".ods")):
        broken.write_bytes(b"no book")
        with pytest.raises(InputError, match=r"a\.\w+: .*; expected an (Excel|OpenDocument) "):
            read(str(broken))


def test_sheets_of_a_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsm"
    book = openpyxl.Workbook()
    book.active.append(["id", "text", "a;b;c;d"])  # in CSV, semicolons would separate
    book.active.append([1, "Tea", 2])
    book.create_chartsheet("Chart")
    book.save(path)
    assert read(str(path)) == [Document("1", "Tea", metadata={"a;b;c;d": 2})]
    book.create_sheet("Empty")
    aside = book.create_sheet("More")
    for cell, value in {"B3": "text", "B4": "Aside", "C3": "year", "C4": 1998}.items():
        aside[cell] = value
    book.save(path)
    with pytest.raises(InputError, match=r"which sheet\? Name one as .*#NAME: Sheet, Empty, More"):
        read(str(path))
    with pytest.raises(InputError, match=r"a\.xlsm#Empty: no rows; expected the names of columns"):
        read(f"{path}#Empty")
    (found,) = read(f"{path}#More")
    assert (found.text, found.metadata) == ("Aside", {"year": 1998})


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


def test_a_workbook_is_unpacked_no_further_than_it_says(tmp_path: Path) -> None:
    """Else a file that says it has a kilobyte might be unpacked for hours."""
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    workbook(path, ROW, 9_000_000)
    with zipfile.ZipFile(path) as packed:
        beginning = packed.read("xl/worksheets/sheet1.xml")[:1000]
    say(path, 1000, 0)
    with pytest.raises(
        InputError, match=r"a\.xlsx: broken: Bad CRC-32 .*; expected an Excel workbook"
    ):
        read(str(path))
    workbook(path, ROW, 9_000_000)
    say(path, 1000, zlib.crc32(beginning))
    unpacked = tmp_path / "unpacked.xlsx"
    with suppress(UnreadableError):  # what is read is a sheet that breaks off
        list(csv_of_workbook(path, "", unpacked, []))
    assert 1000 < unpacked.stat().st_size < 5000
    with zipfile.ZipFile(unpacked) as copy:
        assert copy.read("xl/worksheets/sheet1.xml") == beginning


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_workbook_of_17_billion_cells_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    last = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    spec = workbook(tmp_path / "a.xlsx", ROW + last)
    with pytest.raises(InputError, match=r"a\.xlsx: .*(too much|over 2,048 MiB of) memory"):
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
    (tmp_path / "a.csv.zst").write_bytes(zstd_library().compress(text.encode(encoding)))
    assert [(d.id, d.text) for d in read(str(tmp_path / "a.csv.zst"))] == [("1", "größer")]
    (tmp_path / "b.csv.zst").write_bytes(zstd_library().compress(text.encode())[:12])
    with pytest.raises(InputError, match=r"b\.csv\.zst"):
        read(str(tmp_path / "b.csv.zst"))


def compound(streams: str) -> bytes:
    """The beginning of a compound file (MS-CFB), with the name of a stream in its directory."""
    return bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504) + streams.encode("utf-16-le") + bytes(512)


@pytest.mark.parametrize("ending", ["xlsx", "xlsm", "xlsb", "ods"])
def test_an_encrypted_workbook_is_named(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / f"a.{ending}"
    path.write_bytes(compound("EncryptedPackage"))
    with pytest.raises(InputError, match=rf"a\.{ending}: encrypted; expected"):
        read(str(path))
    path.write_bytes(compound("Workbook"))
    with pytest.raises(InputError, match=rf"a\.{ending}: a format from before 2007; expected"):
        read(str(path))


def test_an_encrypted_sheet_of_opendocument_is_named(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as packed:
        packed.writestr("META-INF/manifest.xml", "<m:encryption-data/>")
        packed.writestr("content.xml", b"\x00\x01")
    with pytest.raises(InputError, match=r"a\.ods: encrypted; expected"):
        read(str(tmp_path / "a.ods"))
