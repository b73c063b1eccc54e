"""The command line at a real terminal (a pty) of several widths, and into a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from urllib.parse import quote

import numpy as np
import pytest
from rich.cells import cell_len

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from tests.forked import command
from tests.slow import slow

LINK = re.compile(r"\x1b\]8;(?:id=[\d-]+)?;([!-~]*)\x1b\\")
"""The mark at which a link begins, with where it leads, or ends, with nothing."""
STYLE = re.compile(r"\x1b\[([0-9;]*m|\?25[lh]|2K|1A)|\r")
"""What Rich writes to colour its output, and to draw bars of progress."""
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")
HOSTILE = Document(
    "\x1b]0;owned\x07[red]id[/red]\u202egnp.exe",
    "\x1b[31mred \x1b[2J\x9b2J \u2067over\u2069 [link=http://x]text[/link] \x08\x08",
    "\x1bc[bold]title[/bold]",
    {"co\x1bl": "va\x9blue [blink]"},
)
LONG = Document("i" * 300, "日本語のテキスト。" + "é 😀 word " * 20 + "w" * 500)
NARROW = 40


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terminal") / "x"
    with Collection.create(path, GivenEncoder(2), Settings(kind="flat")) as collection:
        documents = [HOSTILE, LONG, Document("n1", "")]
        collection.add(documents, vectors=np.array([[1, 0], [1, 1], [0, 1]]))
    return path


def at_terminal(width: int, *words: str) -> str:
    """All that `slimdex` writes to a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    process = command(words, environment, its, its, its)
    os.close(its)
    written = read(ours)
    process.join()
    return written.replace("\r\n", "\n")


def piped(*words: str, **variables: str) -> str:
    """What `slimdex` writes into a pipe."""
    ours, its = os.pipe()
    with open(os.devnull, "r+b") as nothing:
        none = nothing.fileno()
        process = command(words, {**os.environ, "COLUMNS": "40", **variables}, none, its, none)
    os.close(its)
    written = read(ours)
    process.join()
    assert process.exitcode == 0
    return written


def read(ours: int) -> str:
    """All that comes until the other end is closed."""
    written = b""
    with suppress(OSError):  # as a terminal's end is told
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    return written.decode()


def search(path: Path, *more: str) -> tuple[str, ...]:
    return ("search", str(path), "--query-vector", "[1, 0.1]", "--show", "co\x1bl", *more)


@pytest.mark.slow
@pytest.mark.parametrize("width", [NARROW, *slow([80, 120])])
def test_no_control_character_of_a_document_reaches_a_terminal(index: Path, width: int) -> None:
    written = at_terminal(width, *search(index))
    assert "\x1b[31mred" not in written
    plain = STYLE.sub("", written)
    assert not OBEYED.search(plain), plain
    shown = re.sub(r"\s+", "", plain)
    for expected in (
        r"\x1b]0;owned\x07[red]id[/red]\u202egnp.exe",
        r"\x1bc[bold]title[/bold]",
        r"co\x1bl:va\x9blue[blink]",
        r"\x1b[31mred\x1b[2J\x9b2J\u2067over\u2069[link=http://x]text[/link]\x08\x08",
    ):
        assert expected in shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [NARROW, *slow([80, 120])])
def test_ids_and_texts_of_any_length_fit(index: Path, width: int) -> None:
    lines = STYLE.sub("", at_terminal(width, *search(index))).split("\n")
    assert max(map(cell_len, lines)) <= width
    shown = "".join(line.strip() for line in lines)
    assert "i" * 300 in shown
    assert "日本語のテキスト。" in shown
    assert "…" in shown  # the text goes on
    rows = [line for line in lines if set(line.strip()) == {"i"}]
    assert len(rows) <= 300 // (width - 8) + 1  # wrapped at the width, not in a narrow column
    facts = STYLE.sub("", at_terminal(width, "info", str(index))).split("\n")
    assert max(map(cell_len, facts)) <= width
    whole = piped("info", str(index))
    assert "".join("".join(facts).split()) == "".join(whole.split())


