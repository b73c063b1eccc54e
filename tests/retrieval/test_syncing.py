"""Syncing: whatever happened to the files, the index ends as a fresh build of the same files."""

from __future__ import annotations

import io
import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest.adding import sync
from slimdex.retrieval.ingest.addition_report import AdditionReport
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources.files import input_files
from slimdex.retrieval.sources.files.file_source import FileSource
from slimdex.retrieval.sources.source import Sources
from tests.building import add as add_sources
from tests.building import build
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder
from tests.retrieval.word_documents import stop_after_first_vectors

PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity", kind="flat", candidates=5)
LONG = " ".join(f"sentence number {i} has a few words." for i in range(12))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(input_files, "SETTLED_NS", 0)


def write(**files: str) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def encoder() -> ReadingEncoder:
    return ReadingEncoder(max_length=16)


def built(*specs: str, index: str = "x") -> None:
    collection, _ = build(Path(index), Sources.open(specs), encoder, PLAIN)
    collection.close()


def synced(*specs: str, index: str = "x", by: Any = None) -> AdditionReport:
    with Collection.open(index, by or encoder()) as collection:
        return sync(collection.index, Sources.open(specs))


def counts(added: AdditionReport) -> tuple[int, ...]:
    """Added, changed, deleted, and texts encoded."""
    new = added.documents - added.replaced
    return new, added.replaced, added.deleted, added.encoded


def documents(index: str = "x") -> dict[str, Document]:
    with Collection.open(index, encoder()) as collection:
        return {document.id: document for document in collection}


def check_equals_fresh(*specs: str, index: str = "x") -> None:
    """Documents, columns, passages, vectors and answers are those of a build of today."""
    shutil.rmtree("fresh", ignore_errors=True)
    built(*specs, index="fresh")
    assert verify(Path(index)) == []
    old, new = documents(index), documents("fresh")
    assert old == new
    assert {id: [*d.passages] for id, d in old.items()} == {
        id: [*d.passages] for id, d in new.items()
    }
    found = []
    for each in (index, "fresh"):
        with Collection.open(each, encoder()) as collection:
            hits = collection.search_many(
                ["number 7 words", "tea", "rain and snow"], 50, hybrid="off"
            )
            found.append([{(h.id, h.start, round(h.score, 4)) for h in own} for own in hits])
    assert found[0] == found[1]


@pytest.fixture
def notes() -> None:
    write(
        **{
            "notes/tea.md": "# Tea\n\nBoil the water.",
            "notes/long.md": f"# Long\n\n{LONG}",
            "notes/yard/plan.txt": "First this. Then that.",
            "notes/yard/rain.md": "# Rain\n\nrain and snow",
        }
    )
    built("notes")


def test_nothing_has_changed_and_nothing_is_read(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileSource, "_of_file", None)  # reading a file would fail
    assert counts(synced("notes")) == (0, 0, 0, 0)


def test_new_changed_moved_and_gone_in_one_commit(notes: None) -> None:
    write(**{"notes/new.md": "# New\n\nwords", "notes/tea.md": "# Tea\n\nBoil the water twice."})
    os.rename("notes/yard", "notes/done")
    Path("notes/done/plan.txt").unlink()
    with Collection.open("x") as collection:
        before = collection.index.state.generation
    assert counts(synced("notes")) == (2, 1, 2, 2)
    with Collection.open("x") as collection:
        assert collection.index.state.generation == before + 1
    assert sorted(documents()) == ["done/rain.md", "long.md", "new.md", "tea.md"]
    check_equals_fresh("notes")


