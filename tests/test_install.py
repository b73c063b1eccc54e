"""A zip, a source archive, a wheel and a checkout without links: one package, which works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("indexes", "retrieval", "bench")
FILES = [path.relative_to(ROOT) for path in (ROOT / "slimdex").rglob("*.py")]
PROJECT = {
    **{f"{name}/__init__.py": f"raise RuntimeError('the user has {name}')\n" for name in FOLDERS},
    "notes.jsonl": '{"id": "a", "text": "the cat sat on the mat"}\n'
    '{"id": "b", "text": "rain fell on the roof"}\n',
    "modules.json": json.dumps([".".join(path.with_suffix("").parts) for path in FILES]),
}
"""A user's project, with folders of the same names as slimdex's."""
PROGRAM = """
import json
import sys
from importlib.util import find_spec
import slimdex
slimdex.__version__, slimdex.Document, slimdex.Hit, slimdex.InputError
assert not {"torch", "transformers", "faiss", "duckdb"} & {*sys.modules}
assert all(hasattr(slimdex, name) for name in slimdex.__all__)
assert "torch" not in sys.modules
with slimdex.Collection.open("notes.index") as notes:
    print([hit.id for hit in notes.search("a wet house", limit=1)])
modules = [name.removesuffix(".__init__") for name in json.load(open("modules.json"))]
print([name for name in modules if find_spec(name) is None])
print(slimdex.__file__)
from slimdex.command_line import app
app(["bench", "search", "--help"])
"""
MANUAL = "docs/slimdex.1"
BUILD = "from setuptools.build_meta import *; build_wheel('..')"
OWN = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


def call(*words: object, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # Archives do not depend on when they are made: `make dist` sets the time of the commit.
    environment["SOURCE_DATE_EPOCH"] = "1750000000"
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a zip, a source archive, a wheel, and a checkout without links."""
    folder = tmp_path_factory.mktemp("archives")
    others = shutil.ignore_patterns(
        ".*", "__pycache__", "build", "*.egg-info", "*.index", "bench-*"
    )
    source = shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=others)
    call("git", "init", "--quiet", folder=source)
    call("git", "add", "--all", folder=source)
    call("git", *OWN, "commit", "--quiet", "--message", "all", folder=source)
    call("git", "archive", "--prefix=slimdex/", "--output=../slimdex.zip", "HEAD", folder=source)
    clone = ("git", "-c", "core.symlinks=false", "clone", "--quiet")
    call(*clone, source, "checkout", folder=folder)
    assert all((folder / "checkout" / name).is_file() for name in FOLDERS)
    shutil.copytree(folder / "checkout", folder / "again")  # it is built in place
    call(sys.executable, "-c", f"{BUILD}; build_sdist('..')", folder=folder / "again")
    return folder


def install(what: Path, folder: Path) -> Path:
    """The Python of a new environment that has slimdex, and this one's libraries."""
    venv.create(folder, with_pip=False)
    places = sysconfig.get_paths("venv", vars={"base": str(folder), "platbase": str(folder)})
    libraries = {str(Path(p).resolve()) for p in sys.path if "site-packages" in p}
    Path(places["purelib"], "libraries.pth").write_text("\n".join(libraries))
    python = Path(places["scripts"], "python")
    alone = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed")
    place = ("--editable", what) if what.is_dir() else (what,)
    call(sys.executable, "-m", "pip", "--python", python, "install", *alone, *place, folder=folder)
    return python


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.whl", "checkout"])
def test_the_main_job_works_however_it_was_installed(
    kind: str, archives: Path, tmp_path: Path
) -> None:
    (what,) = archives.glob(kind)
    python, project = install(what, tmp_path / "environment"), tmp_path / "project"
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(exist_ok=True, parents=True)
        (project / name).write_text(text)
    build = ("-m", "slimdex", "build", "notes.jsonl", "--out", "notes.index", "--json")
    built = call(python, *build, folder=project)
    assert json.loads(built)["documents"] == 2
    hits, missing, place, *help = call(python, "-c", PROGRAM, folder=project).splitlines()
    assert (hits, missing) == ("['b']", "[]")
    assert Path(place).is_relative_to(what if what.is_dir() else tmp_path / "environment")
    assert "bench search" in "".join(help)
    if kind == "*.whl":
        page = tmp_path / "environment" / "share" / "man" / "man1" / "slimdex.1"
        assert page.read_bytes() == (ROOT / MANUAL).read_bytes()


@pytest.mark.slow
def test_a_wheel_is_one_small_package(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    assert wheel.stat().st_size < 1_500_000
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"slimdex"}
    assert {path.as_posix() for path in FILES} <= names
    pages = {"retrieval/server/page/index.html", "bench/reporting/page.html"}
    pages |= {"py.typed", "__init__.pyi"}
    assert {f"slimdex/{name}" for name in pages} <= names
    assert not [name for name in names if name.endswith(".jsonl")]


@pytest.mark.slow
def test_every_source_makes_the_same_wheel(archives: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    wheels = [path.read_bytes() for path in archives.glob("*.whl")]  # of a checkout
    kinds: dict[str, Any] = {"zip": {}, "tar.gz": {"filter": "data"}}
    for kind, options in kinds.items():
        (archive,) = archives.glob(f"*.{kind}")
        shutil.unpack_archive(archive, tmp_path / kind, **options)
    for tree in [*tmp_path.glob("*/*")]:
        call(sys.executable, "-c", BUILD, folder=tree)
        (wheel,) = tree.parent.glob("*.whl")
        wheels.append(wheel.read_bytes())
    assert len(wheels) == 3
    assert wheels[0] == wheels[1] == wheels[2]


@pytest.mark.slow
def test_a_source_archive_has_tests_and_docs(archives: Path) -> None:
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    kept = [
        path.relative_to(ROOT).as_posix()
        for name in ("tests", "docs", "examples", "slimdex")
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert set(kept) <= names
    assert {"CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"} <= names


def test_the_manual_is_that_of_the_commands() -> None:
    """Written by `make manual`."""
    code = "from manual import manual; print(manual(), end='')"
    said = call(sys.executable, "-c", code, folder=ROOT / "docs" / "site")
    assert said == (ROOT / MANUAL).read_text()
