"""Folders: which files become documents, what is said of the others, and what can't do harm."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.files.input_files import FileFormat
from slimdex.retrieval.sources.files.limits import (
    LARGEST_FILE,
    LARGEST_RULES,
    UnreadableError,
)
from slimdex.retrieval.sources.files.packed import zstd_library
from slimdex.retrieval.sources.files.reading_process import Worker
from slimdex.retrieval.sources.source import Sources, open_source
from slimdex.retrieval.sources.tabular.columns import ColumnNames
from tests.building import build

from ....encoders import WordEncoder
from .reading import read


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    write(
        folder,
        **{
            "tea.md": "---\ntags: [hot]\n---\n# Tea\n\nBoil water.",
            "work/plan.txt": "First this.\nThen that.",
            "work/LICENSE": "Do as you like.",
            "code/a.py": "def f():\n    return 1\n",
            "table.csv": "id,text\n1,a\n",
            ".hidden/x.md": "secret",
            ".env": "KEY=1",
            "empty.md": "",
        },
    )
    (folder / "picture.bmp").write_bytes(b"BM\x00\x00")
    return folder


def test_a_folder(notes: Path) -> None:
    os.utime(notes / "tea.md", (1_700_000_000, 1_700_000_000))
    found, said = read(notes)
    assert list(found) == ["code/a.py", "tea.md", "work/LICENSE", "work/plan.txt"]
    tea = found["tea.md"]
    assert (tea.title, tea.text) == ("Tea", "Tea\n\nBoil water.")
    assert tea.metadata == {
        "path": f"{notes.as_posix()}/tea.md",
        "folder": "",
        "modified": datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None),
        "kind": "markdown",
        "tags": ["hot"],
        "front_matter": {"tags": ["hot"]},
    }
    plan = found["work/plan.txt"]
    assert (plan.title, plan.text) == ("plan", "First this.\nThen that.")
    assert (plan.metadata["folder"], plan.metadata["kind"]) == ("work", "text")
    assert [part.headings for part in found["code/a.py"].parts] == [("f",)]
    assert said == [
        "left out: 2 hidden",
        "left out, binary: picture.bmp",
        "left out, empty: empty.md",
        "left out, tables and data (named on their own, tables are read): table.csv",
    ]


def test_files_of_unsupported_formats_are_named(tmp_path: Path) -> None:
    ole, empty_zip = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x05\x06" + bytes(18)
    unsupported = {
        "a.doc": ole,
        "b.rtf": b"{\\rtf1 Good morning}",
        "c.pages": b"PK\x03\x04" + bytes(30),
        "d.zip": empty_zip,
        "e.djvu": b"AT&TFORM\x00\x00",
    }
    unreadable = {
        "f.docx": ole + bytes(600),
        "g.pptx": ole + "EncryptedPackage".encode("utf-16-le"),
        "h.odt": empty_zip,
        "i.ipynb": b'{"nbformat": 5}',
        "j.xml": b"<a><b></a>",
    }
    textless = {
        "k.svg": b"<svg><path d='M0'/></svg>",
        "l.ipynb": b'{"cells": []}',
        "m.md": b"---\na: 1\n---\n",
    }
    empty = {"n.md": b" \n", "o.docx": b"", "p.xml": b"\n"}
    for name, data in {**unsupported, **unreadable, **textless, **empty}.items():
        (tmp_path / name).write_bytes(data)
    template = "<?xml version='1.0'?>\n{% if a %}<a>b{% endif %}"
    write(tmp_path, **{"z.md": "Read.", "z.xml.j2": template})
    source = FileSource.of_folder(str(tmp_path))
    found = {document.id: document.text for batch in source.batches() for document in batch}
    assert found == {"z.md": "Read.", "z.xml.j2": "{% if a %}b{% endif %}"}
    noted = {each["path"]: each["note"] for each in source.file_notes()}
    expected = dict.fromkeys(unsupported, "left out, unsupported")
    expected |= dict.fromkeys(empty, "left out, empty")
    expected |= dict.fromkeys(textless, "left out, without text")
    reasons = ["a format from before 2007", "encrypted", "not an ODT file", "not a notebook: "]
    for name, reason in zip(unreadable, [*reasons, "broken: "], strict=True):
        assert noted.pop(f"{tmp_path.as_posix()}/{name}").startswith(f"could not be read: {reason}")
    assert noted == {f"{tmp_path.as_posix()}/{name}": note for name, note in expected.items()}
    assert source.omissions()[1:] == [
        "left out, empty: n.md, o.docx, p.xml",
        "left out, unsupported: a.doc, b.rtf, c.pages, d.zip, e.djvu",
        "left out, without text: k.svg, l.ipynb, m.md",
    ]


def test_entities_of_a_dtd_beside(tmp_path: Path) -> None:
    doctype = "<!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY % e SYSTEM \"b.ent\"> %e; <!ENTITY own 'o'>]>"
    secret = "<!DOCTYPE a SYSTEM 'c/c.dtd' [<!ENTITY % e SYSTEM \"secret.ent\"> %e;]><a>&c;</a>"
    write(
        tmp_path,
        **{
            "a.xml": f"{doctype}<a>&tea; &two; &own;</a>",
            "a.dtd": "<!ENTITY tea 'Tea'><!ENTITY own 'x'><!ENTITY % p 'y'>",
            "b.ent": "<!ENTITY two '&tea; <b>twice</b>'>",
            "b.xml": secret,
            "c/c.dtd": "<!ENTITY c 'secret'>",
        },
    )
    (tmp_path / "secret.ent").symlink_to(tmp_path / "c" / "c.dtd")
    found, _ = read(tmp_path)
    assert found["a.xml"].text == "Tea Tea twice o"
    assert found["b.xml"].text == "c"


def test_files_that_git_ignores_are_skipped(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    write(
        root,
        **{
            ".gitignore": "*.log\n/build/\n!docs/kept.log\n",
            "docs/.gitignore": "drafts/\n",
            "docs/a.md": "a",
            "docs/b.log": "b",
            "docs/kept.log": "k",
            "docs/drafts/c.md": "c",
            "docs/build/d.md": "d",
            "build/e.md": "e",
        },
    )
    found, said = read(root)
    assert list(found) == ["docs/a.md", "docs/build/d.md", "docs/kept.log"]
    assert said == ["left out: 3 hidden, 3 ignored by .gitignore"]
    assert list(read(root / "docs")[0]) == ["a.md", "build/d.md", "kept.log"]
    assert list(read(root / "build")[0]) == ["e.md"]


def test_rules_that_are_too_large(tmp_path: Path) -> None:
    """What they name must not be read, so nothing beside them is."""
    write(tmp_path, **{"a.md": "a", "sub/b.md": "b"})
    (tmp_path / "sub" / ".gitignore").write_text("secret.md\n" + "#" * LARGEST_RULES)
    found, said = read(tmp_path)
    why = f"{tmp_path}/sub/.gitignore is over 256 KiB"
    assert (list(found), said) == (
        ["a.md"],
        [f"could not be read: sub ({why})"],
    )


def test_links_are_followed_once(tmp_path: Path) -> None:
    folder, other = tmp_path / "notes", tmp_path / "other"
    write(folder, **{"a.md": "a", "sub/b.md": "b"})
    write(other, **{"c.md": "c"})
    (folder / "itself").symlink_to(folder)
    (folder / "sub" / "up").symlink_to(tmp_path)
    (folder / "again.md").symlink_to(folder / "a.md")
    (folder / "elsewhere").symlink_to(other)
    (folder / "twice").symlink_to(other)
    (folder / "nowhere.md").symlink_to(folder / "none")
    source = FileSource.of_folder(str(folder), FileFormat(follow_links=True))
    found = [document.id for batch in source.batches() for document in batch]
    assert found == ["a.md", "elsewhere/c.md", "sub/b.md"]
    assert source.omissions() == ["could not be read: nowhere.md (no such file or directory)"]


def test_links_out_of_a_folder_are_counted_and_not_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "notes", tmp_path / "notes of others"
    write(folder, **{"a.md": "a", ".hidden/b.md": "b", "sub/c.md": "c"})
    write(other, **{"secret.md": "secret", "rules": "*.md\n", "corpus.jsonl": '{"_id": "1"}'})
    (other / "back.md").symlink_to(folder / ".hidden" / "b.md")
    inside = {
        "absolute.md": folder / ".hidden" / "b.md",
        "again.md": Path("absolute.md"),  # the same file
        "folder": Path(".hidden"),
        "self": Path("."),
    }
    outside = {
        "corpus.jsonl": other / "corpus.jsonl",
        "file.md": other / "secret.md",
        "folder of others": other,
        "missing.md": other / "none",
        "parent": Path(".."),
        "sub/chain.md": Path("../file.md"),
        "sub/relative.md": Path("../../notes of others/secret.md"),
        "sub/.gitignore": other / "rules",
        "sub/through.md": other / "more" / ".." / "secret.md",
    }
    for name, target in (inside | outside).items():
        (folder / name).symlink_to(target)
    (tmp_path / "alias").symlink_to(folder)  # which the user names
    for given in (folder, tmp_path / "alias"):
        source = open_source(str(given))
        found = {d.id: d.text for batch in source.batches() for d in batch}
        assert found == {"a.md": "a", "folder/b.md": "b", "sub/c.md": "c"}
        assert isinstance(source, FileSource)
        notes = source.file_notes()
        links = [each["path"] for each in notes if "links out of the folder" in each["note"]]
        assert links == [f"{given.as_posix()}/{name}" for name in sorted(outside)]


def test_a_file_that_becomes_a_link_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, **{"notes/a.md": "a", "notes/b.md": "b", "secret.md": "secret"})
    source = FileSource.of_folder(str(tmp_path / "notes"))
    (tmp_path / "notes" / "a.md").unlink()
    (tmp_path / "notes" / "a.md").symlink_to(tmp_path / "secret.md")
    assert [d.text for batch in source.batches() for d in batch] == ["b"]
    assert "a.md (" in source.omissions()[-1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_odd_files_and_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    write(folder, **{"a\nb.md": "newline", "cafe\u0301.md": "decomposed", "caf\xe9.md": "again"})
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("latin")
    os.mkfifo(folder / "pipe.md")
    with (folder / "long.md").open("wb") as file:
        file.write(b"a" * 5000)
        file.truncate(2 << 30)  # a hole, which takes no space
    found, said = read(folder)
    texts = {id: document.text for id, document in found.items()}
    assert texts == {"a\nb.md": "newline", "caf\\xe9.md": "latin", "caf\xe9.md": "decomposed"}
    pipe = "pipe.md (a pipe, socket or device)"
    (unread,) = said
    assert unread.startswith("could not be read: caf\xe9.md (")
    assert unread.endswith(f"long.md (over 64 MiB), {pipe}")


def test_a_file_that_vanishes_or_grows_too_large(notes: Path) -> None:
    source = FileSource.of_folder(str(notes))
    (notes / "tea.md").unlink()
    with (notes / "work" / "plan.txt").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
        file.seek(0)
        file.write(b"a" * 5000)
    found = [document.id for batch in source.batches() for document in batch]
    assert found == ["code/a.py", "work/LICENSE"]
    assert "could not be read: work/plan.txt (over 64 MiB)" in source.omissions()


@pytest.mark.slow
def test_files_nested_ten_thousand_deep(tmp_path: Path) -> None:
    n = 10_000
    (tmp_path / "deep.html").write_text(f"<p>up{'<div>' * n}down{'</div>' * n}<p>end")
    brackets = "(\n" * n + ")\n" * n
    (tmp_path / "deep.py").write_text(brackets)
    (tmp_path / "deep.ipynb").write_text("[" * n)
    found, said = read(tmp_path)
    assert found["deep.html"].text == "up\n\ndown\n\nend"
    assert found["deep.py"].text == brackets.strip()
    assert said[-1].startswith("could not be read: deep.ipynb (not a notebook: ")


def test_packed_texts(tmp_path: Path) -> None:
    (tmp_path / "a.md.gz").write_bytes(gzip.compress(b"# A"))
    (tmp_path / "b.txt.zst").write_bytes(zstd_library().compress(b"b"))
    (tmp_path / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * ((64 << 20) + 1), 1))
    (tmp_path / "bomb.txt.zst").write_bytes(zstd_library().compress(b"a" * ((64 << 20) + 1)))
    (tmp_path / "broken.txt.gz").write_bytes(gzip.compress(b"text" * 100)[:20])
    (tmp_path / "c.bin.gz").write_bytes(gzip.compress(b"\x00\x01"))
    found, said = read(tmp_path)
    assert {id: document.text for id, document in found.items()} == {
        "a.md.gz": "A",
        "b.txt.zst": "b",
    }
    assert found["a.md.gz"].metadata["kind"] == "markdown"
    unread, binary = said
    assert binary == "left out, binary: c.bin.gz"
    assert "bomb.txt.gz (over 64 MiB), bomb.txt.zst (over 64 MiB), broken.txt.gz (" in unread


def test_a_mailbox(tmp_path: Path) -> None:
    box = (
        b"From ann Wed May  1 12:00:00 2024\nSubject: One\nMessage-ID: <1@x>\n\nFirst.\n"
        b">From here on\n\nFrom bo Wed May  1 13:00:00 2024\nSubject: Two\n\nSecond.\n"
        b"\nFrom cy Wed May  1 14:00:00 2024\nSubject: Three\nMessage-ID: <1@x>\n\nThird.\n"
    )
    (tmp_path / "in.mbox").write_bytes(box)
    found, said = read(tmp_path)
    assert [(d.id, d.title, d.text) for d in found.values()] == [
        ("in.mbox#1@x", "One", "First.\nFrom here on"),
        ("in.mbox#2", "Two", "Second."),
        ("in.mbox#1@x~2", "Three", "Third."),
    ]
    assert said == []


def test_a_single_file_is_read(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(notes)
    (document,) = next(iter(open_source("work/LICENSE").batches()))
    assert (document.id, document.metadata["path"]) == ("work/LICENSE", "work/LICENSE")
    lines = [d.text for d in next(iter(open_source("work/plan.txt").batches()))]
    assert lines == ["First this.", "Then that."]
    with pytest.raises(InputError, match=r"picture\.bmp: ending '\.bmp'; expected \.jsonl"):
        open_source("picture.bmp")
    (notes / "bad.ipynb").write_text("{")
    with pytest.raises(InputError, match=r"bad\.ipynb: nothing to read .*not a notebook"):
        next(iter(open_source("bad.ipynb").batches()))
    (notes / "nothing").mkdir()
    with pytest.raises(InputError, match="nothing: no files to read"):
        open_source("nothing")


@pytest.mark.slow
def test_a_reader_that_hangs_or_dies_is_started_again(tmp_path: Path) -> None:
    with Worker(seconds=2) as worker:
        slow = b"<p>" + b"<dl><dt id=x>a<dd>" * 400_000
        with pytest.raises(UnreadableError, match="takes over"):
            worker.read("a.html", "html", slow)
        assert worker.read("a.txt", "text", b"still there").text == "still there"
        assert worker._process is not None
        worker._process.kill()
        with pytest.raises(UnreadableError, match="reader died"):
            worker.read("a.txt", "text", b"b")
        assert worker.read("a.txt", "text", b"c").text == "c"


def test_an_index_in_a_folder_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, **{"a.md": "# A\n\nSome text."})
    for _ in range(2):
        collection, _added = build(
            tmp_path / f"{_}.index", Sources.open(str(tmp_path)), WordEncoder, Settings()
        )
        collection.close()
    found, said = read(tmp_path)
    indexes = "left out, slimdex indexes: 0.index, 1.index"
    assert (list(found), said) == (["a.md"], [indexes])
    with pytest.raises(InputError, match=r"no files to read \(left out, slimdex indexes: \.\)"):
        FileSource.of_folder(str(tmp_path / "0.index"))


def test_options_of_columns_and_formats_require_a_table(tmp_path: Path) -> None:
    write(tmp_path, **{"a.md": "text", "b.csv": "id,text\n1,a\n"})
    with pytest.raises(InputError, match=r"text='nope': a column; expected a table among"):
        Sources.open(str(tmp_path), ColumnNames(text="nope"))
    with pytest.raises(InputError, match=r"format='csv': .* is a folder; expected none"):
        Sources.open(str(tmp_path), files=FileFormat(format="csv"))
    both = Sources.open([str(tmp_path), str(tmp_path / "b.csv")], ColumnNames(text="text"))
    assert len(both.opened) == 2


def test_a_file_with_half_a_character_in_its_metadata_is_reported(tmp_path: Path) -> None:
    half = '{"cells": [{"cell_type": "markdown", "source": "rain \\ud83d"}], "nbformat": 4}'
    (tmp_path / "half.md").write_text('---\nkind: "\\ud83d"\n---\n# Tea\n')
    (tmp_path / "key.md").write_text('---\ntags: {"\\ude00": 1}\n---\n# Tea\n')
    (tmp_path / "text.ipynb").write_text(half)
    (tmp_path / "whole.md").write_text("# Coffee \N{GRINNING FACE}\n")
    found, said = read(tmp_path)
    assert {id: document.text.strip() for id, document in found.items()} == {
        "text.ipynb": "rain",  # what can't be seen is not part of a text
        "whole.md": "Coffee \N{GRINNING FACE}",
    }
    assert said[-1].startswith("could not be read: half.md (metadata, front_matter, kind")
    assert "key.md (metadata" in said[-1]
