"""Running `slimdex` as a user does: its exit code, and what it prints."""

from __future__ import annotations

import json
import multiprocessing
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slimdex.__main__ import main
from slimdex.retrieval.cli import console
from slimdex.retrieval.collection import Collection
from tests import forked

PETS = [
    {"id": "cat", "text": "the cat sat on the mat", "year": 2001, "kind": "pet"},
    {"id": "dog", "text": "the dog chased the cat", "year": 2002, "kind": "pet"},
    {"id": "rain", "text": "rain fell on the roof", "year": 2003, "kind": None},
]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, (self.out, self.err)
        return json.loads(self.out)


class Runner:
    """Runs `slimdex` in this process; a build has a small encoder if it names none.

    A command is a line as in a shell, or its beginning and other words.
    """

    encoder: tuple[str, ...] = ()

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str, *more: str) -> Result:
        words = [*shlex.split(line), *more]
        if words[:1] == ["build"] and not {"--model", "--vectors"} & {*words}:
            words.extend(self.encoder)
        self._capsys.readouterr()
        code: Any = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["slimdex", *words])
            patch.setattr(console, "LINE_SECONDS", 3600)  # a loaded machine prints no more lines
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
        return Result(code, *self._capsys.readouterr())

    def refuses(self, line: str, *more: str) -> str:
        """The one line on stderr of a command that exits with 2."""
        code, out, err = self(line, *more)
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        assert "Traceback" not in err
        return err

    def found(self, line: str, *more: str) -> list[dict[str, Any]]:
        """The hits of the first query of a search."""
        result = self(f"search {line}", *more, "--json")
        assert result.code == 0, result.err
        hits: list[dict[str, Any]] = result.json["queries"][0]["hits"]
        return hits


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def hold(seconds: float, opened: Connection) -> None:
    with Collection.open("pets") as pets, pets.index.change():
        opened.send("open")
        time.sleep(seconds)


@contextmanager
def held(seconds: float) -> Iterator[ForkServerProcess]:
    """A second process that is changing the index for some time."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = forked.process(hold, seconds, there)
    there.close()
    try:
        assert here.recv() == "open"
        yield process
    finally:
        process.kill()
        process.join()
