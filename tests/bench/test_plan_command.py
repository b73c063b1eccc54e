"""`slimdex plan` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from slimdex.command_line import app

ASKED = ["plan", "--documents", "1e9", "--dim", "768", "--tokens-per-s", "1e5"]
ROOT = Path(__file__).parent.parent.parent


def test_one_json_object() -> None:
    done = CliRunner().invoke(app, [*ASKED, "--json"])
    report = json.loads(done.stdout)
    assert (report["documents"], report["kind"], report["k"]) == (10**9, "ivf-pq", 384)
    assert report["memory_bytes"] == pytest.approx(56.6e9, rel=0.01)
    assert report["disk_bytes"] == sum(report["files"].values())
    assert report["files"]["vectors"] == 10**9 * 2 * 768
    assert report["encoding_hours"] == 10**6 / 3600


def test_words_are_in_the_plan_unless_left_out() -> None:
    def planned(*words: str) -> tuple[dict[str, float], str]:
        said = CliRunner().invoke(app, [*ASKED, *words]).stdout
        report = json.loads(CliRunner().invoke(app, [*ASKED, *words, "--json"]).stdout)
        files: dict[str, float] = report["files"]
        assert report["disk_bytes"] == sum(files.values())
        return files, said

    files, said = planned()
    without, said_without = planned("--no-lexical")
    assert files["words"] > 10**9
    assert without == {name: size for name, size in files.items() if name != "words"}
    assert "words (the lexical index) as of English texts" in said
    assert "without words (the lexical index)" in said_without


def test_a_plain_install_is_enough() -> None:
    """Nothing of the extra `bench` is imported, nor anything that takes seconds."""
    heavy = ["scipy", "psutil", "threadpoolctl", "altair", "torch", "faiss", "duckdb"]
    heavy += ["transformers", "openvino"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy})); "
        f"sys.argv = {['slimdex', *ASKED, '--json']}; "
        "from slimdex.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == 10**9
