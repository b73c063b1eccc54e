"""Answers of the commands, as JSON and as text, over one prepared index.

The library's tests check the answers; these check that the command line passes its options and
prints the result.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chance import CHANCE, sweep

from .running import Runner, write

FILES = {
    "more.jsonl": '{"id": "cat", "text": "the rain", "year": 9}\n{"id": "x", "text": "a dog"}\n',
    "grown.jsonl": "".join(f'{{"id": {i}, "text": "rain and the dog"}}\n' for i in range(40)),
    "code.jsonl": '{"id": "x", "text": "if a:\\n\\tb\\t\\u001b[2J"}\n',
    "lines.txt": "the dog\nthe rain\n",
    "asked.jsonl": '{"_id": "q1", "text": "rain fell on the roof"}\n{"_id": "2", "text": "cat"}\n',
    "asked.txt": "the dog chased the cat\n\nrain\n",
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\train\t1\n",
    "own.jsonl": '{"id": "cat", "text": "the cat sat on the mat"}\n',
    "own.tsv": "cat\tdog\t1\n",
    "papers/a.md": "the cat",
    "papers/empty.md": "",
    "papers/letter.rtf": r"{\rtf1 rain}",
    "papers/made.lock": "the dog",
    "secret.md": "the dog",
}
TWINS = [
    {"id": "cat", "text": "the cat sat on the mat"},
    {"id": "rain", "text": "rain fell on the roof"},
    {"id": "twin", "text": "the cat sat on the mat"},
    {"id": "\x1b[2J", "text": "rain fell on the roof"},
]
CAT = {"id": "cat", "text": "the cat sat on the mat", "metadata": {"year": 2001, "kind": "pet"}}
LABELS = "--queries asked.jsonl --qrels qrels.tsv"
BUILT = "build grown.jsonl --out new --kind flat --k 2 --gamma 0"
TAKES = "bytes a vector in RAM (float32: 128)"


@pytest.fixture
def beside(pets: Runner) -> Runner:
    """`slimdex` beside the index of the pets, an index of twins, and files."""
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    Path("letters.data").write_text("nr;heading;body;zip\n7;Café;rain;01234\n", "latin-1")
    Path("papers/link.md").symlink_to("../secret.md")
    write("twins.jsonl", TWINS)
    return pets


def last(run: Runner, lines: str, *more: str) -> Any:
    """The result of the last of several commands."""
    *before, line = lines.split("; ")
    for each in before:
        assert run(each).code == 0, each
    return run(line, *more)


def hits(*ids: str) -> dict[str, Any]:
    return {"queries": [{"hits": [{"id": id} for id in ids]}]}


JSON: dict[str, dict[str, Any]] = {
    "build pets.jsonl --out new": {"documents": 3, "added": 3, "settings": {"kind": "flat"}},
    "build pets.jsonl --out new --k 32": {"settings": {"k": 3}, "requested": {"k": 32}},
    "build pets.jsonl lines.txt --out new": {"documents": 5},
    "build pets.jsonl --out new --no-lexical": {"lexical": None},
    "build pets.jsonl --out new --vector-dtype int8": {"stored": {"vectors": "int8"}},
    "build papers --out new; open new papers/a.md": {"id": "a.md", "text": "the cat"},
    "add pets more.jsonl": {"documents": 4, "added": 2, "replaced": 1, "unchanged": 0},
    "add pets grown.jsonl --refit always": {"documents": 43, "fitted_rows": 43},
    f"{BUILT}; sync new more.jsonl --refit never": {"added": 2, "refitted": False},
    f"{BUILT}; sync new more.jsonl --refit always": {"added": 2, "refitted": True},
    "delete pets cat dog": {"deleted": 2, "documents": 1},
    "delete pets --where 'year = 2003'": {"deleted": 1, "documents": 2},
    "delete pets cat dog; undo pets": {"restored": 2, "removed": 0, "documents": 3},
    "delete pets cat dog; compact pets": {"freed": 2, "documents": 1},
    "reduce pets --kind sq8 --k 2; reduce pets --reducer pca --candidates 0": {
        "settings": {"kind": "sq8", "k": 2, "reducer": "pca", "candidates": 0}
    },
    "reduce pets --lexical off": {"documents": 3, "lexical": None},
    "build twins.jsonl --out i; dedup i --min-score 1": {"duplicates": 2, "deleted": 0},
    "build twins.jsonl --out i; dedup i --delete": {"deleted": 2, "documents": 2},
    "search pets --query rain --query 'the cat sat on the mat' -n 1": {
        "queries": [
            {"query": "rain", "hits": [{"id": "rain"}]},
            {
                "query": "the cat sat on the mat",
                "hits": [CAT | {"similarity": pytest.approx(1, abs=1e-3)}],
            },
        ]
    },
    "search pets --queries asked.jsonl -n 1": {
        "queries": [
            {"id": "q1", "query": "rain fell on the roof", "hits": [{"id": "rain"}]},
            {"id": "2", "query": "cat", "hits": [{"id": "cat"}]},
        ]
    },
    "search pets --queries asked.txt -n 1": {
        "queries": [
            {"id": "asked.txt:1", "hits": [{"id": "dog"}]},
            {"id": "asked.txt:3", "hits": [{"id": "rain"}]},
        ]
    },
    "search pets the cat --where \"year > 2001 AND kind = 'pet'\"": hits("dog"),
    "search pets rain fell on the roof --min-score 0.99 --hybrid off": hits("rain"),
    "search pets rain --candidates 0 --group-by passage -n 1": hits("rain"),
    "search pets chased --hybrid 1 -n 1": hits("dog"),
    "search pets chased --hybrid rrf -n 1": hits("dog"),
    "open pets cat --related 9 --where 'year = 2003'": {"hits": [{"id": "rain"}]},
    "open pets cat": CAT | {"parts": [], "passages": []},
    "info pets": {
        "documents": 3,
        "dimensions": 32,
        "columns": {"year": "BIGINT", "kind": "VARCHAR"},
        "memory": {"ram_bytes_per_vector": 12},
        "files": {"vectors-000001.f16": 3 * 32 * 2},
        "stored": {"vectors": "fp16", "bytes_per_vector": 64},
    },
    f"eval pets {LABELS}": {
        "queries": 1,
        "index": {"recall@10": 1, "encoder_agreement@10": 1},
        "exact": {"ndcg@10": 1, "ram_bytes_per_vector": 128},
    },
    "eval pets --queries own.jsonl --qrels own.tsv": {
        "exact": {"ndcg@10": pytest.approx(0.6309, abs=1e-4)}
    },
    "eval pets --queries own.jsonl --qrels own.tsv --drop-self": {"exact": {"ndcg@10": 1}},
    "info pets --health": {"documents": 3, "health": {"rows_since_fit": 0, "certified": None}},
    "verify pets": {"faults": []},
    "repair pets": {"mended": []},
    "export pets --to slimdex --out new; info new": {"documents": 3},
    "export pets --to parquet --out new --where 'year > 2001'": {"dim": 32, "rows": 2, "notes": []},
}


def picked(found: Any, like: Any) -> Any:
    """Reduce a JSON value to the keys of another."""
    if isinstance(like, dict):
        return {name: picked(found[name], value) for name, value in like.items()}
    if isinstance(like, list) and len(like) == len(found):
        return [picked(*pair) for pair in zip(found, like, strict=True)]
    return found


@pytest.mark.parametrize("lines", JSON)
def test_json(beside: Runner, lines: str) -> None:
    result = last(beside, lines, "--json")
    assert result.code == 0, result.err
    assert picked(result.json, JSON[lines]) == JSON[lines]


SAID = {
    "build pets.jsonl --out new": (
        f"3 documents in new: 12 {TAKES}\nSearch them:\n  slimdex search new 'your question'\n",
        "",
    ),
    "sync pets more.jsonl": (
        "1 added, 1 changed, 0 deleted, 2 unchanged; 2 texts encoded\n",
        "",
    ),
    "delete pets cat dog": ("2 deleted, 1 left\n", ""),
    "build twins.jsonl --out i; dedup i --min-score 1": (
        "cat\n  the cat sat on the mat\n  1.0000  twin\n          the cat sat on the mat\n"
        "rain\n  rain fell on the roof\n  1.0000  \\x1b[2J\n          rain fell on the roof\n"
        "2 near-duplicates, 4 documents\n",
        "",
    ),
    "search pets the 'cat sat' 'on the mat' -n 1 --hybrid off": (
        "the cat sat on the mat\n 1.000  cat\n        the cat sat on the mat\n",
        "",
    ),
    "search pets rain fell on the roof -n 1 --show YEAR,kind --hybrid off": (
        "rain fell on the roof\n"
        " 1.000  rain\n"
        "        year: 2003  kind: -\n"
        "        rain fell on the roof\n",
        "",
    ),
    "search pets rain --min-score 1": ("rain\n  nothing found\n", ""),
    "add pets code.jsonl; open pets x": (
        "x\nid        x\npassages  1\n\nif a:\n\tb\t\\x1b[2J\n",
        "",
    ),
    "export pets --to slimdex --out new": ("new: pets at version 5, verified\n", ""),
    "export pets --to csv --out new --vectors reduced": (
        "3 documents with reduced vectors of 3 dimensions in new\n",
        "",
    ),
}


@pytest.mark.parametrize("lines", SAID)
def test_lines(beside: Runner, lines: str) -> None:
    code, out, err = last(beside, lines)
    expected, note = SAID[lines]
    assert (code, out, err[: len(note) or None]) == (0, expected, note)


def test_lines_with_measured_numbers(beside: Runner) -> None:
    assert last(beside, "reduce pets --lexical off; reduce pets --lexical on").code == 0
    assert beside("info pets --json").json["lexical"]["disk_bytes_per_vector"] > 0
    related = beside("open pets cat --related 1").out
    assert re.fullmatch(r"cat\n 0\.\d{3}  dog\n +the dog chased the cat\n", related)
    table = beside(f"eval pets {LABELS}").out
    assert re.search(r"default +index +exact *\n *ndcg@10( +1){3}", table)
    shown = beside("eval pets").out
    assert "agreement@10 with exact search" in shown


SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "letters.data --id nr --title heading --text body --types zip=VARCHAR --encoding latin-1 "
    "--format csv": ("7", {"title": "Café", "text": "rain", "metadata": {"zip": "01234"}}),
    "papers --follow-links": ("link.md", {"text": "the dog"}),
    "papers --generated": ("made.lock", {"text": "the dog"}),
    "papers --exclude *.lock --exclude !made.lock --generated": ("made.lock", {"text": "the dog"}),
    "--sql \"SELECT 7 AS id, 'rain' AS text, '\\xFF\\x00a'::BLOB AS b\"": (
        "7",
        {"text": "rain", "metadata": {"b": "/wBh"}},
    ),
}


@sweep
@pytest.mark.parametrize("command", ["build {} --out new", "add pets {}", "sync pets {}"])
def test_sources_and_their_options(beside: Runner, command: str) -> None:
    index = "new" if "new" in command else "pets"
    for source, (id, expected) in CHANCE.sample([*SOURCES.items()], 3):
        done = beside(command.format(source))
        assert done.code == 0, done.err
        assert picked(beside("open", index, id, "--json").json, expected) == expected
        beside("delete", index, id)
        if index == "new":
            shutil.rmtree("new")
    done = beside(command.format("papers --json"))
    assert {each["path"]: each["note"] for each in done.json["file_notes"]} == {
        "papers/letter.rtf": "left out, unsupported",
        "papers/empty.md": "left out, empty",
        "papers/link.md": "left out, links out of the folder (follow_links=True follows them)",
        "papers/made.lock": "left out, generated (generated=True reads them)",
    }
    hint = "papers: left out, links out of the folder (--follow-links follows them): link.md\n"
    assert hint in done.err
    assert "papers: left out, generated (--generated reads them): made.lock\n" in done.err


@pytest.mark.parametrize("exclude", ["--exclude ''", "--exclude a --exclude ' '"])
def test_patterns_of_files_to_leave_out_are_checked(beside: Runner, exclude: str) -> None:
    assert "expected a list of patterns" in beside.refuses(f"build papers --out new {exclude}")
    table = "letters.data --format csv --encoding latin-1"
    refused = beside.refuses(f"build {table} --out new --exclude '*.md'")
    assert "exclude='*.md': expected a folder among the sources" in refused


def test_json_lists_every_file_that_is_left_out(beside: Runner) -> None:
    for number in range(11):
        Path(f"papers/{number:02}.rtf").write_text(r"{\rtf1 rain}")
    done = beside("add pets papers --json")
    assert "and 2 more\n" in done.err
    assert len(done.json["file_notes"]) == 15