@pytest.mark.slow
def test_only_the_changed_passages_of_a_text_are_encoded(notes: None) -> None:
    by = encoder()
    write(**{"notes/long.md": f"# Long\n\n{LONG.replace('number 11 has', 'number 11 had')}"})
    added = synced("notes", by=by)
    assert (added.documents, added.replaced, added.encoded) == (1, 1, 1)
    (text,) = by.encoded
    assert "number 11 had" in text
    assert len(documents()["long.md"].passages) > 3
    check_equals_fresh("notes")


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_read_is_read_again(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, same times: of a file that has just changed no stamp is kept."""
    monkeypatch.setattr(input_files, "SETTLED_NS", 10**18)
    write(**{"notes/tea.md": "# Tea\n\naaaa"})
    synced("notes")
    found = os.stat("notes/tea.md")
    write(**{"notes/tea.md": "# Tea\n\nbbbb"})
    os.utime("notes/tea.md", ns=(found.st_atime_ns, found.st_mtime_ns))
    monkeypatch.setattr(input_files, "SETTLED_NS", 0)
    assert counts(synced("notes")) == (0, 1, 0, 1)
    assert "bbbb" in documents()["tea.md"].text


def test_documents_of_an_unreadable_file_stay(notes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FileSource._of_file

    def broken(self: Any, file: Any, *rest: Any) -> Any:
        if "tea" in file.relative:
            raise PermissionError(13, "Permission denied")
        yield from whole(self, file, *rest)

    monkeypatch.setattr(FileSource, "_of_file", broken)
    write(**{"notes/tea.md": "# Tea\n\nnew"})
    Path("notes/yard/rain.md").unlink()
    added = synced("notes")
    assert counts(added) == (0, 0, 1, 0)
    assert "notes: could not be read: tea.md (permission denied)" in added.notes
    assert "Boil" in documents()["tea.md"].text
    monkeypatch.undo()


class Refusing(ReadingEncoder):
    """Can't count the tokens of texts about dragons."""

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        if any("dragon" in text for text in texts):
            raise ValueError("a dragon")
        return super().token_counts(texts)


def test_a_file_that_can_not_be_added_stops_no_other(notes: None) -> None:
    deep = "".join(f"\n{' ' * depth}a:" for depth in range(250))
    write(
        **{
            "notes/cut.md": f"dragon {LONG}",
            "notes/deep.md": f"---{deep}\n---\nText",
            "notes/tea.md": f"# Tea\n\nOf a dragon. {LONG}",
            "notes/yard/new.md": LONG,
        }
    )
    Path("notes/yard/plan.txt").unlink()
    added = synced("notes", by=Refusing(max_length=16))
    assert {note["path"] for note in added.file_notes} == {
        f"notes/{name}.md" for name in ("cut", "deep", "tea")
    }
    assert (added.documents, added.deleted, added.unread) == (1, 1, 3)
    assert {*documents()} == {"tea.md", "long.md", "yard/rain.md", "yard/new.md"}
    assert "Boil" in documents()["tea.md"].text

    # Neither is a folder of such files an index, nor is a row of a table left out.
    write(
        **{"bad/cut.md": f"dragon {LONG}", "table.jsonl": f'{{"id": 1, "text": "dragon {LONG}"}}'}
    )
    with pytest.raises(InputError, match=r"no document with text.*cut\.md"):
        build(Path("y"), Sources.open("bad"), lambda: Refusing(max_length=16), PLAIN)
    with pytest.raises(ValueError, match="a dragon"):
        synced("table.jsonl", by=Refusing(max_length=16))


@pytest.mark.slow
def test_documents_of_other_sources_stay(notes: None) -> None:
    write(**{"more.jsonl": '{"id": "tea", "text": "a"}\n{"id": "b", "text": "b"}\n'})
    with Collection.open("x", encoder()) as collection:
        add_sources(collection, Sources.open("more.jsonl"))
        collection.add({"id": "mine", "text": "of no file"})
    Path("notes/tea.md").unlink()
    assert counts(synced("notes")) == (0, 0, 1, 0)
    write(**{"more.jsonl": '{"id": "tea", "text": "a new text"}\n'})
    assert counts(synced("more.jsonl")) == (0, 1, 1, 1)
    assert sorted(documents()) == ["long.md", "mine", "tea", "yard/plan.txt", "yard/rain.md"]


def test_a_table_and_a_text_that_have_not_changed_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(**{"a.csv": "id,text\n1,one\n2,two\n", "lines.txt": "first\nsecond\n"})
    built("a.csv", "lines.txt")
    assert counts(synced("a.csv", "lines.txt")) == (0, 0, 0, 0)
    write(**{"a.csv": "id,text\n2,two\n3,three\n", "lines.txt": "first\n"})
    assert counts(synced("a.csv", "lines.txt")) == (1, 0, 2, 1)
    assert sorted(documents()) == ["2", "3", "lines.txt:1"]
    assert counts(synced("a.csv")) == (0, 0, 0, 0)


@pytest.mark.slow
def test_a_folder_inside_is_a_part_of_the_one_that_is_known(notes: None) -> None:
    write(**{"notes/yard/new.txt": "more", "notes/tea.md": "# Tea\n\nother"})
    Path("notes/yard/plan.txt").unlink()
    added = synced(str(Path("notes/yard").absolute()))
    assert (added.documents - added.replaced, added.deleted) == (1, 1)
    found = documents()
    assert sorted(found) == ["long.md", "tea.md", "yard/new.txt", "yard/rain.md"]
    assert found["yard/new.txt"].metadata["folder"] == "yard"
    assert "Boil" in found["tea.md"].text
    os.chdir("notes")
    assert counts(synced("tea.md", index="../x"))[:2] == (0, 1)
    os.chdir("..")
    os.symlink("notes", "link")  # which is the same, however it is named
    for name in (str(Path("notes").absolute()), "link", "../" + Path.cwd().name + "/notes/"):
        assert counts(synced(name)) == (0, 0, 0, 0)
    os.chdir("notes")
    assert counts(synced(".", index="../x")) == (0, 0, 0, 0)


@pytest.mark.slow
def test_a_source_that_is_gone_or_empty_deletes_nothing(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename("notes", "elsewhere")
    with pytest.raises(InputError, match="notes: no such file"):
        synced("notes")
    Path("notes").mkdir()
    with pytest.raises(InputError, match="notes: no files to read"):
        synced("notes")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a line")))
    with pytest.raises(InputError, match="expected files, folders or packages"):
        synced("-")
    assert len(documents()) == 4


def test_an_index_of_given_vectors_can_not_be_synced() -> None:
    write(**{"a.jsonl": '{"id": 1, "text": "a"}\n'})
    with Collection.create("g", GivenEncoder(4), PLAIN) as collection:
        collection.add([{"id": 1, "text": "a"}], vectors=np.ones((1, 4)))
        with pytest.raises(InputError, match="built from given vectors"):
            sync(collection.index, Sources.open("a.jsonl"))


class Stopped(BaseException):
    """In place of a kill."""


@pytest.mark.slow
def test_what_an_interrupted_sync_has_encoded_is_kept(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(**{"notes/new.md": f"# New\n\n{LONG}", "notes/tea.md": "# Tea\n\nchanged"})
    Path("notes/yard/plan.txt").unlink()
    for name in ("LEAST_ROWS", "FIRST_CHARACTERS", "GROWTH"):  # each passage by itself
        monkeypatch.setattr(f"slimdex.retrieval.ingest.encode.{name}", 1)
    monkeypatch.setattr("slimdex.retrieval.ingest.addition.MOST_DOCUMENTS", 1)
    with monkeypatch.context() as patch:
        stop_after_first_vectors(patch, Stopped())
        with pytest.raises(Stopped):
            synced("notes", by=(before := encoder()))
    assert len(before.encoded) == 1
    write(**{"notes/later.md": "# Later\n\none more"})
    added = synced("notes", by=(by := encoder()))
    assert {"Later Later\n\none more", "Tea Tea\n\nchanged"} < {*by.encoded}
    assert before.encoded[0] not in by.encoded
    assert (added.documents, added.replaced, added.deleted) == (1, 0, 0)
    check_equals_fresh("notes")


@pytest.mark.slow
def test_nothing_is_deleted_before_all_files_are_read(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(documents())
    write(**{"notes/new.md": "# New\n\na text", "notes/tea.md": "# Tea\n\nchanged"})
    Path("notes/yard/plan.txt").unlink()
    monkeypatch.setattr("slimdex.retrieval.ingest.addition.MOST_DOCUMENTS", 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            "slimdex.retrieval.ingest.adding.AdditionReport.__add__",  # after the first batch
            lambda *a, **k: (_ for _ in ()).throw(Stopped),
        )
        with pytest.raises(Stopped):
            synced("notes")
    assert len(documents()) == before + 1
    assert synced("notes").deleted == 1
    check_equals_fresh("notes")


@pytest.mark.slow
def test_a_sync_that_is_forgotten_has_not_happened(
    notes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files whose documents were dropped are read again, though some of them were the same."""
    write(**{"a.csv": "id,text\n1,one\n2,two\n"})
    with Collection.open("x", encoder()) as collection:
        add_sources(collection, Sources.open("a.csv"))
    write(**{"a.csv": "id,text\n1,one\n2,two\n3,three\n"})
    with monkeypatch.context() as patch:
        patch.setattr(
            "slimdex.retrieval.ingest.writer.add_prepared",
            lambda *a, **k: (_ for _ in ()).throw(Stopped),
        )
        with pytest.raises(Stopped):
            synced("a.csv")
    with Collection.open("x", encoder()) as collection:
        collection.add({"id": "other", "text": "an addition that forgets it"})
    assert "3" not in documents()
    assert counts(synced("a.csv")) == (1, 0, 0, 1)
    assert "3" in documents()


STEPS: Mapping[str, Callable[[random.Random], object]] = {
    "write": lambda r: write(**{f"s/{_name(r)}": f"# T{r.randrange(3)}\n\n{_text(r)}"}),
    "remove": lambda r: _some_file(r).unlink() if len(_files()) > 1 else None,
    "move": lambda r: _move(r),
    "touch": lambda r: os.utime(_some_file(r)),
    "sync": lambda r: synced("s"),
    "delete by hand": lambda r: _delete(r),
    "compact": lambda r: _compact(),
}


def _name(r: random.Random) -> str:
    return f"{r.choice(['', 'a/', 'b/'])}{r.randrange(5)}.md"


def _text(r: random.Random) -> str:
    return LONG[: r.choice([20, 60, 400])].replace("number", f"number {r.randrange(4)}")


def _files() -> list[Path]:
    return sorted(path for path in Path("s").rglob("*") if path.is_file())


def _some_file(r: random.Random) -> Path:
    return r.choice(_files())


def _move(r: random.Random) -> None:
    new = Path("s", _name(r))
    new.parent.mkdir(exist_ok=True)
    os.rename(_some_file(r), new)


def _delete(r: random.Random) -> None:
    """Someone deletes a document, and its file: else it would come back."""
    ids = sorted(documents())
    path = _some_file(r)
    id = path.relative_to("s").as_posix()
    if id in ids and len(ids) > 1 and len(_files()) > 1:
        with Collection.open("x", encoder()) as collection:
            collection.delete(id)
        path.unlink()


def _compact() -> None:
    with Collection.open("x", encoder()) as collection:
        collection.compact()


@sweep
@hypothesis_settings(max_examples=CHANCE.count(12, 2), deadline=None)
@given(
    steps=st.lists(st.sampled_from([*STEPS]), min_size=3, max_size=12),
    seed=st.integers(0, 2**32),
)
def test_whatever_happens_it_ends_as_a_fresh_build(
    steps: list[str], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    os.chdir(tmp_path_factory.mktemp("steps"))
    r = random.Random(seed)
    for _ in range(4):
        STEPS["write"](r)
    built("s")
    for step in steps:
        STEPS[step](r)
    synced("s")
    check_equals_fresh("s")


def test_a_program_syncs_a_collection(caplog: pytest.LogCaptureFixture) -> None:
    write(**{"notes/a.md": "a cat sat", "notes/b.md": "a dog ran", "notes/c.md": "it rained"})
    built("notes")
    write(**{"notes/a.md": "a cat slept", "notes/d.md": "snow fell"})
    Path("notes/b.md").unlink()
    with Collection.open("x", encoder()) as collection:
        expected = {"added": 1, "changed": 1, "deleted": 1, "unchanged": 1}
        expected |= {"documents": 3, "encoded": 2, "refitted": False}
        assert collection.sync(Path("notes"), refit="never") == expected
        assert {d.id: d.text for d in collection}["a.md"] == "a cat slept"
        for wrong in (["notes", 5], [], "nowhere", "-"):
            with pytest.raises(InputError):
                collection.sync(wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="refit='soon'"):
            collection.sync("notes", refit="soon")
        write(**{"t.csv": "nr,words\n1,a hen\n", "notes/bad.pdf": "no pdf"})
        assert collection.sync(["notes", "t.csv"], text="words", id="nr")["added"] == 1
        assert any("bad.pdf" in record.getMessage() for record in caplog.records)


@pytest.mark.slow
def test_a_sync_follows_links_out_of_a_folder_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    write(**{"notes/a.md": "a cat", "other/b.md": "a dog", "other/c.md": "a hen"})
    built("notes")
    os.symlink("../other/b.md", "notes/link.md")
    with Collection.open("x", encoder()) as collection:

        def texts() -> dict[str, str]:
            return {document.id: document.text for document in collection}

        assert collection.sync("notes")["added"] == 0
        assert collection.sync("notes", follow_links=True)["added"] == 1
        assert texts() == {"a.md": "a cat", "link.md": "a dog"}
        Path("notes/link.md").unlink()
        os.symlink("../other/c.md", "notes/link.md")
        assert collection.sync()["changed"] == 1  # the option is remembered
        assert texts() == {"a.md": "a cat", "link.md": "a hen"}
        Path("notes/link.md").unlink()
        os.symlink("a.md", "notes/link.md")  # another name of a file that is read
        assert collection.sync()["deleted"] == 1
        Path("notes/link.md").unlink()
        os.symlink("../other/c.md", "notes/link.md")
        assert collection.sync()["added"] == 1
        assert collection.sync("notes")["deleted"] == 1  # it no longer belongs to the folder
        assert texts() == {"a.md": "a cat"}


@pytest.mark.slow
def test_a_sync_remembers_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    write(**{"notes/a.md": "a cat", "t.csv": "nr,words\n1,a hen\n", "other/z.md": "rain"})
    built("notes")
    with Collection.open("x", encoder()) as collection:
        with pytest.raises(InputError, match="its sources are not known here"):
            collection.sync()
        collection.sync(["notes", "t.csv"], text="words", id="nr")
        write(**{"notes/b.md": "a dog", "t.csv": "nr,words\n2,a hen\n"})
        monkeypatch.chdir("other")
        found = collection.sync()
        assert [found[name] for name in ("added", "deleted", "documents")] == [2, 1, 3]
        assert {d.text for d in collection} == {"a cat", "a dog", "a hen"}
    monkeypatch.chdir(tmp_path)
    shutil.rmtree("x")
    built("other")
    with (
        Collection.open("x", encoder()) as collection,
        pytest.raises(InputError, match="its sources are not known here"),
    ):
        collection.sync()


@pytest.mark.slow
def test_a_sync_remembers_which_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    made = "# Code generated by gen. DO NOT EDIT.\n"
    write(**{"src/a.py": "a = 1", "src/b.py": f"{made}b = 1", "src/old/c.py": "c = 1"})
    built("src")
    with Collection.open("x", encoder()) as collection:

        def ids() -> set[str]:
            return {document.id for document in collection}

        assert ids() == {"a.py", "old/c.py"}
        assert collection.sync("src", exclude=["old/"], generated=True)["encoded"] == 1
        assert ids() == {"a.py", "b.py"}
        write(**{"src/old/d.py": "d = 1", "src/e.py": f"{made}e = 1"})
        assert collection.sync()["added"] == 1
        assert ids() == {"a.py", "b.py", "e.py"}
        assert collection.sync("src")["deleted"] == 2  # what was generated
        assert ids() == {"a.py", "old/c.py", "old/d.py"}
        with pytest.raises(InputError, match="expected a list of patterns"):
            collection.sync("src", exclude="old/")
