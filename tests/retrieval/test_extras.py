"""Advice on what to install fits how slimdex itself was installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.extras import MODULES, extra_of, install_command, missing_ones_told

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMED_OTHERWISE = {"qdrant_edge": "qdrant-edge-py"}
BROUGHT_BY_THESE = {
    *("anyio", "pydantic", "pydantic-core", "starlette"),
    *("datasets", "grpcio", "markupsafe"),
}
"""Packages that those of the extras need, and slimdex imports."""
ALWAYS = {"slimdex", "huggingface_hub", "_duckdb"}
"""Modules that cannot be missing, beside those of what slimdex needs itself."""
IMPORT = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
CHECKOUT = {"dir_info": {"editable": True}}


def installation(folder: Path, source: dict[str, Any]) -> None:
    """A folder for sys.path with slimdex's metadata, and without the libraries of its extras."""
    metadata = folder / "slimdex-9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slimdex\nVersion: 9\n")
    (metadata / "direct_url.json").write_text(json.dumps(source))
    for name in ("jinja2", "scipy"):
        line = f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"
        (folder / f"{name}.py").write_text(line)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "bench-results").mkdir()
    return folder


def advice(paths: Path, folder: Path) -> str:
    command = [sys.executable, "-m", "slimdex", "bench", "report"]
    environment = {"PYTHONPATH": f"{paths}:{ROOT}"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr.partition(" named ")[2].strip()


@pytest.mark.slow
def test_the_extra_is_that_of_a_checkout_or_of_the_package(checkout: Path, tmp_path: Path) -> None:
    wheel = {"url": "file:///x/slimdex-9-py3-none-any.whl", "archive_info": {}}
    gone = {"url": (tmp_path / "removed").as_uri(), **CHECKOUT}
    for name, source, folder, advised in (
        ("editable", {"url": checkout.as_uri(), **CHECKOUT}, checkout, "-e '.[bench]'"),
        ("copied", {"url": checkout.as_uri(), "dir_info": {}}, tmp_path, f"'{checkout}[bench]'"),
        ("wheel", wheel, tmp_path, "'slimdex[bench]'"),
        ("gone", gone, tmp_path, "'slimdex[bench]'"),
    ):
        installation(tmp_path / name, source)
        assert advice(tmp_path / name, folder) == f"'scipy': pip install {advised}"


def extras() -> dict[str, set[str]]:
    """The extras that slimdex imports from: all but `test` and `docs`, and their packages."""
    return {
        extra: {package(line) for line in lines} - {"slimdex"}
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in ("test", "small", "docs")
    }


def package(requirement: str) -> str:
    """A package's name, as it is compared.

    >>> package("qdrant_edge.py>=0.5")
    'qdrant-edge-py'
    """
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!\[; ]", requirement)[0]).lower()


@cache
def installed() -> Mapping[str, list[str]]:
    return packages_distributions()


def packages_of(module: str) -> set[str]:
    """The packages that may bring a module: those that do where it is installed."""
    found = installed().get(module, ())
    return {package(name) for name in found} or {package(NAMED_OTHERWISE.get(module, module))}


def test_every_module_names_the_extra_that_brings_it() -> None:
    brought = extras()
    assert set(MODULES) == set(brought)
    for extra, packages in brought.items():
        ours = set().union(*map(packages_of, MODULES[extra]))
        elsewhere = set().union(*map(packages_of, MODULES["peers"]))
        assert packages <= ours | elsewhere, extra
        assert ours - packages <= BROUGHT_BY_THESE, extra


def test_every_library_that_is_imported_has_an_extra() -> None:
    """But for those that slimdex can't be installed without."""
    files = (ROOT / "slimdex").rglob("*.py")
    imported = {
        name for file in files for pair in IMPORT.findall(file.read_text()) for name in pair
    }
    always = {package(line) for line in PROJECT["dependencies"]}
    others = imported - sys.stdlib_module_names - ALWAYS - {""}
    optional = {name for name in others if not packages_of(name) & always}
    assert {"watchfiles", "fastapi", "pymilvus"} < optional
    assert {name for name in optional if extra_of(name) is None} == set()


def test_a_module_of_no_extra() -> None:
    assert extra_of("watchfiles") == "files"
    assert extra_of("sentence_transformers.util") == "peers"
    assert extra_of(None) is None
    with pytest.raises(InputError) as error, missing_ones_told():
        import_module("einops_of_nobody")
    said = "No module named 'einops_of_nobody': no extra of slimdex brings it"
    assert str(error.value) == said


def test_files_that_are_not_installed_are_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slimdex.retrieval import extras as installed

    installed.install_command("bench")  # imports modules that the changed path lacks
    monkeypatch.chdir(installed.SOURCE_ROOT)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert installed.install_command("bench") == "pip install '.[bench]'"
    monkeypatch.setattr(installed, "SOURCE_ROOT", tmp_path)
    assert installed.install_command("peers") == "pip install 'slimdex[peers]'"


def test_what_is_missing_is_one_line_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slimdex.bench import machine
    from slimdex.bench.engines import encoders
    from slimdex.bench.engines.registry import missing as missing_of
    from slimdex.bench.runner import note_absent

    there = {"faiss-cpu", "duckdb", "pyarrow"}
    monkeypatch.setattr(machine, "version_of", lambda name: "1" if name in there else None)
    asked = ("hnswlib", "FAISS HNSW", "Chroma", "DuckDB arrays")
    note_absent([*missing_of(asked)])
    advised = install_command("peers")
    assert capsys.readouterr().err == f"note: not installed: hnswlib, Chroma; {advised}\n"
    note_absent([])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(encoders, "_installed", lambda package: False)
    missing = encoders.missing_contenders("all-MiniLM-L6-v2")
    assert missing["sentence-transformers"] == f"not installed: sentence_transformers; {advised}"
    assert missing["CTranslate2"] == f"not installed: ctranslate2; {advised}"
