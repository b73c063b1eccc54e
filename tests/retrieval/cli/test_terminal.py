"""The command line at a real terminal (a pty) of several widths, and into a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import termios
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from tests.forked import command
from tests.slow import slow

from .running import Runner

STYLE = re.compile(r"\x1b\[([0-9;]*m|\?25[lh]|2K|1A)|\r")
"""ANSI escape sequences, by which Rich colours its output."""
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


def piped(*words: str) -> str:
    """What `slimdex` writes into a pipe."""
    ours, its = os.pipe()
    with open(os.devnull, "r+b") as nothing:
        none = nothing.fileno()
        process = command(words, {**os.environ, "COLUMNS": "40"}, none, its, none)
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
@pytest.mark.parametrize("width", [NARROW, *slow([120])])
def test_any_document_fits_a_terminal_and_cannot_control_it(index: Path, width: int) -> None:
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
        "i" * 300,
        "日本語のテキスト。",
    ):
        assert expected in shown
    lines = plain.split("\n")
    assert max(map(cell_len, lines)) <= width
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


def test_errors_and_notes_are_safe(bare: Runner, index: Path, tmp_path: Path) -> None:
    name = tmp_path / "a\x1b[2Jb\u202e.jsonl"
    name.write_text('{"id": "\\u001b[2J", "text": "x", "deleted": "\\u009b"}\n')
    for words in (
        ("search", str(tmp_path / "no\x1b]0;x\x07"), "x"),
        ("delete", str(index), "\x1b[2J"),
        ("build", str(name), "--out", str(tmp_path / "new"), "--vectors", "none.npy"),
        ("build", str(name), str(name), "--out", str(tmp_path / "new"), "--model", "./\x1b[2J"),
    ):
        code, _, err = bare(*words)
        assert (code, OBEYED.search(err)) == (2, None)
