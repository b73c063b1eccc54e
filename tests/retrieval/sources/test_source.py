from __future__ import annotations

import gc
import gzip
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.column_types import plain, widen
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.files import input_files
from slimdex.retrieval.sources.files.input_files import FileFormat
from slimdex.retrieval.sources.source import ColumnNames, Source, open_source, read_pairs
from tests.encoders import WordEncoder


def read(path: Path | str, given: FileFormat = FileFormat(), **names: Any) -> list[Document]:
    source = open_source(str(path), ColumnNames(**names), given)
    return [document for batch in source.batches() for document in batch]


def write_jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_jsonl_with_typed_columns(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl",
        {"_id": "007", "title": "T", "text": "one", "year": 1999, "when": "2020-01-02", "p": 0.5},
        {"_id": "8", "text": "two", "year": None, "tags": ["a", "b"]},
    )
    first, second = read(path)
    assert (first.id, first.title, first.text, first.content) == ("007", "T", "one", "T one")
    assert first.metadata == {"year": 1999, "when": date(2020, 1, 2), "p": 0.5, "tags": None}
    assert (second.id, second.title, second.content) == ("8", "", "two")
    assert second.metadata["tags"] == ["a", "b"]


READ = [
    ("a.csv", "id,text\n007,2020-1-2\n1e3,12\n", [("007", "2020-1-2", {}), ("1e3", "12", {})]),
    (
        "a.jsonl",
        '{"id": "2020-1-2", "text": "2020-01-02T00:00"}\n',
        ("2020-1-2", "2020-01-02T00:00", {}),
    ),
    (
        "a.csv",
        'id,body,n\nx,"with, comma\nand line",1\ny,plain,2\n',
        [("x", "with, comma\nand line", {"n": 1}), ("y", "plain", {"n": 2})],
    ),
    ("a.csv", "id;text\n1;a, b\n", ("1", "a, b", {})),
    (
        "a.tsv",
        "sentence\tscore\nHe said, fine.\t1.5\nYes.\t2\n",
        [("a.tsv:1", "He said, fine.", {"score": 1.5}), ("a.tsv:2", "Yes.", {"score": 2.0})],
    ),
    ("a.csv", "sep=;\nid;text;n\n1;one, two;2,5\n", ("1", "one, two", {"n": "2,5"})),
    ("a.csv", "id,text,Name,name\n1,x,01,2\n", ("1", "x", {"Name": "01", "name_1": 2})),
    ("a.txt", "first\n\n  second  \n", [("a.txt:1", "first", {}), ("a.txt:3", "second", {})]),
    ("a.txt.gz", gzip.compress(b"first\n", mtime=0), ("a.txt.gz:1", "first", {})),
    ("a.csv", "\ufeffid,text\n1,x\n", ("1", "x", {})),
    ("a.jsonl", '\ufeff{"id": "1", "text": "x", "n": 5}\n', ("1", "x", {"n": 5})),
    (
        "a.jsonl",
        '{"id": 1, "text": "x", "Row": 1, "row_": 2}\n',
        ("1", "x", {"Row__": 1, "row_": 2}),
    ),
    ("a.jsonl", '{"id": 1, "text": "x", "a": 1, "a_1": 2}\n', ("1", "x", {"a": 1, "a_1": 2})),
    ("a.jsonl", '{"id": 1, "abstract": "found", "year": 2}\n', ("1", "found", {"year": 2})),
    (
        "a.ndjson",
        '{"id": 1, "text": null}\n{"id": 2, "text": "x"}\n',
        [("1", "", {}), ("2", "x", {})],
    ),
    ("a.jsonl", r'{"id": "1", "text": "\ud83d\ude00 \\ud83d"}', ("1", "\U0001f600 \\ud83d", {})),
    ("a.csv", "id,text\n" + "0,a\n#1,b\n" * 50, [("0", "a", {}), ("#1", "b", {})] * 50),
]
"""Name, content -> id, text and metadata of each document."""


@pytest.mark.parametrize(("name", "content", "expected"), READ, ids=[row[0] for row in READ])
def test_documents_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | bytes, expected: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = [(d.id, d.text, d.metadata) for d in read(name)]
    assert found == (expected if isinstance(expected, list) else [expected])


def test_names_with_wildcards_are_read_literally(tmp_path: Path) -> None:
    for name, text in (("a1", "wrong"), ("a[1]", "right"), ("b*", "star"), ("b?", "mark")):
        write_jsonl(tmp_path / f"{name}.jsonl", {"id": 1, "text": text})
    (tmp_path / "c[1].csv").write_text("id,text\n1,right\n")
    for name, text in (("a[1].jsonl", "right"), ("b*.jsonl", "star"), ("b?.jsonl", "mark")):
        assert [d.text for d in read(tmp_path / name)] == [text]
    assert [d.text for d in read(tmp_path / "c[1].csv")] == ["right"]


