"""Missing libraries of the extra `files`: what needs one is told by name, the rest is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval.sources.files.formats.readers import LIBRARIES
from slimdex.retrieval.sources.files.packed import zstd_library
from slimdex.system.extras import install_command

from .test_books import lines, pdf_file

READ = """
import json, sys
from slimdex.errors import InputError
from slimdex.retrieval.sources.source import open_source

for name in sys.argv[1:]:
    try:
        source = open_source(name)
        found = [document.id for batch in source.batches() for document in batch]
        print(json.dumps([found, source.omissions()]))
    except InputError as error:
        print(json.dumps([[], [str(error)]]))
"""
NEEDS = {
    "lxml": ["feed.xml"],
    "selectolax": ["page.html"],
    "markdown_it": ["letter.md", "note.md"],
    "pypdfium2": ["paper.pdf"],
    "charset_normalizer": ["latin.txt"],
    "dateutil": ["mail.eml"],
    "backports": ["packed.txt.zst"] if sys.version_info < (3, 14) else [],
}
"""Module -> which of the files need it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "page.html").write_text("<p>A page.")
    (notes / "feed.xml").write_text("<a><p>A feed.</p></a>")
    (notes / "note.md").write_text("# A note\n\nAnd a text.")
    (notes / "letter.md").write_text("---\ntags: [hot]\n---\n# Tea\n\nBoil water.")
    (notes / "manual.rst").write_text("Manual\n======\n\nTurn it on.")
    (notes / "paper.pdf").write_bytes(pdf_file([lines(b"A paper")]))
    words = "Der Kessel fängt an zu brüllen, die Größe des Raumes hält ihn nicht. "
    (notes / "latin.txt").write_bytes(words.encode("latin-1") * 20)
    (notes / "packed.txt.zst").write_bytes(zstd_library().compress(b"packed"))
    (notes / "mail.eml").write_text("From: Ann\nDate: 2024/05/01\n\nBoil water.")
    (notes / "plain.txt").write_text("plain")
    (notes / "code.c").write_text("int f(void) {\n}\n")
    return notes


def read_without(modules: list[str], paths: list[Path], site: Path) -> list[Any]:
    """Read paths in a process in which, as in its children, modules can't be imported."""
    site.mkdir()
    lines = "".join(f"sys.modules[{module!r}] = None\n" for module in modules)
    (site / "sitecustomize.py").write_text(f"import sys\n{lines}")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_files_that_need_a_missing_library_are_reported(folder: Path, tmp_path: Path) -> None:
    assert {*NEEDS, "yaml"} == set(LIBRARIES)
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    paths = [folder, tmp_path / "book.xlsx"]
    modules = [*NEEDS, "tree_sitter", "python_calamine"]
    (found, said), (_, (refused,)) = read_without(modules, paths, tmp_path / "site")
    assert f"requires python-calamine: {install_command('files')}" in refused
    needed = {name: module for module, names in NEEDS.items() for name in names}
    assert found == [path.name for path in sorted(folder.iterdir()) if path.name not in needed]
    assert [line for line in said if line.startswith("cut by keywords") and "code.c" in line]
    (unread,) = (line for line in said if line.startswith("could not be read"))
    for name, module in needed.items():
        assert f"{name} (requires {LIBRARIES[module]}: {install_command('files')})" in unread
