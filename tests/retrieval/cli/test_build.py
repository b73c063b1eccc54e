"""`slimdex build`: passages, and how it goes on after an interruption."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.codes.kinds import KINDS, Kind
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from slimdex.retrieval.ingest import adding, encode

from .running import Runner, write


def test_passages(bert: Runner) -> None:
    text = "".join(f"the cat {word}.\n" for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn") * 2)
    write("long.jsonl", [{"id": "a", "text": text, "year": 3}, {"id": "b", "text": "dog"}])
    built = bert("build long.jsonl --out x --json")
    rows = built.json["passages"]["rows"]
    assert built.json["passages"] == {"tokens": 32, "documents_cut": 1, "rows": rows}
    assert built.json["documents"] == 2
    assert f"note: 1 of 2 documents cut into {rows - 1} passages\n" in built.err
    hit = next(hit for hit in bert.found("x cat ij") if hit["id"] == "a")
    assert hit["text"] == text[hit["start"] : hit["end"]]
    assert len(bert.found("x cat ij --group-by passage -n 99")) == rows
    assert "line 11\n" in bert("search x cat ij --group-by passage").out
    assert f"2 documents ({rows} passages) in x" in bert("add x long.jsonl").out
    whole = bert("open x a --json").json
    assert (whole["text"], whole["metadata"]) == (text, {"year": 3})
    assert len(whole["passages"]) == rows - 1
    shown = bert("open x a").out
    assert shown.startswith(f"a\nid        a\nyear      3\npassages  {rows - 1}\n\nthe cat ab.")
    for given, tokens in (("off", None), ("20", 20)):
        other = bert("build long.jsonl --passages", given, "--out", given, "--json").json
        assert other["passages"]["tokens"] == tokens
    for wrong in ("15", "33"):
        bert.refuses("build long.jsonl --out z --passages", wrong)


@pytest.mark.parametrize("out", [(), ("--out", "it's new")])
def test_what_a_build_says_to_type_next_finds(slimdex: Runner, out: tuple[str, ...]) -> None:
    built = slimdex("build pets.jsonl", *out).out
    program, *searched = shlex.split(built.splitlines()[-1])
    assert (program, slimdex(shlex.join(searched)).code) == ("slimdex", 0)


def test_a_file_that_can_not_be_read_shows_in_the_exit_code(slimdex: Runner) -> None:
    Path("notes").mkdir()
    Path("notes", "a.md").write_text("the cat")
    Path("notes", "b.ipynb").write_text("{")
    built = slimdex("build notes --out x")
    assert (built.code, "1 document in x, 1 unread" in built.out) == (1, True)
    for command in ("add x notes", "sync x"):
        done = slimdex(command, "--json")
        assert (done.code, [note["path"] for note in done.json["file_notes"]]) == (
            1,
            ["notes/b.ipynb"],
        )
    Path("notes", "b.ipynb").unlink()
    assert slimdex("sync x").code == 0


def interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_build_goes_on_as_it_was_begun(bert: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same passages, and in the same precision."""
    write("long.jsonl", [{"id": str(i), "text": "the cat sat on a mat. " * 9} for i in range(5)])
    begun = "--passages 20 --precision int8 --json"
    expected = bert(f"build long.jsonl --out whole {begun}").json
    with monkeypatch.context() as patch:
        patch.setattr(adding, "MOST_ENCODED_FIRST", -1)
        patch.setattr(encode, "FIRST_CHARACTERS", 1)
        patch.setattr(encode, "finish_fit", interrupted)  # after the first vectors
        stopped = bert(f"build long.jsonl --out x {begun}")
    assert stopped.code == 130
    assert "error: stopped; run the same command again to continue\n" in stopped.err
    built = bert("build long.jsonl --out x --precision fp32 --json")
    assert built.json["passages"] == expected["passages"]
    assert built.json["encoder"]["precision"] == "int8"
    assert "cut into passages of at most 20 tokens like the texts before, not by passages=auto" in (
        built.err
    )
    assert "note: encoded in int8 like the documents before, not in fp32" in built.err


def test_a_build_killed_before_its_documents_were_in_starts_over(
    slimdex: Runner, words: Path
) -> None:
    Collection.create("cut", StaticEncoder(words), Settings(kind="flat")).close()
    facts = slimdex("build pets.jsonl --out cut --kind fp16 --k 2 --json").json
    assert (facts["documents"], facts["settings"]["kind"]) == (3, "fp16")


def test_a_build_that_failed_at_its_end_is_finished_without_encoding(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents are in, and another fit of all ends it."""
    monkeypatch.setattr(adding, "MOST_ENCODED_FIRST", -1)
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(encode, "LEAST_ROWS", 40)
    write("many.jsonl", [{"id": i, "text": f"cat {'dog ' * (i % 9)}"} for i in range(100)])
    lists = Kind("lists", lambda k, n: "IVF256,Flat")  # FAISS refuses fewer rows than lists
    monkeypatch.setitem(KINDS, "lists", lists)
    error = slimdex.refuses("build many.jsonl --out many --kind lists")
    assert "fitted to the first 40 documents" in error
    assert "fitted to the first 40 documents" in slimdex("info many").err
    assert slimdex("search many cat --json").json["queries"][0]["hits"]
    built = slimdex("build many.jsonl --out many --kind sq8 --json")
    assert (built.json["documents"], built.json["settings"]["kind"]) == (100, "sq8")
    assert built.json["unchanged"] == 100
    assert "note: resumed after 100 documents" in built.err
    assert "stopped" not in slimdex("search many cat").err


@pytest.mark.slow
def test_a_full_disk_loses_nothing(slimdex: Runner) -> None:
    """On a file system of 3 MB, really full; then with room, the same command ends well."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": i, "text": f"the cat and the dog number {i} sat in the rain", "note": note}
        for i, note in enumerate(rng.bytes(1000).hex() for _ in range(1500))
    ]
    write("first.jsonl", rows[:50])
    write("all.jsonl", rows)
    assert slimdex("build first.jsonl --out index").code == 0
    script = f"""
        mkdir disk && mount -t tmpfs -o size=3m none disk || exit 99
        cp -r index disk/index
        {sys.executable} -m slimdex add disk/index all.jsonl 2> first.txt; echo $? > codes
        mount -o remount,size=90m disk
        {sys.executable} -m slimdex add disk/index all.jsonl --json > second.txt; echo $? >> codes
        {sys.executable} -m slimdex verify disk/index > verify.txt 2>&1; echo $? >> codes
    """
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to make a small file system")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    said = Path("first.txt").read_text()
    assert Path("codes").read_text() == "2\n0\n0\n", said + Path("verify.txt").read_text()
    assert said.splitlines()[-1].startswith("error: the disk is full")
    assert "Traceback" not in said
    assert json.loads(Path("second.txt").read_text())["added"] == 1450


def test_a_table_without_rows_is_noted_among_others(slimdex: Runner) -> None:
    Path("names.csv").write_text("a,b\n")
    built = slimdex("build names.csv pets.jsonl --out new --json")
    assert built.json["documents"] == 3
    assert "names.csv: no rows\n" in built.err
    Path("pets.jsonl").write_text("")  # its documents are gone
    assert slimdex("sync new --json").json["deleted"] == 3
