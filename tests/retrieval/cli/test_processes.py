"""Other processes that have the index, Ctrl-C, and pipes that are cut off."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests import ctrl_c

from .running import Runner, held, write


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("delete", "pets", "--where", "id = 'cat'"),
        ("add", "pets", "more.jsonl"),
        ("compact", "pets"),
        ("reduce", "pets", "--kind", "flat"),
        ("undo", "pets"),
        ("lexical", "pets", "--off"),
    ],
)
def test_a_change_waits_as_long_as_it_is_told(pets: Runner, words: tuple[str, ...]) -> None:
    write("more.jsonl", [{"id": "x", "text": "one more"}])
    if words[0] in ("compact", "undo"):  # without a change they have nothing to wait for
        assert pets("delete", "pets", "--where", "id = 'cat'").code == 0
    with held(60) as process:
        start = time.monotonic()
        error = pets.refuses(*words, "--wait", "0.5")
        assert f"process {process.pid} is writing to it" in error
        assert time.monotonic() - start >= 0.5
    assert pets(*words, "--wait", "0").code == 0  # the killed process has it no longer
    with held(0.5):
        assert pets(*words, "--wait", "60").code == 0


@pytest.mark.slow
def test_reading_does_not_wait_for_a_change(pets: Runner) -> None:
    commands = [
        ("search", "pets", "the cat sat on the mat", "--json"),
        ("search", "pets", "the cat", "--where", "id = 'cat'"),
        ("open", "pets", "cat"),
        ("info", "pets"),
        ("health", "pets"),
        ("verify", "pets"),
        ("eval", "pets", "--self"),
        ("export", "pets", "--to", "csv", "--out", "new"),
    ]
    with held(600):
        for words in commands:
            assert pets(*words).code == 0, words


@pytest.mark.slow
def test_ctrl_c_ends_the_waiting(pets: Runner) -> None:
    command = ctrl_c.slimdex("delete", "pets", "cat", "--wait", "60")
    with held(60), subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err


@pytest.mark.slow
def test_output_that_is_cut_off_makes_no_noise(pets: Runner) -> None:
    command = f"{sys.executable} -m slimdex search pets cat dog rain | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
