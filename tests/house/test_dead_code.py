"""Nothing in source is left that nothing uses."""

from __future__ import annotations

from pathlib import Path

from tests.house.dead_code import dead

SOURCE = """
import library
from typing import Protocol

USED, UNUSED = 1, 2

class Plain(Protocol):
    def asked(self): return USED
    def shown(self): ...
    def alone(self): return self.alone()
    def named(self): "alone"

class Child(library.Base):
    def overridden(self): ...

@library.command()
def registered():
    return Plain().asked(), getattr(Child(), "named")

def recursive():
    return recursive()
"""


def test_nothing_is_dead() -> None:
    assert dead() == []


def test_what_counts_as_a_use(tmp_path: Path) -> None:
    for name, text in {
        "indexes/one.py": SOURCE,
        "retrieval/two.py": "from ..indexes.three import imported\nprint(imported)\n",
        "indexes/three.py": "def imported(): ...\nclass Exported:\n    def public(self): ...\n"
        "    def _private(self): ...\n",
        "slimdex/__init__.py": "from .indexes.three import Exported\n",
        "README.md": "Call `plain.shown()`.\n",
        "docs/page.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [line.partition(": ")[2] for line in dead(tmp_path)]
    assert found == ["UNUSED", "alone", "recursive", "_private"]
