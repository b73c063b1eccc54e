"""`slimdex doctor`, and the commands that find damage and mend it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes import options as choices
from slimdex.indexes.reducers.reducer import reducer_class
from slimdex.retrieval.collection import Collection
from slimdex.system.atomic_files import FIXED
from slimdex.system.index_names import MANIFEST

from .running import Runner, held


def test_verify_and_repair(pets: Runner) -> None:
    (codes,) = Path("pets").glob("codes-*")
    codes.write_bytes(b"x" + codes.read_bytes()[1:])
    for line in ("verify pets", "search pets cat"):
        assert f"{codes.name}: damaged" in pets.refuses(line)
    faulty = pets("verify pets --json")
    assert (faulty.code, len(faulty.json["faults"])) == (2, 1)
    assert pets("repair pets").out.endswith("\npets: rebuilt\n")
    (vectors,) = Path("pets").glob("vectors-*")
    content = vectors.read_bytes()
    vectors.unlink()
    assert "--encode` encodes these documents again" in pets.refuses("repair pets")
    assert pets("repair pets --encode").code == 0
    assert vectors.read_bytes() == content
    assert pets("verify pets").code == 0


def test_all_that_is_derived_is_rebuilt_of_an_untrusted_index(pets: Runner) -> None:
    before = {path.name for path in Path("pets").iterdir()}
    kept = (*FIXED, "vectors", "documents", "offsets", "flags")
    code, out, err = pets("repair pets --untrusted")
    assert (code, err, out.splitlines()[-1]) == (0, "", "pets: rebuilt")
    assert out.splitlines()[0].endswith("pets: untrusted")
    replaced = {name for name in before if not name.startswith(kept)}
    assert len(replaced) == 6
    assert not replaced & {path.name for path in Path("pets").iterdir()}
    assert pets.found("pets rain")[0]["id"] == "rain"


def test_the_demonstration_shows_an_existing_index(slimdex: Runner) -> None:
    assert slimdex("build python:json --out shown").code == 0
    shown = slimdex("demo --out shown")
    assert shown.code == 0
    documents = slimdex("info shown --json").json["documents"]
    assert shown.out.startswith(f"{documents} docstrings in shown\n")
    assert "bytes per vector in RAM" in shown.out or "agreement@10" in shown.out
    assert "Try your own: slimdex search shown sort a list\n" in shown.out


def test_reducers_have_the_names_that_help_lists() -> None:
    """Help can't ask the classes, which take numpy a tenth of a second."""
    assert [reducer_class(name).name for name in choices.REDUCERS] == list(choices.REDUCERS)


def findings(slimdex: Runner, *words: str) -> dict[str, Any]:
    result = slimdex("doctor", *words, "--json")
    found = {each["name"]: each for each in result.json["findings"]}
    bad = any(each["remedy"] for each in found.values())
    assert (result.code, result.json["well"]) == (int(bad), not bad)
    return found


def test_a_sound_installation(
    bare: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    Path("cache").mkdir()
    Path("cache/w").write_bytes(bytes(2_000_000))
    found = findings(bare)
    assert f"numpy {metadata.version('numpy')}" in found["libraries"]["value"]
    assert "2 MB" in found["cache"]["value"]
    assert "index" not in found
    assert "libraries" in bare("doctor").out
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache/w"))
    assert findings(bare)["cache"]["remedy"].startswith("set SLIMDEX_CACHE")
    assert "nosuch: no slimdex index there" in bare.refuses("doctor nosuch")
    monkeypatch.setenv("SLIMDEX_INDEX", "nosuch")
    assert "SLIMDEX_INDEX=nosuch" in bare.refuses("doctor")


def test_an_index_is_described_and_not_changed(pets: Runner) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path("pets").rglob("*")}
    found = findings(pets, "pets")
    assert found["newest commit"]["value"].endswith(", 3 rows, 0 of them deleted")
    assert found["being changed"]["value"] == "by no process"
    assert not {"files", "addition", "commit", "work folders"} & found.keys()
    assert {path: path.stat().st_mtime_ns for path in Path("pets").rglob("*")} == before
    shutil.copytree("pets", ".slimdex")
    assert "3 rows" in findings(pets)["newest commit"]["value"]


def test_doctor_names_remedies(pets: Runner) -> None:
    assert pets("delete pets cat dog").code == 0
    assert findings(pets, "pets")["newest commit"]["remedy"] == "slimdex compact pets"
    with Collection.open("pets") as opened:
        state = opened.index.state
    Path("pets", state.files["codes"].name).unlink()
    found = findings(pets, "pets")
    assert found["files"]["remedy"] == "slimdex repair pets"
    assert state.files["codes"].name in found["files"]["value"]
    Path("pets", MANIFEST).write_bytes(b"junk")
    assert findings(pets, "pets")["newest commit"]["remedy"] == "restore the folder from a copy"


def test_a_writer_is_noticed(pets: Runner) -> None:
    with held(60):
        found = findings(pets, "pets")
        assert found["being changed"]["value"] == "by another process"
        assert "commit" not in found


WITHOUT = """
import importlib.metadata as metadata, sys
found = metadata.version
def version(name):
    if name == "numpy":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
sys.modules |= dict.fromkeys(("numpy", "py3langid"))
from slimdex.__main__ import main
sys.argv = ["slimdex", "doctor", "pets"]
try:
    main()
finally:
    print(not {"torch", "transformers"} & sys.modules.keys(), file=sys.stderr)
"""


def test_missing_libraries_are_findings(pets: Runner) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "numpy missing" in done.stdout
    assert "-m pip install numpy" in done.stdout
    assert "can't be read: import of numpy" in done.stdout
    assert "OpenVINO does not start" in done.stdout
    assert "requires py3langid: pip install" in done.stdout
    assert done.stderr == "True\n"
