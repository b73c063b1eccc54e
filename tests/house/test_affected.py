"""`make test` runs tests of services and the like where a change affects them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..affected import OPTIONAL, ROOT, affects, changed, closure

FILES = {
    "indexes/low.py": "",
    "indexes/other.py": "",
    "retrieval/server/app.py": "from slimdex.indexes.low import name\n",
    "retrieval/server/page/page.js": "",
    "retrieval/cli/serve.py": "def serve():\n    from ..late import x\n",
    "retrieval/late.py": "",
    "tests/retrieval/server/test_app.py": "from slimdex.retrieval.server.app import application\n",
    "tests/conftest.py": "from .helper import help\n",
    "tests/helper.py": "",
    "tests/retrieval/test_other.py": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("tests/retrieval/server/test_app.py", True),
        ("retrieval/server/page/page.js", True),
        ("indexes/low.py", True),  # imported through another
        ("retrieval/late.py", True),  # in a function of a command
        ("tests/helper.py", True),
        ("pyproject.toml", True),
        ("indexes/other.py", False),
        ("tests/retrieval/test_other.py", False),
        ("docs/page.md", False),
    ],
)
def test_a_change_affects_what_imports_it(tree: Path, file: str, expected: bool) -> None:
    assert affects([file], "tests/retrieval/server", tree) == expected


def test_changes_are_those_since_main(tree: Path) -> None:
    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *author, *words], cwd=tree, check=True, capture_output=True)

    assert changed(tree) == []
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "one")
    assert changed(tree) == []
    git("checkout", "-b", "work")
    (tree / "indexes/low.py").write_text("name = 1\n")
    git("commit", "-am", "two")
    (tree / "tests/helper.py").unlink()
    (tree / "new.py").write_text("")
    assert changed(tree) == ["indexes/low.py", "tests/helper.py", "new.py"]


def test_folders_are_there_and_import_their_subject() -> None:
    for folder, sources in OPTIONAL.items():
        reached = closure((ROOT / folder).glob("test_*.py"))
        places = [ROOT / parent / source for source in sources for parent in ("", "slimdex")]
        assert sum(place.exists() for place in places) >= len(sources)
        assert any(path.is_relative_to(ROOT / sources[0]) for path in reached)
