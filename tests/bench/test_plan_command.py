"""`slimdex plan` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slimdex.__main__ import app
from slimdex.indexes.errors import InputError

ASKED = ["plan", "--documents", "1e9", "--dim", "768", "--qps", "200", "--recall", "0.99"]
MACHINE = ["--ram", "64GB", "--cores", "16"]
ROOT = Path(__file__).parent.parent.parent


def test_one_json_object_with_evidence_for_every_figure() -> None:
    done = CliRunner().invoke(app, [*ASKED, *MACHINE, "--json"])
    report = json.loads(done.stdout)
    assert (report["documents"], report["kind"], report["k"]) == (10**9, "ivf-pq", 384)
    assert report["machine"] == {"ram": 64 * 10**9, "cores": 16}
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures["index in memory"]["one_machine"] == pytest.approx(56e9, rel=0.05)
    assert figures["disk"]["one_machine"] > 10**9 * (2 * 768 + 4 + 56)
    for figure in report["figures"]:
        for evidence in (figure["evidence"], figure["evidence_of_many"]):
            assert evidence["status"] in ("measured", "interpolated", "extrapolated")
            assert (evidence["beyond"] > 1) == (evidence["status"] == "extrapolated")
    assert report["machines"]["shown"] >= report["machines"]["for_load"] > 1
    assert {check["fitted"] for check in report["checked"]} == {True, False}


def test_a_table_for_a_terminal() -> None:
    said = CliRunner().invoke(app, [*ASKED, *MACHINE]).stdout
    table = said[said.index("one machine") :].splitlines()
    rows = [line for line in table[1:15] if line.rstrip().endswith("%")]
    assert len(rows) == 14
    assert max(map(len, rows)) <= 80
    for words in ("candidates", "Ray pays: from ", "Milvus pays: from ", "64 GB and 16 cores"):
        assert words in said
    one = CliRunner().invoke(app, ["plan", "--documents", "100000", *MACHINE]).stdout
    assert "each of" not in one
    assert "interpolated" in one


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--documents", "-5"], r"--documents -5; expected 1,000 to 1e\+13"),
        (["--documents", "nan"], "--documents nan; expected"),
        (["--qps", "-1"], "--qps -1; expected 0 to"),
        (["--recall", "1"], "--recall 1; expected .5 or more, and less than 1"),
        (["--ram", "much"], "--ram 'much'; expected bytes, such as 200MB"),
        (["--ram", "5MB"], "--ram 5,000,000 bytes; expected room for a process"),
        (["--cores", "0"], "--cores 0; expected 1 to"),
        (["--machines", "0"], "--machines 0; expected 1 to"),
        (["--columns", "-1"], "--columns -1; expected 0 to"),
        (["--tokens-per-s", "0"], "--tokens-per-s 0; expected"),
        (["--model", "nothing"], "--model 'nothing'; expected all-MiniLM-L6-v2"),
        (["--results", "."], "no rows of sizes; expected sizes"),
    ],
)
def test_what_can_not_be_planned(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = ["plan", "--documents", "10000", *MACHINE]
    with pytest.raises(InputError, match=said):
        CliRunner().invoke(app, [*usual, *words], catch_exceptions=False)


def test_a_plain_install_is_enough() -> None:
    """Nothing of the extra `bench` is imported, nor anything that takes seconds."""
    heavy = ["scipy", "psutil", "threadpoolctl", "altair", "torch", "faiss", "duckdb"]
    heavy += ["transformers", "openvino"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({heavy})); "
        f"sys.argv = {['slimdex', *ASKED, *MACHINE, '--json']}; "
        "from slimdex.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == 10**9


def test_bad_input_is_one_line() -> None:
    words = [sys.executable, "-m", "slimdex", "plan", "--documents", "-5"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --documents -5; expected 1,000 to 1e+13\n"
