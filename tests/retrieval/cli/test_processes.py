"""Other processes that have the index, Ctrl-C, and pipes that are cut off."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from slimdex.retrieval.cli.interrupts import STOPPED_MESSAGE
from slimdex.system import locks
from tests.chance import CHANCE, sweep

from .running import Runner, held, write

CHANGES = (
    "delete pets --where \"id = 'cat'\"",
    "add pets more.jsonl",
    "reduce pets --kind flat",
    "reduce pets --lexical off",
    "undo pets",
    "compact pets",
)
READS = (
    "search pets the cat sat on the mat --json",
    "search pets the cat --where \"id = 'dog'\"",
    "open pets dog",
    "info pets",
    "info pets --health",
    "verify pets",
    "eval pets",
    "export pets --to csv --out new",
)


@sweep
def test_a_change_waits_as_long_as_it_is_told_and_no_read_does(pets: Runner) -> None:
    write("more.jsonl", [{"id": "x", "text": "one more"}])
    assert pets("delete pets rain").code == 0  # else there is nothing to undo or compact
    pets("add pets more.jsonl")
    with held(600):
        for line in CHANGES:
            start = time.monotonic()
            error = pets.refuses(line, "--wait", "0.05")
            assert "another process" in error
            assert time.monotonic() - start >= 0.05
        for line in CHANCE.sample(READS, 4):
            assert pets(line).code == 0, line
    for line in CHANGES:  # the killed process has it no longer
        assert pets(line, "--wait", "0").code == 0, line
    with held(0.3):
        assert pets("delete pets dog --wait 60").code == 0


def test_ctrl_c_ends_the_waiting(pets: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_seconds: float) -> None:
        handler = signal.getsignal(signal.SIGINT)
        assert callable(handler)
        handler(signal.SIGINT, None)  # as a signal, but never while a destructor runs

    monkeypatch.setattr(locks, "sleep", press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with held(600):
            code, _, err = pets("delete pets cat --wait 60")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, err.strip()) == (130, f"error: {STOPPED_MESSAGE}")


@pytest.mark.slow
def test_output_that_is_cut_off_makes_no_noise(pets: Runner) -> None:
    command = f"{sys.executable} -m slimdex search pets cat dog rain | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
