"""`slimdex search` as a whole, and what it adds: patterns, notes and cross-encoders."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.search.reranking import CrossEncoder
from tests.encoders import make_tiny_bert

from .running import PETS, Runner


def test_from_documents_to_answers_with_the_default_encoder(slimdex: Runner) -> None:
    """Meaning finds what shares no word with the question."""
    slimdex.encoder = ()
    assert slimdex("build pets.jsonl --out pets --json").json["dimensions"] == 384
    asked = "--query 'a kitten lay upon a rug' --query 'bad weather over a house'"
    found = slimdex(f"search pets {asked} --json").json["queries"]
    assert [query["hits"][0]["id"] for query in found] == ["cat", "rain"]


def test_meaning_ranks_what_patterns_leave(slimdex: Runner) -> None:
    files = {
        "code/valve.c": "int shut(void) { return 0; }",
        "code/deep/valve.py": "import os\n\ndef shut():\n    return 'shut the valve'\n",
        "code/deep/test_valve.py": "def test_shut():\n    pass\n\nclass Rain: pass\n",
        "code/it's.md": "Shut the rain.\n\nThen import the def.",
        "code/[it].txt": "Shut.",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    assert slimdex("build code --out x").code == 0

    def found(*options: str) -> set[str]:
        return {hit["id"] for hit in slimdex.found("x shut the valve", *options)}

    everything = {name.removeprefix("code/") for name in files}
    assert found() == everything
    for glob, names in {
        "*.py": {"deep/valve.py", "deep/test_valve.py"},
        "valve.*": {"valve.c", "deep/valve.py"},
        "deep/*": {"deep/valve.py", "deep/test_valve.py"},
        "test_[a-w]*.py": {"deep/test_valve.py"},
        "deep": {"deep/valve.py", "deep/test_valve.py"},
        "deep/": {"deep/valve.py", "deep/test_valve.py"},
        "code/deep": {"deep/valve.py", "deep/test_valve.py"},
        "eep": set(),
        "*.{c,md}": {"valve.c", "it's.md"},
        "./deep/*.PY": {"deep/valve.py", "deep/test_valve.py"},
        "code/**/valve.{c,py}": {"valve.c", "deep/valve.py"},
        "**/deep/valve.*": {"deep/valve.py"},
        "deep/[!t]*.py": {"deep/valve.py"},
        "code/[it].*": {"[it].txt"},
        "valve": set(),
    }.items():
        assert found("--glob", glob) == names, glob
    assert found("--glob", "*.c", "--glob", "*.md") == {"valve.c", "it's.md"}
    for regex, names in {
        r"^def \w+\(": {"deep/valve.py", "deep/test_valve.py"},
        r"^class|^int": {"valve.c", "deep/test_valve.py"},
        "(?i)shut": everything,
        "'shut": {"deep/valve.py"},
    }.items():
        assert found("--regex", regex) == names, regex
    both = ("--glob", "*.py", "--regex", "^import", "--where")
    assert found(*both, "folder = 'deep' OR true") == {"deep/valve.py"}
    assert found(*both, "folder = '' -- no file") == set()


def test_the_line_shown_is_that_of_the_file(slimdex: Runner) -> None:
    """Of the excerpt, not of the passage in which it is."""
    Path("notes").mkdir()
    front_matter = ["---", "title: House", "tags: [seed]", "---", "", "# House", ""]
    filler = ["A cat sat on the mat", "all day.", ""] * 60
    wanted = ["The boiler has", "its valve here.", ""]
    file = [*front_matter, *filler, *wanted, *filler]
    Path("notes/house.md").write_text("\n".join(file))
    assert slimdex("build notes --out x").code == 0
    first = file.index(wanted[0]) + 1
    shown = slimdex("search x the boiler has its valve here").out
    found = re.search(r"line (\d+)", shown)
    assert found is not None
    assert int(found[1]) <= first < int(found[1]) + 15
    (hit,) = slimdex.found("x the boiler has its valve here")
    lines = file[hit["line"] - 1 : hit["last_line"]]
    assert " ".join(lines).removeprefix("# ").split() == hit["text"].split()


@pytest.mark.slow
def test_a_cross_encoder_reorders_hits(pets: Runner, tmp_path: Path) -> None:
    model = str(make_tiny_bert(tmp_path / "cross", labels=1))
    hits = pets.found(f"pets cat --rerank {model} -n 2")
    texts = [str(pet["text"]) for pet in PETS]
    scores = CrossEncoder(model).scores("cat", texts)
    assert [hit["id"] for hit in hits] == [PETS[i]["id"] for i in np.argsort(-scores)[:2]]
    best = sorted(scores, reverse=True)[:2]
    assert [hit["score"] for hit in hits] == pytest.approx(best, abs=1e-6)
    (first,) = pets.found(f"pets cat --rerank {model} --rerank-depth 1 -n 1")
    assert first["id"] == pets.found("pets cat -n 1")[0]["id"]
    wrong = pets.refuses("search pets cat --rerank nowhere")  # one line: no retries
    assert wrong.startswith("error: cross-encoder nowhere: none found (")
    pets.refuses(f"search pets cat --rerank {model} --rerank-depth 0")
