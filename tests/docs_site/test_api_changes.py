"""Public names have lost what users can notice, also what they inherit, and nothing else counts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from runpy import run_path

import pytest

pytest.importorskip("griffe")
SCRIPT = Path(__file__).parents[2] / "docs" / "site" / "api_changes.py"
PACKAGE = {
    "slimdex/__init__.py": "from .inside import Public, gone\n__all__ = ['Public', 'gone']\n",
    "slimdex/inside.py": """
class Base:
    def inherited(self, a, b=1): ...
class Public(Base):
    def more(self, a): ...
    def other(self, a): ...
    def _private(self, a): ...
def gone(): ...
def internal(a): ...
""",
    "pyproject.toml": '[project]\nversion = "0.1.1"\n',
}
CHANGES = {
    "from .inside import Public, gone\n__all__ = ['Public', 'gone']": (
        "from .inside import Public\n__all__ = ['Public']"
    ),
    "def inherited(self, a, b=1)": "def inherited(self, a)",
    "def more(self, a)": "def more(self, a, b=1)",
    "def other(self, a)": "def other(self, c)",
    "def _private(self, a)": "def _private(self)",
    "def internal(a)": "def internal()",
}


def git(folder: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


def committed(folder: Path, changes: dict[str, str]) -> None:
    for name, text in PACKAGE.items():
        for old, new in changes.items():
            text = text.replace(old, new)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "all")


def test_losses_of_public_names_end_a_patch_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = run_path(str(SCRIPT))["main"]
    monkeypatch.chdir(tmp_path)

    def run() -> tuple[int, list[str]]:
        return main(), re.findall(r"`([\w.()]+)`", capsys.readouterr().out)

    git(tmp_path, "init", "--quiet")
    committed(tmp_path, {})
    assert run() == (0, [])  # the first version
    git(tmp_path, "tag", "v0.1.0")
    committed(tmp_path, {})
    git(tmp_path, "tag", "v0.1.1")  # the one that is released
    assert run() == (0, [])
    losses = ["Base.inherited(b)", "Public.other(a)", "Public.other(c)", "gone"]
    committed(tmp_path, CHANGES)
    code, found = run()
    assert (code, sorted(found)) == (1, losses)
    committed(tmp_path, CHANGES | {"0.1.1": "0.2.0"})
    code, found = run()
    assert (code, sorted(found)) == (0, losses)
