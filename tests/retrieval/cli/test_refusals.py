"""Bad input: one line, exit code 2, and nothing changed."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from slimdex.retrieval.atomic_files import MANIFEST
from slimdex.retrieval.locks import NAMES

from .running import Runner, write


def test_version(slimdex: Runner) -> None:
    assert slimdex("--version").out == f"slimdex {metadata.version('slimdex')}\n"


@pytest.mark.parametrize("words", [["search"], ["nonsense"], ["build", "x"]])
def test_wrong_usage_exits_with_2(bare: Runner, words: list[str]) -> None:
    assert bare(*words).code == 2


def test_invalid_text_is_refused(pets: Runner) -> None:
    for words in (
        ["caf\udce9"],
        ["cat", "--where", "kind = '\udced\udca0\udcbd'"],
        ["cat", "--columns", "\udcff"],
    ):
        assert "is not Unicode: half a character at" in pets.refuses("search", "pets", *words)
    pets.refuses("search", "pets", " ")
    assert len(pets("search", "pets", "cat", "-n", "3000000000", "--json").json["queries"]) == 1


BUILD = ("build", "pets.jsonl", "--out", "new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "none.jsonl", "--out", "new"), "none.jsonl: no such file"),
        (("build", "interrupted.csv", "--out", "new"), "no such file"),  # no Ctrl-C
        ((*BUILD, "--encoding", "hex"), "encoding 'hex'"),
        ((*BUILD, "--format", "po"), "ending '.po'"),
        ((*BUILD, "--types", "size=BIGINT"), "no column 'size'"),
        ((*BUILD, "-", "-"), "named twice"),
        ((*BUILD, "--workers", "2"), "--workers 2 without --ray"),
        ((*BUILD, "--ray", "local", "--workers", "0"), "workers=0"),
        ((*BUILD, "--vector-dtype", "int4"), "vector_dtype='int4'"),
        ((*BUILD, "--text", "body"), "no column 'body'"),
        (("build", "broken.jsonl", "--out", "new"), "broken.jsonl, line 3: broken JSON"),
        (("build", "twice.jsonl", "--out", "new"), "id '1' occurs twice"),
        ((*BUILD, "--k", "33"), "k=33"),
        ((*BUILD, "--kind", "bogus"), "kind='bogus'"),
        ((*BUILD, "--gamma", "nan"), "gamma=nan"),
        ((*BUILD, "--pooling", "median"), "pooling 'median'"),
        ((*BUILD, "--model", "broken-model"), "Unrecognized model"),
        ((*BUILD, "--max-length", "9999"), "max_length=9999"),
    ],
)
def test_a_build_that_is_refused_leaves_nothing(
    slimdex: Runner, words: tuple[str, ...], message: str
) -> None:
    write("twice.jsonl", [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}])
    Path("broken.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": \n')
    Path("broken-model").mkdir()
    Path("broken-model/model.safetensors").write_text("junk")
    before = sorted(os.listdir())
    assert message in slimdex.refuses(*words)
    assert sorted(os.listdir()) == before


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but the catalog, which DuckDB touches when it is opened."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".duckdb"]
    return {path: path.read_bytes() for path in files if path.name not in NAMES}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "pets.jsonl", "--out", "pets"), "pets exists"),
        (("build", "pets.jsonl", "--out", "pets.jsonl"), "is no slimdex index"),
        (("search", "folder", "cat"), "folder: no slimdex index there"),
        (("search", "foreign", "cat"), "slimdex.manifest: damaged; expected"),
        (("search", "pets"), "no query"),
        (("search", "pets", "cat", "--query", "dog"), "QUERY and --query"),
        (("search", "pets", "--queries", "none.txt"), "none.txt: no such file"),
        (("search", "pets", "--queries", "empty.txt"), "empty.txt: no queries"),
        (("add", "pets", "pets.jsonl", "--wait", "-1"), "wait=-1"),
        (("repair", "pets", "--wait", "-1"), "wait=-1"),
        (("serve", "pets", "--wait", "-1"), "wait=-1"),
        (("tune", "pets", "--wait", "-1"), "wait=-1"),
        (("search", "pets", "cat", "-n", "0"), "limit=0"),
        (("search", "pets", "cat", "--where", "1=1) OR (1=1"), "expected a condition"),
        (("delete", "pets", "cat", "nope"), "unknown id 'nope'"),
        (("delete", "pets"), "expected either ids or a condition"),
        (("add", "pets", "wrong.jsonl"), "column 'year' holds BIGINT"),
        (("reduce", "pets", "--k", "99"), "k=99"),
        (("reduce", "pets", "--gamma", "9"), "gamma=9.0"),
        (("reduce", "pets", "--beta", "1.5"), "beta=1.5"),
        (("eval", "pets", "--queries", "none", "--qrels", "q"), "none: no such file"),
        (("eval", "pets", "--queries", "pets.jsonl", "--qrels", "pets.jsonl"), "expected query"),
    ],
)
def test_bad_input_changes_nothing(pets: Runner, words: tuple[str, ...], message: str) -> None:
    Path("folder").mkdir()
    Path("empty.txt").write_text("\n")
    Path("foreign").mkdir()
    Path("foreign", MANIFEST).write_bytes(b"junk" * 5000)
    write("wrong.jsonl", [{"id": "z", "text": "cat", "year": "many"}])
    before = contents(Path("pets"))
    assert message in pets.refuses(*words)
    after = contents(Path("pets"))
    assert before == after
    assert pets("verify", "pets").code == 0  # the catalog's documents are those of the other files
