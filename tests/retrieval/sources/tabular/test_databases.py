"""Tables of databases and workbooks, answers of queries, and packed tables."""

from __future__ import annotations

import gc
import sqlite3
import sys
import tempfile
import zlib
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.files.limits import UnreadableError
from slimdex.retrieval.sources.files.packed import zstd_library
from slimdex.retrieval.sources.source import open_source
from slimdex.retrieval.sources.tabular import databases
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
    assert source.notes == ["bytes in column 'picture' are left out"]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "the others" (text)')
        connection.execute("INSERT INTO \"the others\" VALUES ('Cake')")
        connection.commit()
    with pytest.raises(InputError, match=r"which table\? Name one as .*#NAME: letters, the others"):
        read(str(path))
    (found,) = read(f"{path}#the others")
    assert (found.id, found.text) == (f"{path.as_posix()}#the others:1", "Cake")
    with pytest.raises(InputError, match=r"'none' is none.*: letters, the others"):
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
    assert [dict(each.metadata) for batch in sums.batches() for each in batch] == [{"n": 3}]
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


def write(path: Path, rows: Sequence[Sequence[Any]]) -> str:
    """A workbook with these cells."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return str(path)


def test_types_of_a_sheet(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        [None, None],
        ["id", "text", 2023, "day", "when", "at", "is", "lasts", "code", None, "id"],
        [
            *(1, "tea", 2**53, date(2024, 5, 1), datetime(2024, 5, 1, 12, 30), time(1, 2, 3)),
            *(True, timedelta(hours=26), "007", None, "b"),
        ],
        [None, None],
        [2.0, 'say "tea", \n', 0.5, None, datetime(2024, 5, 2), None, False, None, 5, None, "c"],
    ]
    source = open_source(write(tmp_path / "a.xlsx", rows))
    first, second = next(source.batches())
    assert [(d.id, d.text) for d in (first, second)] == [("1", "tea"), ("2", 'say "tea", \n')]
    assert first.metadata == {
        "2023": 2.0**53,
        "day": date(2024, 5, 1),
        "when": datetime(2024, 5, 1, 12, 30),
        "at": time(1, 2, 3),
        "is": True,
        "lasts": "1 day, 2:00:00",
        "code": "007",
        "column9": None,
        "id_1": "b",
    }
    assert (second.metadata["when"], second.metadata["code"]) == (datetime(2024, 5, 2), 5)


LETTERS = st.text(st.sampled_from("aB7é .,;|'\"-\n"), min_size=1, max_size=5)
CELLS = st.sampled_from(
    [
        st.integers(-(10**15), 10**15),
        st.floats(-1e6, 1e6).map(lambda value: round(value, 3) + 0.0005),
        st.dates(date(1950, 1, 1), date(2050, 1, 1)),
        st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1)).map(
            lambda value: value.replace(hour=9, microsecond=0)
        ),
        st.booleans(),
    ]
)


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(6))
@given(st.data())
def test_values_of_a_sheet_are_what_they_were(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind = data.draw(CELLS)
    rows = data.draw(st.lists(st.tuples(LETTERS, st.none() | kind), min_size=1, max_size=5))
    path = write(tmp_path_factory.mktemp("sheet") / "a.xlsx", [["text", "v"], *rows])
    found = [(d.text, d.metadata.get("v")) for d in read(path)]
    assert found == [(text, value) for text, value in rows]


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
    assert [(d.id, d.text, dict(d.metadata)) for d in read(str(path))] == [
        ("20000000000000000", "Größe", {"column2": "kept", "2023": 5, "id_1": "b"}),
        ("7", "x", {"column2": None, "2023": None, "id_1": None}),
    ]
    for broken in (path, path.with_suffix(".xlsx"), path.with_suffix(".ods")):
        broken.write_bytes(b"no book")
        with pytest.raises(InputError, match=r"a\.\w+: broken: "):
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
    assert read(f"{path}#Empty") == []
    (found,) = read(f"{path}#More")
    assert (found.text, found.metadata) == ("Aside", {"year": 1998})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its memory")
def test_a_workbook_of_17_billion_cells_is_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active.cell(1, 1, "text")
    book.active.cell(1_048_576, 16_384, 1)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=r"a\.xlsx: .*(too much|over 2,048 MiB of) memory"):
        read(str(tmp_path / "a.xlsx"))


def test_merged_cells_and_superscripts_of_a_sheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    raised = openpyxl.cell.text.InlineFont(vertAlign="superscript")
    power = openpyxl.cell.rich_text.TextBlock(raised, "6")
    cells = {"B2": "part", "C2": "price", "E2": "text", "B3": "pump", "C3": 7, "D4": 9, "E4": "b"}
    for place, value in cells.items():
        book.active[place] = value
    book.active["E3"] = openpyxl.cell.rich_text.CellRichText(["10", power])
    for area in ("C2:D2", "B3:B4", "C3:D3", "A3:A4"):
        book.active.merge_cells(area)
    book.save(tmp_path / "a.xlsx")
    first, second = read(str(tmp_path / "a.xlsx"))
    assert (first.text, second.text) == ("10^6", "b")
    assert first.metadata == {"part": "pump", "price": 7, "price_1": None}
    assert second.metadata == {"part": "pump", "price": None, "price_1": 9}


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


@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_an_encrypted_workbook_is_named(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / f"a.{ending}"
    path.write_bytes(compound("EncryptedPackage"))
    with pytest.raises(InputError, match=rf"a\.{ending}: encrypted"):
        read(str(path))


def test_a_workbook_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write(tmp_path / "a.xlsx", [["text"], ["tea"]])
    monkeypatch.setattr(databases, "LARGEST_WORKBOOK", 1000)
    with pytest.raises(UnreadableError, match="expected at most"):
        databases.answer({"path": spec, "table": "", "to": str(tmp_path / "to")}, b"")
