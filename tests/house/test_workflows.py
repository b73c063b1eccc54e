"""Workflows run what is here, by actions that nobody can change behind their names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")


def steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_digest(path: Path) -> None:
    """And the line names the version, which updates follow."""
    lines = [
        line.split("uses:")[1].strip() for line in path.read_text().splitlines() if "uses:" in line
    ]
    assert len(lines) == sum("uses" in step for step in steps(path)) > 0
    for line in lines:
        action, _, version = line.partition(" # ")
        assert PINNED.fullmatch(action), line
        assert re.fullmatch(r"v\d+\.\d+\.\d+", version), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_text_of_others_is_put_into_a_command(path: Path) -> None:
    """An expression in a command is code; only a matrix, which is ours, may be there."""
    for step in steps(path):
        assert set(re.findall(r"\$\{\{ *(\w+)", step.get("run", ""))) <= {"matrix"}


def test_their_targets_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    matrix = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    asked = set(matrix["jobs"]["long"]["strategy"]["matrix"]["target"])
    for path in WORKFLOWS:
        for step in steps(path):
            asked |= set(re.findall(r"make (\w+)", step.get("run", "")))
    assert {"demo", "test", "sweep"} <= asked <= targets


def test_a_citation_names_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert cited == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
