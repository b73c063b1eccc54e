"""Sources of documents; documents that are added, synced, opened and deleted."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.operations.building import Sources, build
from tests.encoders import WordEncoder

from ..running import Runner, write

COLUMNS = ("--id", "nr", "--title", "heading", "--text", "body", "--types", "zip=VARCHAR")


LETTERS = "nr;heading;body;zip\n7;Café;rain and rain;01234\n"


def command(name: str, *words: str) -> tuple[str, ...]:
    """A command that brings documents into "j", which is new, or into "i"."""
    if name == "build":
        return (name, *words, "--model", "glove.txt", "--out", "j")
    return (name, "i", *words)


def opened(run: Runner, name: str, document: str) -> Any:
    return run("open", "j" if name == "build" else "i", document, "--json").json


def test_open_prints_tabs_and_escapes_what_a_terminal_obeys(notes: Runner) -> None:
    Path("code.jsonl").write_text(json.dumps({"id": "x", "text": "if a:\n\tb\t\x1b[2J"}))
    assert notes("add", "i", "code.jsonl").code == 0
    assert notes("open", "i", "x").out.splitlines()[-2:] == ["if a:", "\tb\t\\x1b[2J"]


@pytest.mark.parametrize("name", ["build", "add", "sync"])
def test_columns_types_and_the_form_of_a_file(notes: Runner, name: str) -> None:
    Path("letters.data").write_text(LETTERS, encoding="latin-1")
    words = ("letters.data", *COLUMNS, "--encoding", "latin-1", "--format", "csv")
    code, _, err = notes(*command(name, *words))
    assert code == 0, err
    document = opened(notes, name, "7")
    assert (document["title"], document["text"]) == ("Café", "rain and rain")
    assert document["metadata"] == {"zip": "01234"}
    notes.refuses(*command(name, "letters.data", *words[1:], "--id", "no"))


@pytest.mark.parametrize("name", ["build", "add", "sync"])
def test_links_out_of_a_folder_are_followed_if_asked_to(notes: Runner, name: str) -> None:
    for path, text in {"papers/a.md": "the cat", "secret.md": "the dog"}.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text)
    Path("papers/link.md").symlink_to("../secret.md")
    code, _, err = notes(*command(name, "papers"))
    assert code == 0, err
    hint = "papers: left out: 1 link out of the folder (--follow-links follows links): link.md\n"
    assert hint in err
    notes.refuses("open", "j" if name == "build" else "i", "link.md")
    if name == "build":
        shutil.rmtree("j")
    code, _, err = notes(*command(name, "papers", "--follow-links"))
    assert (code, "link.md" in err) == (0, False)
    assert opened(notes, name, "link.md")["text"] == "the dog"


@pytest.mark.parametrize("name", ["build", "add", "sync"])
def test_the_answer_to_a_query_is_a_source(notes: Runner, name: str) -> None:
    asked = "SELECT 7 AS id, 'rain and rain' AS text UNION ALL SELECT 8, 'the dog'"
    code, _, err = notes(*command(name, "--sql", asked))
    assert code == 0, err
    assert [opened(notes, name, id)["text"] for id in "78"] == ["rain and rain", "the dog"]
    notes.refuses(*command(name, "--sql", "SELECT 7 AS"))


def test_a_sync_refits_only_if_it_is_to(notes: Runner) -> None:
    more = [{"id": str(i), "text": text} for i, text in enumerate(["rain"] * 9)]
    write("notes.jsonl", more)
    for refit, refitted in (("never", False), ("always", True)):
        write("notes.jsonl", [*more, {"id": refit, "text": f"the cat and the dog {refit}"}])
        found = notes("sync", "i", "notes.jsonl", "--refit", refit, "--json").json
        assert (found["added"] > 0, found["refitted"]) == (True, refitted)
    notes.refuses("sync", "i", "notes.jsonl", "--refit", "soon")


def test_several_sources_become_one_index(slimdex: Runner) -> None:
    Path("lines.txt").write_text("the dog\nthe rain\n")
    facts = slimdex("build", "pets.jsonl", "lines.txt", "--out", "x", "--json").json
    assert facts["documents"] == 5
    hits = slimdex.found("x", "the dog", "-n", "1")
    assert hits[0]["id"] == "lines.txt:1"


@pytest.mark.slow
def test_generated_ids_are_noted_and_differ_between_files(slimdex: Runner) -> None:
    for folder in ("jan", "feb"):
        Path(folder).mkdir()
        Path(folder, "report.csv").write_text(f"text\nthe cat in {folder}\nthe dog\n")
    built = slimdex("build", "jan/report.csv", "--out", "rep")
    assert "note: jan/report.csv: no id column; ids are jan/report.csv:1, ...\n" in built.err
    added = slimdex("add", "rep", "feb/report.csv")
    assert added.out.startswith("4 documents in rep: ")
    hits = slimdex.found("rep", "the dog")
    assert {hit["id"] for hit in hits} == {
        f"{m}/report.csv:{n}" for m in ("jan", "feb") for n in "12"
    }


def test_standard_input(notes: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b'{"id": 3, "text": "the dog", "zip": "7"}\n'))
    monkeypatch.setattr(sys, "stdin", piped)
    added = notes("add", "i", "-")
    assert added.err.startswith("note: standard input: read as jsonl, by its first bytes")
    assert opened(notes, "add", "3")["metadata"] == {"zip": "7"}


def test_bytes_are_base64_in_json(slimdex: Runner) -> None:
    duckdb.connect().sql(
        "SELECT 1 AS id, 'the cat' AS text, '\\xFF\\x00a'::BLOB AS b"
    ).write_parquet("b.parquet")
    assert slimdex("build", "b.parquet", "--out", "b").code == 0
    (hit,) = slimdex.found("b", "the cat")
    assert hit["metadata"] == {"b": "/wBh"}


@pytest.mark.slow
def test_add_and_delete(pets: Runner) -> None:
    write("more.jsonl", [{"id": "cat", "text": "the rain", "year": 9}, {"id": "x", "text": "dog"}])
    added = pets("add", "pets", "more.jsonl", "--json").json
    assert (added["added"], added["replaced"], added["documents"]) == (2, 1, 4)
    assert pets("delete", "pets", "x", "rain", "--json").json == {"deleted": 2, "documents": 2}
    assert pets("delete", "pets", "--where", "year = 9", "--json").json["deleted"] == 1
    hits = pets.found("pets", "anything")
    assert [hit["id"] for hit in hits] == ["dog"]


def test_a_whole_document(slimdex: Runner) -> None:
    text = "".join(f"the cat {word}.\n" for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn") * 2)
    write("long.jsonl", [{"id": "a", "text": text, "year": 3}, {"id": "b", "text": "dog"}])
    slimdex("build", "long.jsonl", "--out", "x")
    shown = slimdex("open", "x", "a").out
    assert shown.endswith(text + "\n")
    assert re.search(r"^year +3$", shown, re.MULTILINE)
    found = slimdex("open", "x", "a", "--json").json
    assert (found["text"], found["metadata"], found["parts"]) == (text, {"year": 3}, [])
    assert "".join(text[p["start"] : p["end"]] for p in found["passages"]).startswith("the cat ab")
    assert slimdex("open", "x", "b", "--json").json["passages"] == []
    assert "unknown id 'c'; expected the id of a document" in slimdex.refuses("open", "x", "c")


def test_a_document_is_opened_by_its_path_too(bare: Runner) -> None:
    Path("notes").mkdir()
    Path("notes/it's.md").write_text("# Tea\n\nBoil the water.")
    collection, _ = build(Path("x"), Sources.open("notes"), WordEncoder, Settings())
    collection.close()
    for name in ("it's.md", "notes/it's.md"):
        assert "Boil the water." in bare("open", "x", name).out
    assert "unknown id 'notes/other.md'" in bare.refuses("open", "x", "notes/other.md")


def test_related_documents(pets: Runner) -> None:
    found = pets("related", "pets", "cat", "-n", "1", "--json").json
    with Collection.open("pets") as collection:
        (nearest,) = collection.related("cat", 1)
    assert (found["id"], [hit["id"] for hit in found["hits"]]) == ("cat", [nearest.id])
    some = pets("related", "pets", "cat", "--where", "year = 2003", "--json").json
    assert [hit["id"] for hit in some["hits"]] == ["rain"]
    assert pets("related", "pets", "cat").out.splitlines()[1].split()[1] == nearest.id
    assert "'none'" in pets.refuses("related", "pets", "none")


def test_the_last_change_is_undone_and_made_again(pets: Runner) -> None:
    assert pets("delete", "pets", "cat", "dog").code == 0
    undone = pets("undo", "pets")
    assert undone.out == "2 restored, 0 removed; 3 documents\n"
    assert pets("open", "pets", "cat", "--json").json["text"] == "the cat sat on the mat"
    assert pets("undo", "pets", "--json").json == {"restored": 0, "removed": 2, "documents": 1}
    assert pets("reduce", "pets", "--k", "2", "--kind", "flat").code == 0
    assert pets("undo", "pets").out == "the settings and files before; 1 documents\n"
    assert pets("compact", "pets").code == 0
    assert "nothing to undo" in pets.refuses("undo", "pets")
