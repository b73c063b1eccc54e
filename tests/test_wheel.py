"""What `pip install slimdex` puts beside a user's own code: one package, whole, under one name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = {
    "retrieval/__init__.py": "raise RuntimeError('the project has its own retrieval')\n",
    "indexes/__init__.py": "raise RuntimeError('the project has its own indexes')\n",
    "bench/__init__.py": "raise RuntimeError('the project has its own bench')\n",
    "notes.jsonl": '{"id": "a", "text": "the cat sat on the mat"}\n'
    '{"id": "b", "text": "rain fell on the roof"}\n',
}
"""A user's project, nearly each of whose folders slimdex once hid behind."""
PROGRAM = """
import sys
import slimdex
from slimdex import Collection, Document, Hit, InputError, Settings, TransformerEncoder, Whitening
from slimdex import __version__
assert slimdex.__file__.startswith(sys.prefix), slimdex.__file__
with Collection.open("notes.index") as notes:
    print([hit.id for hit in notes.search("a wet house", limit=1)])
"""


def call(*words: object, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    others = shutil.ignore_patterns(".*", "build", "*.egg-info", "tests", "*.index", "bench-*")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=others)  # it is built in place
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder)
    call(*pip, folder / "source", folder=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has the wheel, and this one's libraries."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    libraries = {str(Path(p).resolve()) for p in sys.path if "site-packages" in p}
    (site / "libraries.pth").write_text("\n".join(libraries))
    return folder / "bin" / "python"


@pytest.mark.slow
def test_a_wheel_has_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (top,) = (name for name in names if name.endswith("top_level.txt"))
        assert packed.read(top).decode().split() == ["slimdex"]
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"slimdex"}
    ours = {
        f"slimdex/{path.relative_to(ROOT)}"
        for package in ("indexes", "retrieval", "bench")
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".html", ".jsonl")
    }
    assert ours <= set(names)
    assert "slimdex/py.typed" in names


@pytest.mark.slow
def test_it_works_in_a_project_with_folders_of_our_names(installed: Path, tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    slimdex = (installed, "-m", "slimdex")
    built = call(
        *slimdex, "build", "notes.jsonl", "--out", "notes.index", "--json", folder=tmp_path
    )
    assert json.loads(built)["documents"] == 2
    found = call(*slimdex, "search", "notes.index", "a wet house", "--json", folder=tmp_path)
    assert json.loads(found)["queries"][0]["hits"][0]["id"] == "b"
    assert call(installed, "-c", PROGRAM, folder=tmp_path) == "['b']\n"
    assert "Measure every method on every set" in call(
        *slimdex, "bench", "retrieval", "--help", folder=tmp_path
    )
    call(installed, "-m", "slimdex.bench", "--help", folder=tmp_path)


def test_the_public_face_loads_what_is_asked_for() -> None:
    code = (
        "import sys, slimdex\n"
        "slimdex.__version__, slimdex.Document, slimdex.Hit, slimdex.InputError\n"
        "heavy = {'torch', 'transformers', 'faiss', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert all(hasattr(slimdex, name) for name in slimdex.__all__)\n"
        "assert 'torch' not in sys.modules\n"
    )
    call(sys.executable, "-c", code, folder=ROOT)
