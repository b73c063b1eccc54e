"""Ctrl-C at any moment: one line, no traceback, and the same command can be run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.cli.interrupts import STOPPED_MESSAGE
from slimdex.retrieval.collection import Collection
from slimdex.system.atomic_files import publish_folder, remove_folder
from tests import ctrl_c, forked
from tests.chance import CHANCE, sweep

BEGIN = """
import os, signal, sys, time
from slimdex.retrieval.cli.interrupts import interruptible
def press(): os.kill(os.getpid(), signal.SIGINT)
with interruptible():
"""
AT_TIMES = """
import atexit, os, signal, sys
atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)
times = [{}]
def press(*_):
    if times: signal.setitimer(signal.ITIMER_PROF, times.pop(0))
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGPROF, press)
signal.setitimer(signal.ITIMER_PROF, times.pop(0))
sys.argv[0] = "slimdex"
from slimdex.__main__ import main
main()
"""
"""The command line, which Ctrl-C hits twice: after so many seconds of the processor's work."""

WHILE_PRINTING = """
import os, signal, sys
from slimdex.retrieval.cli import console
console.index_line = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.argv[0] = "slimdex"
from slimdex.__main__ import main
main()
"""


def interrupted(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(ctrl_c.program(program, *words), capture_output=True, text=True)


@pytest.mark.parametrize(
    ("body", "out"),
    [
        ("press()", ""),
        ("try: press()\n finally: press(); print('in order')", "in order\n"),
        ("try: press()\n finally:\n  time.sleep(1.1); press(); print('in order')", ""),
        ("try: press()\n except KeyboardInterrupt: raise ImportError('half')", ""),
        ("class A:\n  __del__ = lambda _: press()\n A(); time.sleep(9); print('went on')", ""),
    ],
)
def test_ctrl_c_is_one_line(body: str, out: str) -> None:
    done = interrupted(f"{BEGIN} {body}\n")
    assert (done.returncode, done.stdout, done.stderr) == (130, out, f"error: {STOPPED_MESSAGE}\n")


def test_another_error_stays_what_it_is() -> None:
    done = interrupted(f"{BEGIN} raise ImportError('half')\n")
    assert done.returncode == 1
    assert "ImportError: half" in done.stderr


def end_at_the_third_removal(folder: Path) -> None:
    removed = list[str]()

    def removing(event: str, _: object) -> None:
        if event == "os.remove":
            removed.append(event)
            if len(removed) == 3:
                os._exit(9)

    sys.addaudithook(removing)
    remove_folder(folder)


def test_a_removal_cut_short_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    for number in range(9):
        (folder / str(number)).touch()
    assert forked.exit_code(forked.process(end_at_the_third_removal, folder), 60) == 9
    (left,) = tmp_path.iterdir()
    assert left != folder
    assert len(list(left.iterdir())) == 7
    publish_folder(folder, lambda new: (new / "made").touch())
    assert list(tmp_path.iterdir()) == [folder]


def test_a_build_stopped_while_it_prints_says_that_all_is_in(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"id": 1, "text": "cat"}\n{"id": 2, "text": "dog"}\n')
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    words = str(tmp_path / "d.jsonl"), "--vectors", str(tmp_path / "v.npy")
    done = interrupted(WHILE_PRINTING, "build", *words, "--out", str(tmp_path / "x"))
    assert (done.returncode, done.stdout) == (130, "")
    assert f"all documents are in {tmp_path / 'x'}" in done.stderr
    with Collection.open(tmp_path / "x") as collection:
        assert len(collection) == 2


@sweep
@pytest.mark.parametrize("number", CHANCE.sample(range(60), 2))
def test_a_build_stopped_at_any_moment_can_be_run_again(tmp_path: Path, number: int) -> None:
    count, moment = 600, CHANCE.random("interrupts", number).uniform(0.1, 2.5)
    documents, vectors = tmp_path / "d.jsonl", tmp_path / "v.npy"
    documents.write_text(
        "".join(json.dumps({"id": i, "text": f"cat {i}"}) + "\n" for i in range(count))
    )
    np.save(vectors, np.random.default_rng(0).normal(size=(count, 32)).astype(np.float32))
    words = "build", str(documents), "--vectors", str(vectors), "--out", str(tmp_path / "x")
    done = interrupted(AT_TIMES.format(f"{moment}, .02"), *words)
    assert "Traceback" not in done.stderr, moment
    assert "Exception ignored" not in done.stderr, moment
    if "all documents are in" in done.stderr or done.returncode == 0:
        return
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, f"error: {STOPPED_MESSAGE}"), (
        moment
    )
    again = subprocess.run([sys.executable, "-m", "slimdex", *words], capture_output=True)
    assert again.returncode == 0, (moment, again.stderr)
    assert {path.name for path in tmp_path.iterdir()} == {"d.jsonl", "v.npy", "x"}, moment
