"""Chance does not decide whether work lands: what random tests try is the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from slimdex.bench.columns import check_row
from slimdex.bench.reporting.tables.studies import sweep
from slimdex.bench.rows import read_rows

from ..chance import CHANCE, MORE, STATED, Chance, spread

ROOT = Path(__file__).parents[2]


def test_nothing_is_left_to_chance_unless_it_is_asked_for() -> None:
    assert Chance.of({}) == Chance.of({"SLIMDEX_EXPLORE": "0", "SLIMDEX_SWEEP": ""})
    assert Chance.of({}) == Chance(seed=STATED, exploring=False, whole=False)
    assert Chance.of({"SLIMDEX_SWEEP": "1"}) == Chance(STATED, whole=True)
    assert Chance.of({"SLIMDEX_SEED": "7"}) == Chance(7)
    once, again = (Chance.of({"SLIMDEX_EXPLORE": "1"}) for _ in range(2))
    assert once.exploring
    assert len({once.seed, again.seed, STATED}) == 3
    told = str(once).split("`")[1]
    assert told == f"make explore SEED={once.seed}"
    assert Chance.of({"SLIMDEX_EXPLORE": "1", "SLIMDEX_SEED": str(once.seed)}) == once


def test_this_run_has_the_settings_it_asked_for() -> None:
    assert Chance.of(os.environ) == CHANCE
    now = settings()
    assert now.derandomize != CHANCE.exploring
    assert (now.deadline, now.database, now.print_blob) == (None, None, True)
    assert HealthCheck.too_slow in now.suppress_health_check
    assert now.max_examples == 100 * (MORE if CHANCE.exploring else 1)
    assert CHANCE.examples(30) == 30 * (MORE if CHANCE.exploring else 1)
    assert CHANCE.random("a", 1).random() == Chance(CHANCE.seed).random("a", 1).random()
    assert CHANCE.random("a").random() != CHANCE.random("b").random()


def run_of_tests(folder: Path, workers: str, test: str, **environment: str) -> str:
    """Output of a run of one test file beside this project's conftest, which has to pass."""
    file = folder / "tests" / "test_it.py"
    file.parent.mkdir()
    for name in ("__init__", "chance", "conftest", "encoders", "once"):
        (file.parent / f"{name}.py").write_text((ROOT / "tests" / f"{name}.py").read_text())
    file.write_text(test)
    ours = ("SLIMDEX_SEED", "SLIMDEX_SWEEP", "PYTEST_XDIST")
    usual = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    usual["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", workers, "tests"],
        cwd=folder,
        env=usual | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_process_of_a_whole_sweep_has_its_seed_and_leaves_counts_as_rows(
    tmp_path: Path,
) -> None:
    test = (
        "import pathlib, pytest\nfrom .chance import CHANCE\n"
        "@pytest.mark.parametrize('n', [3, 4])\n"
        "def test_kills(n, report):\n"
        "    report(f'{n} of them', kills=n, faults=1)\n"
        "    pathlib.Path(f'seed{n}').write_text(str(CHANCE.seed))\n"
        "def test_flips(report, tmp_path, monkeypatch):\n"
        "    monkeypatch.chdir(tmp_path)\n"
        "    report('bits', flips=2000)\n"
        "def test_without_counts(report): report('only said')\n"
        "@pytest.mark.xfail\n"
        "def test_that_fails(report): report('no row', kills=1); assert False\n"
    )
    said = run_of_tests(tmp_path, "2", test, SLIMDEX_EXPLORE="1", SLIMDEX_SWEEP="1")
    (seed,) = {path.read_text() for path in tmp_path.glob("seed*")}
    assert seed != str(STATED)
    assert f"chance: seed {seed}, " in said
    assert "only said" in said
    rows = read_rows(tmp_path / "bench-results", "sweep")
    for row in rows:
        check_row(row)
        assert row["seed"] == int(seed)
    table = sweep(sorted(rows, key=lambda row: (row["what"], row["way"])))
    assert [[cell.shown for cell in line] for line in table.rows] == [
        ["flips", "", "", "", "", "2,000", "", "", "", ""],
        ["kills", "", "7", "2", "", "", "", "", "", ""],
    ]


@pytest.mark.slow
def test_a_sampled_sweep_leaves_no_rows(tmp_path: Path) -> None:
    said = run_of_tests(tmp_path, "0", "def test(report): report('3 kills', kills=3)\n")
    assert "3 kills" in said
    assert not (tmp_path / "bench-results").exists()


def test_a_sample_is_spread_evenly_from_the_first_to_the_last() -> None:
    assert spread(range(101), 5) == [0, 25, 50, 75, 100]
    assert spread([3, 1, 2], 3) == spread([3, 1, 2], 9) == [3, 1, 2]
    assert spread([3, 1, 2], 1) == [3]
    assert spread([], 4) == []
    assert Chance().sample(range(9), 2) == [0, 8]
    for chance in (Chance(whole=True), Chance(exploring=True)):
        assert chance.sample(range(9), 2) == list(range(9))
        assert (chance.count(500, 150), Chance().count(500, 150)) == (500, 150)