def test_objects_of_many_rare_keys(tmp_path: Path) -> None:
    rows = [{"id": i, "text": "x", f"k{i}": i, "tags": {f"t{i}": 1}} for i in range(300)]
    documents = read(write_jsonl(tmp_path / "a.jsonl", *rows))
    assert len(documents) == 300
    assert documents[7].metadata["k7"] == 7
    assert documents[7].metadata["k8"] is None
    assert documents[7].metadata["tags"]["t7"] == 1


def test_values_of_several_kinds_stay_what_they_are(tmp_path: Path) -> None:
    values = [5, "5", {"a": 1}, {"a": "1"}, None, "x", [1, "2"], 1.5, True, ["3"]]
    rows = [{"id": i, "text": "x", "v": value} for i, value in enumerate(values)]
    path = write_jsonl(tmp_path / "a.jsonl", *rows)
    assert [d.metadata["v"] for d in read(path)] == values
    with Collection.create(tmp_path / "x.index", WordEncoder()) as collection:
        collection.add(read(path))
        assert [document.metadata["v"] for document in collection] == values


WRITTEN = [
    (["1.10", "2"], "VARCHAR"),
    (["007", "8"], "VARCHAR"),
    (["1e5", "2"], "VARCHAR"),
    (["1.23456789012345678", "2"], "VARCHAR"),
    (["01/02/2024", "03/04/2024"], "VARCHAR"),
    (["yes", "no"], "VARCHAR"),
    (["0.5", "2", "-1.5", "nan", "NaN"], "DOUBLE"),
    (["5", " 6", ""], "BIGINT"),
    (["TRUE", "false"], "BOOLEAN"),
    (["2024-01-02", "2024-1-3"], "DATE"),
    (["2024-01-02T10:00:00Z"], "TIMESTAMP"),
    (["0x1f", "1_000"], "VARCHAR"),
]


@pytest.mark.parametrize(("values", "type_"), WRITTEN)
def test_values_that_a_type_would_change_stay_text(
    tmp_path: Path, values: list[str], type_: str
) -> None:
    rows = "".join(f"{i}\tx\t{v}\n" for i, v in enumerate(values))
    path = tmp_path / "a.tsv"
    path.write_text(f"id\ttext\tv\n{rows}")
    found = [d.metadata["v"] for d in read(path)]
    assert widen(None, [value for value in map(plain, found) if value is not None]) == type_
    if type_ == "VARCHAR":
        assert found == values


def test_latin_1_and_utf_16(tmp_path: Path) -> None:
    csv, latin = "id,text\n1,café\n2,thé\n", FileFormat("latin-1")
    (tmp_path / "a.csv").write_bytes(csv.encode("latin-1"))
    assert [d.text for d in read(tmp_path / "a.csv", latin)] == ["café", "thé"]
    (tmp_path / "b.csv").write_bytes(csv.encode("utf-16"))
    assert [d.text for d in read(tmp_path / "b.csv")] == ["café", "thé"]
    assert open_source(str(tmp_path / "b.csv")).notes == ["read as UTF-16, by its first bytes"]
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress("café\nthé".encode("cp1252")))
    found = read(tmp_path / "c.txt.gz", FileFormat("cp1252"))
    assert [(d.id, d.text) for d in found] == [
        (f"{tmp_path}/c.txt.gz:1", "café"),
        (f"{tmp_path}/c.txt.gz:2", "thé"),
    ]
    (tmp_path / "d.jsonl").write_bytes('{"id": 1, "text": "日本"}\n'.encode("utf-16-be"))
    assert read(tmp_path / "d.jsonl", FileFormat("utf-16-be"))[0].text == "日本"
    (tmp_path / "e.txt").write_bytes(b"x" * 3_000_000 + b"\none\ntw\x81o\n")
    with pytest.raises(InputError, match=r"e\.txt: not CP1252 text"):
        read(tmp_path / "e.txt", FileFormat("cp1252"))


def test_copies_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    source = open_source(str(tmp_path / "a.txt"), file_format=FileFormat("latin-1"))
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    assert [d.text for batch in source.batches() for d in batch] == ["café"]
    del source
    with pytest.raises(InputError, match="not ASCII text"):
        open_source(str(tmp_path / "a.txt"), file_format=FileFormat("ascii"))
    gc.collect()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "given", "expected"),
    [
        (b'{"id": "1", "text": "x"}\n', None, ("1", "x")),
        (b'\xef\xbb\xbf {"id": "1", "text": "x"}\n', None, ("1", "x")),
        (gzip.compress(b"a line\n", mtime=0), None, ("stdin:1", "a line")),
        (b"text,n\nx,1\n", "csv", ("stdin:1", "x")),
        ("a line\n".encode("utf-16"), None, ("stdin:1", "a line")),
        (b"{not json\n", "txt", ("stdin:1", "{not json")),
    ],
)
def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, data: bytes, given: str | None, expected: tuple[str, str]
) -> None:
    def piped() -> Source:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return open_source("-", file_format=FileFormat(format=given))

    source = piped()
    for _ in range(2):
        (document,) = (d for batch in source.batches() for d in batch)
        assert (document.id, document.text) == expected
    assert source.name == "standard input"
    assert source.fingerprint == piped().fingerprint
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="no standard input"):
        open_source("-")


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a.csv.gz"])
def test_compressed_files_that_are_cut_off(tmp_path: Path, name: str) -> None:
    rows = "".join(f'{{"id": {i}, "text": "x"}}\n' for i in range(2000))
    whole = gzip.compress((rows if "json" in name else rows.replace('"', "")).encode())
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=name):
        read(tmp_path / name)


