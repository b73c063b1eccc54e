"""The README's commands and Python run as they stand, in one folder, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slimdex.retrieval.cli import app as cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(block: str) -> str:
    """A console block as a shell script that stops at the first error."""
    return "set -e\n" + re.sub(r"^\$ ", "", block, flags=re.MULTILINE)


def environment() -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "120"}


@pytest.mark.slow
def test_readme_commands_and_python(tmp_path: Path) -> None:
    consoles = blocks("console")
    assert len(consoles) == 3
    script = "".join(commands(block) for block in consoles)
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for expected in ("boiler was serviced", '"id": "n2"', "5 documents", "1 deleted, 4 left"):
        assert expected in done.stdout
    assert re.search(r"ndcg@10 +1\.0000 +1\.0000", done.stdout)
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 Whose woods these are" in done.stdout
    assert done.stdout.endswith("\n2 poems\n")
    assert done.stdout.count("\n") == 2


def test_readme_names_every_command_and_kind() -> None:
    from slimdex.indexes.registry import KINDS

    assert all(f"`{kind}`" in README for kind in KINDS)
    names = [c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback]
    assert len(names) == 12
    for name in names:
        assert re.search(rf"slimdex {name}\b|make {name}\b|slimdex {name}`", README), name


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "build",
        "search",
        "add",
        "delete",
        "info",
        "verify",
        "repair",
        "reduce",
        "upgrade",
        "eval",
    ],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    result = CliRunner().invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_the_tree_names_no_machine() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_symlink():  # a folder of the package, which is listed at its place
            continue
        data = (ROOT / name).read_bytes()
        assert len(data) < 1 << 20, f"{name} is over 1 MB"
        assert not re.search(rb"/(work|root|home)/\w", data), f"{name} holds a machine's path"
