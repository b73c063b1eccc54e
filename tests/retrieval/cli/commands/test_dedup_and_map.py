"""Near-duplicates listed and deleted, and a map written, by commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ..running import PETS, Runner, write

TWINS: list[dict[str, Any]] = [
    *PETS,
    {"id": "twin", "text": "the cat sat on the mat", "year": 2004, "kind": "pet"},
    {"id": "\x1b[2J", "text": "rain fell on the roof", "year": 2005, "kind": None},
]


@pytest.fixture
def twins(slimdex: Runner) -> Runner:
    write("twins.jsonl", TWINS)
    assert slimdex("build", "twins.jsonl", "--out", "i").code == 0
    return slimdex


def test_groups_are_listed_and_deleted(twins: Runner) -> None:
    words = ("dedup", "i", "--min-score", "1")
    groups = [
        {"kept": "cat", "others": [{"id": "twin", "score": 1.0}]},
        {"kept": "rain", "others": [{"id": "\x1b[2J", "score": 1.0}]},
    ]
    found = twins(*words, "--json").json
    assert found == {"groups": groups, "duplicates": 2, "deleted": 0, "documents": 5}
    code, out, err = twins(*words)
    assert (code, out.splitlines()) == (
        0,
        [
            "cat",
            "  1.0000  twin",
            "rain",
            "  1.0000  \\x1b[2J",
            "2 near-duplicates of 2 documents",
        ],
    )
    code, out, err = twins(*words, "--delete", "--wait", "5", "--shared-filesystem")
    assert code == 0
    assert err == "note: deleting 2 of 5 documents\n"
    assert out.splitlines()[-1] == "2 near-duplicates of 2 documents: 2 deleted, 3 left"
    assert twins(*words, "--delete", "--json").json["deleted"] == 0
    twins.refuses("dedup", "i", "--min-score", "nan")


@pytest.mark.slow
def test_a_map_is_written(pets: Runner) -> None:
    code, out, err = pets("map", "pets", "--out", "map.html", "--where", "year < 2003")
    assert (code, out) == (0, "2 documents in 1 clusters: map.html\n"), err
    assert Path("map.html").read_text().startswith("<!doctype html>")
    assert "map.html exists; expected a new file" in pets.refuses(
        "map", "pets", "--out", "map.html"
    )
    made = pets("map", "pets", "--out", "all.html", "--json").json
    assert (made["path"], made["documents"], made["total"]) == ("all.html", 3, 3)


def test_a_map_requires_its_extra(pets: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pacmap", None)
    said = pets.refuses("map", "pets", "--out", "map.html")
    assert "a map requires pacmap" in said
    assert "[map]" in said
    assert not Path("map.html").exists()
