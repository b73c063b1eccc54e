"""Bad input: one line, exit code 2, and nothing changed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from slimdex.system.index_names import MANIFEST
from slimdex.system.locks import NAMES

from .running import Runner, write


def test_version(bare: Runner) -> None:
    assert bare("--version").out == f"slimdex {metadata.version('slimdex')}\n"


@pytest.mark.parametrize("line", ["search", "nonsense", "build x"])
def test_wrong_usage_exits_with_2(bare: Runner, line: str) -> None:
    assert bare(line).code == 2


def test_invalid_text_is_refused(pets: Runner) -> None:
    for words in (
        ["caf\udce9"],
        ["cat", "--where", "kind = '\udced\udca0\udcbd'"],
        ["cat", "--columns", "\udcff"],
    ):
        assert "is not Unicode: half a character at" in pets.refuses("search pets", *words)
    pets.refuses("search pets", " ")
    assert len(pets("search pets cat -n 3000000000 --json").json["queries"]) == 1


REFUSED = {
    "build pets.jsonl --out new --model ''": "model ''",
    "build pets.jsonl --out new --model weights.gguf": "expected word vectors",
    "build names.csv --out new": "names.csv: no rows",
    "build none.jsonl --out new": "none.jsonl: no such file",
    "build pets.jsonl --out new --encoding hex": "encoding 'hex'",
    "build pets.jsonl --out new --format po": "ending '.po'",
    "build pets.jsonl --out new --workers 2": "--workers 2 without --ray",
    "build pets.jsonl --out new --vector-dtype int2": "vector_dtype='int2'",
    "build pets.jsonl --out new --text body": "no column 'body'",
    "build broken.jsonl --out new": "broken.jsonl, line 3: ",
    "build twice.jsonl --out new": "id '1' occurs twice",
    "build pets.jsonl --out new --kind bogus": "kind='bogus'",
    "build pets.jsonl --out new --gamma nan": "gamma=nan",
    "build pets.jsonl --out new --pooling median": "pooling='median'",
    "build pets.jsonl --out new --model broken-model": "broken-model",
    "build pets.jsonl --out new --passages no": "passages='no'",
    "build pets.jsonl --out pets": "pets exists",
    "build pets.jsonl --out pets.jsonl": "is no slimdex index",
    "build --sql 'SELECT 7 AS' --out new": "sql",
    "build names.csv --text a --text b --out new": "--text was given twice",
    "search pets cat --where 'year > 1' --where true": "--where was given twice",
    "search folder cat": "folder: no files to read",
    "search foreign cat": "slimdex.manifest: damaged; expected",
    "search pets cat -n 0": "limit=0",
    "search pets cat --where '1=1) OR (1=1'": "expected a condition",
    "search pets cat --show year,size": "show='size'",
    "search pets cat --min-score nan": "min_score=nan",
    "search pets cat --hybrid on": "hybrid='on'",
    "search pets cat --regex (": "missing )",
    "search pets cat --glob *.py": "path",
    "open pets none --related 3": "'none'",
    "open pets none": "unknown id 'none'; expected the id of a document",
    "add pets pets.jsonl --wait -1": "wait=-1",
    "sync pets pets.jsonl --refit soon": "refit='soon'",
    "delete pets cat nope": "unknown id 'nope'",
    "delete pets": "expected either ids or a condition",
    "reduce pets --k 99": "k=99",
    "eval pets --queries pets.jsonl": "has a label among 0",
    "eval pets --queries pets.jsonl --qrels pets.jsonl": "expected query",
    "export pets --to slimdex --out folder": "folder exists; expected a new folder",
    "models --distill words.txt": "expected both --distill and --out",
    "reduce pets --lexical no": "lexical='no'",
    "serve --root folder": "no index given",
    "mcp pets --sync gone": "--sync gone: no such file or folder",
    "mcp pets b=pets --sync folder": "expected NAME=SOURCE, NAME one of pets, b",
    "mcp pets --write --shared-filesystem --sync gone": "gone",
    "mcp pets --install curser": "'curser'",
    "mcp pets --install vscode --http": "--install",
    "mcp pets --install vscode --shared-filesystem": "--install",
    "mcp pets --install vscode --sync gone": "gone",
    "mcp gone --install vscode": "gone: no slimdex index there",
    "mcp pets --uninstall vscode": "mcp.json",
}


def contents() -> dict[Path, bytes]:
    """All files but the catalog, which DuckDB touches when it is opened."""
    files = [path for path in Path().rglob("*") if path.is_file() and path.suffix != ".duckdb"]
    return {path: path.read_bytes() for path in files if path.name not in NAMES}


@pytest.mark.parametrize("line", REFUSED)
def test_bad_input_changes_nothing(pets: Runner, line: str) -> None:
    for folder in ("folder", "foreign", "broken-model"):
        Path(folder).mkdir()
    Path("weights.gguf").write_bytes(b"GGUF\x03\x00")
    Path("names.csv").write_text("a,b\n")
    Path("empty.txt").write_text("\n")
    Path("foreign", MANIFEST).write_bytes(b"junk" * 5000)
    Path("broken-model/model.safetensors").write_text("junk")
    Path("broken.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": \n')
    write("twice.jsonl", [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}])
    before = contents()
    assert REFUSED[line] in pets.refuses(line)
    assert contents() == before
    assert not Path("new").exists()
    assert pets("verify pets").code == 0  # the catalog's documents are those of the other files
