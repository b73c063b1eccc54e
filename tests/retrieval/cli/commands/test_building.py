"""`slimdex build`: what it makes, and how it goes on after an interruption."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests import ctrl_c

from ..running import Runner, write


def test_a_small_corpus_gets_settings_that_fit_and_a_note(slimdex: Runner) -> None:
    result = slimdex("build", "pets.jsonl", "--out", "pets", "--json")
    assert result.json["settings"]["kind"] == "flat"
    assert result.json["settings"]["k"] == 3
    assert result.err.startswith("note: a small index, which adapts by itself as it grows")


def test_a_k_that_few_documents_do_not_span_adapts_as_well(slimdex: Runner) -> None:
    built = slimdex("build", "pets.jsonl", "--out", "pets", "--k", "32", "--json")
    assert (built.json["settings"]["k"], built.json["requested"]["k"]) == (3, 32)
    assert "k=3 (the most that 3 vectors allow)" in built.err
    assert slimdex.found("pets", "cat")[0]["id"]
    reduced = slimdex("reduce", "pets", "--k", "16", "--json")
    assert (reduced.json["settings"]["k"], reduced.json["requested"]["k"]) == (3, 16)


def test_passages(slimdex: Runner) -> None:
    text = "".join(f"the cat {word}.\n" for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn") * 2)
    write("long.jsonl", [{"id": "a", "text": text}, {"id": "b", "text": "dog"}])
    built = slimdex("build", "long.jsonl", "--out", "x", "--json")
    rows = built.json["passages"]["rows"]
    assert built.json["passages"] == {"tokens": 32, "documents_cut": 1, "rows": rows}
    assert built.json["documents"] == 2
    assert f"note: 1 of 2 documents cut into {rows - 1} passages\n" in built.err
    found = slimdex.found("x", "cat", "ij")
    assert sorted(hit["id"] for hit in found) == ["a", "b"]
    (hit,) = (hit for hit in found if hit["id"] == "a")
    assert hit["text"] == text[hit["start"] : hit["end"]]
    words = ("search", "x", "cat", "--group-by", "passage")
    found = slimdex(*words, "--json", "-n", "99").json["queries"][0]["hits"]
    assert len(found) == rows
    assert "line " in slimdex(*words).out
    slimdex.refuses(*words[:-1], "line")
    assert f"2 documents ({rows} passages) in x" in slimdex("add", "x", "long.jsonl").out
    off = slimdex("build", "long.jsonl", "--out", "off", "--passages", "off", "--json").json
    assert off["passages"] == {"tokens": None, "documents_cut": 0, "rows": 2}
    shorter = slimdex("build", "long.jsonl", "--out", "y", "--passages", "20", "--json").json
    assert shorter["passages"]["rows"] > rows
    for wrong in ("15", "33", "no"):
        slimdex.refuses("build", "long.jsonl", "--out", "z", "--passages", wrong)
        assert not Path("z").exists()


@pytest.mark.slow
def test_a_build_that_goes_on_is_cut_as_it_was_begun(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    write("long.jsonl", [{"id": str(i), "text": "the cat sat on a mat. " * 9} for i in range(5)])
    build = ("build", "long.jsonl", "--out", "x", "--json")
    slimdex(*build[:4], "--passages", "20")
    expected = slimdex("info", "x", "--json").json["passages"]
    shutil.rmtree("x")
    with monkeypatch.context() as patch:
        patch.setattr("slimdex.retrieval.ingest.preparing.FEW", 0)
        patch.setattr("slimdex.retrieval.ingest.writer.add_staged", interrupted)
        assert slimdex(*build, "--passages", "20").code == 130
    built = slimdex(*build)
    assert built.json["passages"] == expected
    assert "cut into passages of at most 20 tokens like the texts before, not by passages=auto" in (
        built.err
    )


def many(model: Path, *more: str) -> tuple[str, ...]:
    """A build of 4,500 short texts that differ, in letters that the tiny model knows."""
    letters = np.random.default_rng(0).choice(list("abcdefghij"), (4500, 2, 5))
    texts = [" the ".join(map("".join, words)) for words in letters]
    write("many.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)])
    return "build", "many.jsonl", "--out", "lib", "--model", str(model), "--max-length", "32", *more


def wait_for_vectors(process: subprocess.Popen[Any], count: int) -> None:
    while len([*Path("lib").glob("work-*/encoded-*.safetensors")]) < count // 1024:
        assert process.poll() is None, "it ended before that"
        time.sleep(0.002)


@pytest.mark.slow
def test_a_build_killed_at_any_moment_goes_on(slimdex: Runner, tiny_bert: Path) -> None:
    words = many(tiny_bert, "--passages", "off")
    process = subprocess.Popen([sys.executable, "-m", "slimdex", *words], stderr=subprocess.DEVNULL)
    wait_for_vectors(process, 2048)
    process.kill()
    process.wait()
    assert "its build is unfinished: run it again" in slimdex.refuses("search", "lib", "x")
    result = slimdex(*words, "--json")
    kept = int(result.err.split("resumed after ")[1].split()[0].replace(",", ""))
    assert kept >= 1024
    assert result.json["documents"] == result.json["added"] == 4500
    assert slimdex("verify", "lib").code == 0


@pytest.mark.slow
def test_a_build_that_is_stopped_says_how_to_go_on(slimdex: Runner, tiny_bert: Path) -> None:
    with subprocess.Popen(
        ctrl_c.slimdex(*many(tiny_bert, "--precision", "fp32")), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_vectors(process, 1024)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "error: stopped; run the same command again to continue"
    assert "Traceback" not in err


def test_a_build_killed_before_its_documents_were_in_starts_over(pets: Runner) -> None:
    encoder = TransformerEncoder(str(pets.model), max_length=32)
    Collection.create("cut", encoder, Settings(kind="flat")).close()
    facts = pets("build", "pets.jsonl", "--out", "cut", "--kind", "fp16", "--k", "2", "--json")
    assert facts.json["documents"] == 3
    assert facts.json["settings"]["kind"] == "fp16"


@pytest.mark.slow
def test_a_build_goes_on_in_the_precision_that_it_was_begun_in(pets: Runner) -> None:
    encoder = TransformerEncoder(str(pets.model), max_length=32, precision="int8")
    Collection.create("cut", encoder).close()
    built = pets("build", "pets.jsonl", "--out", "cut", "--precision", "fp32", "--json")
    assert "note: encoded in int8 like the documents before, not in fp32" in built.err
    assert pets("info", "cut", "--json").json["encoder"]["precision"] == "int8"
    assert pets("search", "cut", "a", "cat", "--json").code == 0


def test_a_build_that_failed_at_its_end_is_finished_without_encoding(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.ingest.preparing.FEW", 0)
    write("many.jsonl", [{"id": i, "text": f"cat {'dog ' * (i % 9)}"} for i in range(100)])
    words = ("build", "many.jsonl", "--out", "many")
    error = slimdex.refuses(*words, "--kind", "IVF256,PQ4")
    assert "The encoded texts are kept: build again, with other settings" in error
    monkeypatch.setattr(TransformerEncoder, "encode_measured", None)  # it would be an error
    built = slimdex(*words, "--kind", "IVF4,Flat", "--json")
    assert (built.json["documents"], built.json["settings"]["kind"]) == (100, "IVF4,Flat")
    assert "note: resumed after 100 texts encoded before" in built.err


@pytest.mark.slow
def test_a_full_disk_loses_nothing(slimdex: Runner, tiny_bert: Path) -> None:
    """On a file system of 3 MB, really full; then with room, the same command ends well."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": i, "text": f"the cat and the dog number {i} sat in the rain", "note": note}
        for i, note in enumerate(rng.bytes(1000).hex() for _ in range(1500))
    ]
    write("first.jsonl", rows[:50])
    write("all.jsonl", rows)
    assert slimdex("build", "first.jsonl", "--out", "index").code == 0
    script = f"""
        mkdir disk && mount -t tmpfs -o size=3m none disk || exit 99
        cp -r index disk/index
        {sys.executable} -m slimdex add disk/index all.jsonl 2> first.txt; echo $? > first
        {sys.executable} -m slimdex verify disk/index > verify.txt 2>&1; echo $? > verify
        mount -o remount,size=90m disk
        {sys.executable} -m slimdex add disk/index all.jsonl --json > second.txt; echo $? > code
        {sys.executable} -m slimdex verify disk/index >> verify.txt; echo $? >> verify
    """
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a small file system")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    error = Path("first.txt").read_text().splitlines()[-1]
    assert Path("first").read_text() == "2\n"
    assert error.startswith("error: the disk is full")
    assert "Traceback" not in Path("first.txt").read_text()
    assert Path("verify").read_text() == "0\n0\n", Path("verify.txt").read_text()
    assert Path("code").read_text() == "0\n"
    assert json.loads(Path("second.txt").read_text())["added"] == 1450