def test_beir_folder(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus.jsonl", {"_id": "a", "title": "", "text": "t"})
    assert [d.id for d in read(tmp_path)] == ["a"]
    write_jsonl(tmp_path / "queries.jsonl", {"_id": "q", "text": "?"})
    assert read_pairs(str(tmp_path / "queries.jsonl")) == [("q", "?")]
    assert read_pairs(str(tmp_path)) == [("q", "?")]


def test_named_columns(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", {"k": 5, "text": "no", "head": "H", "body": "yes"})
    (document,) = read(path, text="body", id="k", title="head")
    assert (document.id, document.title, document.text) == ("5", "H", "yes")
    assert document.metadata == {"text_": "no"}


def test_docstrings_of_an_installed_package() -> None:
    documents = {d.id: d for d in read("python:click")}
    assert all(id.startswith("click") and "._" not in id for id in documents)
    echo = documents["click.utils.echo"]
    assert (echo.title, echo.text[:17]) == ("click.utils.echo", "Print a message a")
    assert echo.metadata == {"module": "click.utils", "kind": "function"}
    assert documents["click.core.Command"].metadata["kind"] == "class"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", 'id,text\n1,a\n2,"b\n3,c\n', "Line: 3"),
        ("a.csv", 'id,text\n1,"a\nb"\n\n2,"c\nd",e\n', "Number of Columns: 2 Found: 3"),
        ("a.csv", "id,text\n" + "1,a\n" * 3000 + "2\n", "Line: 3002"),
        ("a.csv", 'id,text,"n', "a.csv, line 1: "),
        ("a.csv", b"id,text\n1,a\n2,caf\xe9\n", "a.csv, line 3: not UTF-8 text"),
        ("a.json", '[{"text": "x"},\n{"text": "y"},\n,]', "a.json: "),
        ("a.parquet", "PAR1 no parquet", "a.parquet"),
        ("a.odd", "\0", "ending '.odd'; expected .jsonl"),
        ("a.txt", b"one\ntwo\xff", "a.txt, line 2: not UTF-8 text (invalid start byte"),
        ("a.jsonl", '{"a": "x", "b": "y"}\n', "which column is the text? Name one by text=NAME"),
        ("a.jsonl", '["b", "x"]', "which column is the text?"),
        ("a.jsonl", '{"id": null, "text": "y"}\n', "row 1 has no 'id'"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}\n', "a.jsonl, line 2: not UTF-8 text"),
        ("a.jsonl", '{"text": "x", "Name": 1}\n{"text": "y", "name": 2}\n', "keys 'Name', 'name'"),
        ("a.jsonl", '{"text": "x", "v": ' + "[" * 150 + "]" * 150 + "}", "a.jsonl: "),
    ],
)
def test_broken_files_are_refused_in_one_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as raised:
        read(tmp_path / name)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


GOOD = '{"id": "a", "text": "one"}'


@pytest.mark.parametrize("before", ["{0}\n", "\ufeff{0}\r\n\r\n", "{0}\n" * 3000])
@pytest.mark.parametrize(
    "bad",
    [
        r'{"id": "b", "text": "\ud83d"}',
        '{"id": "b", "text": "x", "n": 1, "n": 2}',
        '{"id": "b", "text": "x"',
        f'{{"text": "x", "n": {"1" * 5000}}}\n{{"text":',
    ],
)
def test_the_line_of_an_error_in_json(tmp_path: Path, before: str, bad: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(f"{before.replace('{0}', GOOD)}{bad}\n{GOOD}\n".encode())
    with pytest.raises(InputError, match=rf"a\.jsonl, line {before.count(chr(10)) + 1}[,:] "):
        read(path)


def test_missing_files_packages_and_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="no files to read"):
        read(tmp_path)
    with pytest.raises(InputError, match="package 'nosuchpackage' is not installed"):
        read("python:nosuchpackage")
    path = write_jsonl(tmp_path / "a.jsonl", {"id": 1, "text": "x"})
    with pytest.raises(InputError, match="no column 'body' for the text; it has id, text"):
        read(path, text="body")


def test_fingerprint_changes_with_the_file_and_the_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", {"id": 1, "text": "x", "body": "y"})
    assert open_source(str(path)).fingerprint == ""  # it may change again at the same time
    monkeypatch.setattr(input_files, "SETTLED_NS", 0)

    def fingerprint(**names: Any) -> str:
        return open_source(str(path), ColumnNames(**names)).fingerprint

    prints = [fingerprint(), fingerprint(text="body"), fingerprint(types={"body": "JSON"})]
    assert fingerprint() == prints[0]
    write_jsonl(path, {"id": 1, "text": "xx", "body": "y"})
    assert len({*prints, fingerprint()}) == 4
    assert open_source("python:").fingerprint == open_source("python:").fingerprint != ""
