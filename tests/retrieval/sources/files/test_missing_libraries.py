"""Missing libraries of the extra `files`: what needs one is told by name, the rest is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slimdex.retrieval.extras import install_command
from slimdex.retrieval.sources.files.formats.readers import LIBRARIES

from .test_books import lines, pdf_file

zstandard = pytest.importorskip("zstandard")

READ_A_FOLDER = """
import json, sys
from slimdex.indexes.errors import InputError
from slimdex.retrieval.sources.source import open_source

try:
    source = open_source(sys.argv[1])
    found = [document.id for batch in source.batches() for document in batch]
    print(json.dumps([found, source.left_out()]))
except InputError as error:
    print(json.dumps([[], [str(error)]]))
"""
NEEDS = {
    "lxml": ["page.html"],
    "markdown_it": ["letter.md", "note.md"],
    "pypdfium2": ["paper.pdf"],
    "charset_normalizer": ["latin.txt"],
    "yaml": ["letter.md"],
    "zstandard": ["packed.txt.zst"],
}
"""Module -> which of the files need it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "page.html").write_text("<p>A page.")
    (notes / "note.md").write_text("# A note\n\nAnd a text.")
    (notes / "letter.md").write_text("---\ntags: [hot]\n---\n# Tea\n\nBoil water.")
    (notes / "manual.rst").write_text("Manual\n======\n\nTurn it on.")
    (notes / "paper.pdf").write_bytes(pdf_file([lines(b"A paper")]))
    words = "Der Kessel fängt an zu brüllen, die Größe des Raumes hält ihn nicht. "
    (notes / "latin.txt").write_bytes(words.encode("latin-1") * 20)
    (notes / "packed.txt.zst").write_bytes(zstandard.compress(b"packed"))
    (notes / "plain.txt").write_text("plain")
    return notes


def without(module: str, program: str, *words: object, folder: Path) -> str:
    """What a program prints where a module can't be imported, nor in the processes it starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_library_of_the_extra_is_tried() -> None:
    assert set(NEEDS) == set(LIBRARIES)


@pytest.mark.slow
@pytest.mark.parametrize("module", NEEDS)
def test_files_that_need_a_missing_library_are_reported(
    module: str, folder: Path, tmp_path: Path
) -> None:
    found, said = json.loads(without(module, READ_A_FOLDER, folder, folder=tmp_path / "site"))
    there = sorted(path.name for path in folder.iterdir())
    assert found == [name for name in there if name not in NEEDS[module]]
    why = f"requires {LIBRARIES[module]}: {install_command('files')}"
    told = ", ".join(f"{name} ({why})" for name in NEEDS[module])
    files = "1 file" if len(NEEDS[module]) == 1 else f"{len(NEEDS[module])} files"
    guessed = "not UTF-8, encoding guessed (set it with encoding=latin-1 or another): latin.txt"
    assert said == [
        *([guessed] if "latin.txt" in found else []),
        *([f"{files} could not be read: {told}"] if told else []),
    ]


@pytest.mark.parametrize(
    ("module", "library", "name"),
    [
        ("python_calamine", "python-calamine", "book.xlsx"),
        ("zstandard", "zstandard", "table.csv.zst"),
        ("pypdfium2", "pypdfium2", "notes/paper.pdf"),
    ],
)
def test_a_single_file_that_needs_a_missing_library_is_refused(
    module: str, library: str, name: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    (tmp_path / "table.csv.zst").write_bytes(zstandard.compress(b"id,text\n1,tea\n"))
    path = tmp_path / name
    found, said = json.loads(without(module, READ_A_FOLDER, path, folder=tmp_path / "site"))
    assert (found, len(said)) == ([], 1)
    assert said[0].startswith(str(path))
    assert f"requires {library}: {install_command('files')}" in said[0]
