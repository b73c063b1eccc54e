"""Ignore rules: compared with git's own answers, and matched in bounded time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random
from time import perf_counter

import pytest

from slimdex.retrieval.sources.files.ignore_rules import IgnoreRules
from slimdex.retrieval.sources.files.limits import LARGEST_RULES

PIECES = [
    *("a", "b", "c", "ab", "é", "-", "/", "/", "*", "**", "***", "?", "/**/", "**/", "/**", "!"),
    *("[ab]", "[!a]", "[^b/]", "[a-c]", "[]a]", "[!]a]", "[a-]", "[a\\-c]", "[+-9]", "[\\]]"),
    *("[", "]", "\\", "\\*", "\\a", "\\ "),
    *(" ", "#", "\r"),
]
NAMES = [
    *("a", "b", "ab", "c", "aab", "abab", "é", "*", "a b", "[a]", "-", "]", "!a", "#b", " ", "a "),
    *("\\a", "5", "[", "ba", "bb", "[ab]"),
]
FILES, FILES_OF_RULES = 200, 120
UNDOCUMENTED = re.compile(r"[^/]\*\*+\\?/")
"""What git reads in another way than its manual says: "other consecutive asterisks are regular"."""


def git(folder: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(["git", "-C", folder, *words], input=given.encode(), capture_output=True)
    return done.stdout.decode()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository, and its files and folders; folders end in a slash."""
    root, random = tmp_path_factory.mktemp("repository"), Random(5)
    for _ in range(FILES):
        path = root.joinpath(*random.choices(NAMES, k=random.randint(1, 4)))
        if not any(folder.is_file() for folder in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    found = [f"{path.relative_to(root)}{'/' * path.is_dir()}" for path in root.rglob("*")]
    git(root, "init", "-q")
    return root, found


def decided(rules: IgnoreRules, path: str) -> bool | None:
    """As git decides it: nothing below a folder that is ignored can be had back."""
    names = path.removesuffix("/").split("/")
    for i in range(1, len(names)):
        if rules.decision("/".join(names[:i]), is_folder=True):
            return True
    return rules.decision("/".join(names), is_folder=path.endswith("/"))


def test_decisions_equal_those_of_git(tree: tuple[Path, list[str]]) -> None:
    root, paths = tree
    given = "".join(path.removesuffix("/") + "\0" for path in paths)
    random, decisions = Random(6), set[bool | None]()
    for _ in range(FILES_OF_RULES):
        lines = ["".join(random.choices(PIECES, k=random.randint(1, 6))) for _ in range(3)]
        lines = [line for line in lines if not UNDOCUMENTED.search(line.lstrip("!"))]
        (root / ".gitignore").write_text("\n".join(lines), newline="")
        told = git(root, "check-ignore", "--no-index", "--stdin", "-zvn", given=given).split("\0")
        expected = [{"": None, "!": False}.get(pattern[:1], True) for pattern in told[2::4]]
        rules = IgnoreRules("\n".join(lines).encode())
        assert [decided(rules, path) for path in paths] == expected, lines
        decisions.update(expected)
    assert decisions == {True, False, None}


@pytest.mark.parametrize(
    "rules",
    [
        b"*a" * 26 + b"b",
        b"**/" + b"*a/" * 1000 + b"b",
        b"*[!b]" * 800 + b"b",
        b"*a*b\n" * (LARGEST_RULES // 5),
        b"*a" * (LARGEST_RULES // 2),
    ],
)
@pytest.mark.parametrize("path", ["a" * 60, "a" * 255, "/".join(["aa"] * 1300)])
def test_patterns_are_matched_in_bounded_time(rules: bytes, path: str) -> None:
    """By searching twice the first of them takes longer than anyone would wait."""
    began = perf_counter()
    assert IgnoreRules(rules).decision(path, is_folder=False) is None
    assert perf_counter() - began < 10