def test_a_pipe_has_no_width(index: Path) -> None:
    lines = piped(*search(index)).splitlines()
    assert "i" * 300 in [line.split("  ")[-1] for line in lines]
    assert not any(line.endswith(" ") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_json_is_the_same_text_and_safe_on_a_terminal(index: Path) -> None:
    written = at_terminal(80, *search(index, "--json")).strip()
    assert not OBEYED.search(written)
    hits = json.loads(written)["queries"][0]["hits"]
    assert (hits[0]["id"], hits[0]["text"]) == (HOSTILE.id, HOSTILE.text)
    assert hits[0]["metadata"] == HOSTILE.metadata
    assert "日本語のテキスト" in written


def test_json_is_json_also_where_letters_are_missing(index: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slimdex", *search(index, "--json")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},  # which Python reads as it starts
    )
    hits = json.loads(done.stdout)["queries"][0]["hits"]
    assert {hit["text"] for hit in hits} == {HOSTILE.text, LONG.text, ""}


@pytest.mark.slow
def test_errors_and_notes_are_safe(index: Path, tmp_path: Path) -> None:
    name = tmp_path / "a\x1b[2Jb\u202e.jsonl"
    name.write_text('{"id": "\\u001b[2J", "text": "x", "deleted": "\\u009b"}\n')
    for words in (
        ("search", str(tmp_path / "no\x1b]0;x\x07"), "x"),
        ("delete", str(index), "\x1b[2J"),
        ("build", str(name), "--out", str(tmp_path / "new"), "--vectors", "none.npy"),
        ("build", str(name), str(name), "--out", str(tmp_path / "new"), "--model", "./\x1b[2J"),
        ("verify", str(index)),
    ):
        written = at_terminal(80, *words)
        assert not OBEYED.search(STYLE.sub("", written)), written
        assert written.count("\n") <= 3
    assert r"no\x1b]0;x\x07: no slimdex index there" in at_terminal(
        200, "search", str(tmp_path / "no\x1b]0;x\x07"), "x"
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, and an index of documents that name its files, the first of them nearest."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("a b.html", "c.pdf", "deep/d.md", "box.mbox"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()

    def document(id: str, path: str, part: Part, url: str | None = None) -> Document:
        return Document(id, "text", metadata={"path": path, "url": url}, parts=[part])

    documents = [
        document("a b.html", f"{folder}/a b.html", Part(0, ["Top", "Low"], anchor="l;w")),
        document("c.pdf", f"{folder}/c.pdf", Part(0, page=7)),
        document("deep/d.md", f"{folder}/deep/d.md", Part(0, ["H"], anchor="h")),
        document("box.mbox#7", f"{folder}/box.mbox", Part(0)),
        document("gone.md", f"{folder}/gone.md", Part(0), "https://x.org/a?b=1"),
        document("evil", "\x1b]8;;http://y\x1b\\", Part(0), "https://x\x07"),
    ]
    with Collection.create(folder / "index", GivenEncoder(2), Settings(kind="flat")) as collection:
        vectors = np.array([[9, i] for i in range(len(documents))])
        collection.add(documents, vectors=vectors)
    return folder


def of_files(files: Path, *more: str) -> tuple[str, ...]:
    return ("search", str(files / "index"), "--query-vector", "[1, 0]", *more)


def links(written: str) -> list[tuple[str, str]]:
    """What is shown as a link, and where it leads, without styles."""
    parts = LINK.split(STYLE.sub("", written))
    return [(text, uri) for uri, text in zip(parts[1::2], parts[2::2], strict=True) if uri]


def test_files_that_are_there_are_links_in_a_terminal(files: Path) -> None:
    written = at_terminal(200, *of_files(files))
    here = f"file://{quote(gethostname())}{quote(str(files))}"
    assert links(written) == [
        ("a b.html", f"{here}/a%20b.html#l%3Bw"),
        ("c.pdf", f"{here}/c.pdf#page=7"),
        ("deep/d.md", f"{here}/deep/d.md"),
        (f"{files}/box.mbox", f"{here}/box.mbox"),
    ]
    assert not OBEYED.search(STYLE.sub("", LINK.sub("", written)))


def test_columns_that_are_shown_are_links(files: Path) -> None:
    written = at_terminal(200, *of_files(files, "--show", "path,url"))
    found = dict(links(written))
    assert found["https://x.org/a?b=1"] == "https://x.org/a?b=1"
    assert found[f"{files}/c.pdf"].endswith("/c.pdf#page=7")
    assert f"{files}/gone.md" not in found
    assert not [uri for uri in found.values() if not uri.startswith(("file://", "https://x.org/"))]
    assert not OBEYED.search(STYLE.sub("", LINK.sub("", written)))


def test_a_link_in_several_lines_is_one(files: Path) -> None:
    found = links(at_terminal(NARROW, *of_files(files, "--show", "path")))
    to_box = [text for text, uri in found if uri.endswith("/box.mbox")]
    assert "".join(to_box).count(f"{files}/box.mbox") == 2


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}])
def test_a_pipe_and_json_have_no_links(files: Path, variables: dict[str, str]) -> None:
    assert "\x1b]8" not in piped(*of_files(files, "--show", "path,url"), **variables)
    written = at_terminal(80, *of_files(files, "--json"))
    assert "\x1b" not in written
