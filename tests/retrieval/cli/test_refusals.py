"""Bad input: one line, exit code 2, and nothing changed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from slimdex.retrieval.locks import NAMES

from .running import Runner, write


def test_version(slimdex: Runner) -> None:
    assert slimdex("--version").out == f"slimdex {metadata.version('slimdex')}\n"


def test_help_needs_neither_torch_nor_faiss() -> None:
    code = (
        "import sys\nfrom slimdex.__main__ import main\nsys.argv = ['slimdex', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'faiss', 'duckdb', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Semantic search in a fraction of the memory" in done.stdout


@pytest.mark.parametrize("words", [["search"], ["nonsense"], ["build", "x"]])
def test_wrong_usage_exits_with_2(bare: Runner, words: list[str]) -> None:
    assert bare(*words).code == 2


def test_arguments_that_are_no_text(pets: Runner) -> None:
    assert "expected UTF-8" in pets.refuses("search", "pets", "\udcff")
    assert "an empty query; expected text" in pets.refuses("search", "pets", " ")
    assert len(pets("search", "pets", "cat", "-n", "3000000000", "--json").json["queries"]) == 1


BUILD = ("build", "pets.jsonl", "--out", "new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("build", "none.jsonl", "--out", "new"), "none.jsonl: no such file"),
        (
            ("build", "interrupted.csv", "--out", "new"),
            "interrupted.csv: no such file",
        ),  # no Ctrl-C
        ((*BUILD, "--encoding", "nonsense"), "encoding 'nonsense'; expected a name such as utf-8"),
        ((*BUILD, "--encoding", "hex"), "encoding 'hex'; expected a name such as utf-8"),
        ((*BUILD, "--format", "xml"), "pets.jsonl: ending '.xml'; expected .jsonl"),
        ((*BUILD, "--types", "size=BIGINT"), "no column 'size'; expected one of id, text, year"),
        ((*BUILD, "-", "-"), "-: standard input named twice"),
        ((*BUILD, "--workers", "2"), "--workers 2 without --ray; expected --ray local or an add"),
        ((*BUILD, "--ray", "local", "--workers", "0"), "workers=0; expected 1 or more"),
        ((*BUILD, "--vector-dtype", "int4"), "vector_dtype='int4'; expected fp16 or int8"),
        (("build", "empty.txt", "--out", "new"), "no documents; expected at least one"),
        ((*BUILD, "--text", "body"), "no column 'body' for the text; it has id, text, year, kind"),
        (("build", "broken.jsonl", "--out", "new"), "broken.jsonl, line 3: broken JSON"),
        (
            ("build", "twice.jsonl", "--out", "new"),
            "id '1' occurs twice, in twice.jsonl (its document 1) and twice.jsonl (its document 2)",
        ),
        (("build", "python:nosuchpackage", "--out", "new"), "'nosuchpackage' is not installed"),
        ((*BUILD, "--k", "33"), "k=33; expected 1 to the encoder's 32 dimensions"),
        ((*BUILD, "--k", "7"), "k=7 does not suit kind pq; expected a multiple of 4"),
        ((*BUILD, "--kind", "bogus"), "kind 'bogus'"),
        ((*BUILD, "--gamma", "nan"), "gamma=nan; expected 0 to 1"),
        ((*BUILD, "--gamma", "9"), "gamma=9.0; expected 0 to 1"),
        ((*BUILD, "--candidates", "-5"), "candidates=-5; expected 0"),
        ((*BUILD, "--reducer", "magic"), "reducer='magic'; expected one of"),
        ((*BUILD, "--pooling", "median"), "pooling 'median'; expected cls, mean, max"),
        ((*BUILD, "--model", "./none"), "model './none': no such folder"),
        ((*BUILD, "--model", "broken-model"), "broken-model': Unrecognized model"),
        ((*BUILD, "--max-length", "9999"), "max_length=9999; expected 3 to the model's 64"),
    ],
)
def test_a_build_that_is_refused_leaves_nothing(
    slimdex: Runner, words: tuple[str, ...], message: str
) -> None:
    Path("empty.txt").write_text("\n")
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
        (("build", "pets.jsonl", "--out", "pets"), "pets exists; expected a new folder"),
        (
            ("build", "pets.jsonl", "--out", "pets.jsonl"),
            "pets.jsonl exists and is no slimdex index",
        ),
        (("search", "none", "cat"), "none: no slimdex index there"),
        (("search", "folder", "cat"), "folder: no slimdex index there"),
        (("search", "foreign", "cat"), "not a slimdex catalog, or damaged"),
        (("search", "pets"), "search: no query; expected QUERY, --query, --queries or"),
        (("search", "pets", "cat", "--query", "dog"), "search: QUERY and --query; expected QUERY"),
        (("search", "pets", "--queries", "none.txt"), "none.txt: no such file"),
        (("search", "pets", "--queries", "empty.txt"), "empty.txt: no queries; expected at least"),
        (("add", "pets", "pets.jsonl", "--wait", "-1"), "wait=-1; expected 0 or more seconds"),
        (("repair", "pets", "--wait", "-1"), "wait=-1; expected 0 or more seconds"),
        (("serve", "pets", "--wait", "-1"), "wait=-1; expected 0 or more seconds"),
        (("tune", "pets", "--wait", "-1"), "wait=-1; expected 0 or more seconds"),
        (("search", "pets", "cat", "-n", "0"), "limit=0; expected 1 or more"),
        (("search", "pets", "cat", "--where", "nope = 1"), 'column "nope" not found'),
        (("search", "pets", "cat", "--where", "1=1) OR (1=1"), "expected a condition"),
        (("delete", "pets", "nope"), "unknown id 'nope'; expected the id of a document"),
        (("delete", "pets", "cat", "nope"), "unknown id 'nope'"),
        (("delete", "pets"), "expected either ids or a condition"),
        (("delete", "pets", "--where", "year >"), "expected a condition"),
        (("add", "pets", "none.csv"), "none.csv: no such file"),
        (("add", "pets", "wrong.jsonl"), "column 'year' holds BIGINT; the new values are VARCHAR"),
        (("reduce", "pets", "--k", "99"), "k=99; expected 1 to the encoder's 32"),
        (("reduce", "pets", "--kind", "bogus"), "kind 'bogus'"),
        (("reduce", "pets", "--gamma", "9"), "gamma=9.0; expected 0 to 1"),
        (("reduce", "pets", "--gamma", "-3"), "gamma=-3.0; expected 0 to 1"),
        (("reduce", "pets", "--beta", "1.5"), "beta=1.5; expected 0 to 1"),
        (("eval", "pets", "--queries", "none", "--qrels", "q"), "none: no such file"),
        (("eval", "pets", "--queries", "pets.jsonl", "--qrels", "q"), "q: can't be read"),
        (
            ("eval", "pets", "--queries", "pets.jsonl", "--qrels", "pets.jsonl"),
            "expected query, document",
        ),
    ],
)
def test_bad_input_changes_nothing(pets: Runner, words: tuple[str, ...], message: str) -> None:
    Path("folder").mkdir()
    Path("empty.txt").write_text("\n")
    Path("foreign").mkdir()
    Path("foreign/catalog.duckdb").write_bytes(b"junk" * 5000)
    write("wrong.jsonl", [{"id": "z", "text": "cat", "year": "many"}])
    before = contents(Path("pets"))
    assert message in pets.refuses(*words)
    after = contents(Path("pets"))
    assert before == after
    assert pets("verify", "pets").code == 0  # the catalog's documents are those of the other files
