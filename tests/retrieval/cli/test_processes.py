"""Other processes that have the index, Ctrl-C, and pipes that are cut off."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.transformer import TransformerEncoder

from .running import Runner, held, write


def test_a_second_writer_and_a_reader_meanwhile(pets: Runner) -> None:
    code = (
        "from slimdex import Collection; import sys\n"
        "open_ = Collection.open('pets'); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        for words in (("delete", "pets", "cat"), ("search", "pets", "cat")):
            message = pets.refuses(*words)
            assert f"process {writer.pid} is writing to it; expected no writer" in message
        writer.communicate("")
    assert pets("delete", "pets", "cat").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("write", ("search", "pets", "the cat sat on the mat", "--json")),
        ("write", ("info", "pets")),
        ("write", ("verify", "pets")),
        ("write", ("eval", "pets", "--self")),
        ("read", ("delete", "pets", "cat")),
        ("read", ("add", "pets", "more.jsonl")),
        ("read", ("compact", "pets")),
        ("read", ("reduce", "pets", "--kind", "flat")),
        ("read", ("repair", "pets")),
    ],
)
def test_a_command_waits_as_long_as_it_is_told(
    pets: Runner, how: str, words: tuple[str, ...]
) -> None:
    write("more.jsonl", [{"id": "x", "text": "one more"}])
    verb = "reading it" if how == "read" else "writing to it"
    with held(how, 60) as process:
        message = pets.refuses(*words)
        wanted = "no process may have it open" if how == "read" else "expected no writ"
        assert f"process {process.pid} is {verb}" in message
        assert wanted in message
        assert "(--wait 30 " in message
        start = time.monotonic()
        assert verb in pets.refuses(*words, "--wait", "0.5")
        assert time.monotonic() - start >= 0.5
    with held(how, 0.5):
        assert pets(*words, "--wait", "60").code == 0


@pytest.mark.slow
def test_a_command_waits_for_a_writer(pets: Runner) -> None:
    commands = [
        ("open", "pets", "cat"),
        ("health", "pets"),
        ("tune", "pets", "--agreement", "0.9"),
        ("export", "pets", "--to", "npz", "--out", "new"),
        ("push", "pets", "--milvus", "new.db"),
        ("serve", "pets", "--port", "0"),
        ("mcp", "pets"),
    ]
    with held("write", 60) as process:
        for words in commands:
            start = time.monotonic()
            said = pets.refuses(*words, "--wait", "0.2")
            assert f"process {process.pid} is writing to it; expected no writer" in said
            assert time.monotonic() - start >= 0.2
    assert sorted(path.name for path in Path().iterdir()) == ["pets", "pets.jsonl"]


@pytest.mark.slow
def test_ctrl_c_ends_the_waiting(pets: Runner) -> None:
    command = [sys.executable, "-m", "slimdex", "delete", "pets", "cat", "--wait", "60"]
    with (
        held("read", 60),
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process,
    ):
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err


@pytest.mark.slow
def test_an_unfinished_build_waits_too(pets: Runner) -> None:
    encoder = TransformerEncoder(str(pets.model), max_length=32)
    shutil.rmtree("pets")
    Collection.create("pets", encoder, Settings(kind="flat")).close()
    with held("read", 1):
        assert pets("build", "pets.jsonl", "--out", "pets", "--wait", "60").code == 0


@pytest.mark.slow
def test_output_that_is_cut_off_makes_no_noise(pets: Runner) -> None:
    command = f"{sys.executable} -m slimdex search pets cat dog rain | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
