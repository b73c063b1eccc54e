"""Mixed folder: notes, tickets, orders and Python's modules, with paraphrases and names to find.

Private folders mix prose with code and records, where common words of a question are rare: "my" is
in few passages, and "world" in a docstring. Questions about notes share hardly a word with the
note, so that words of other passages match by chance. Questions for codes, surnames, functions and
misspelt ids can be answered by words alone. The texts were written for this set, but for those of
the modules, which are of the running Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from sysconfig import get_path
from typing import Any

from slimdex.retrieval.documents import Document

PASSAGE = 900
"""Characters of a passage of a module, at most one line more."""


def documents() -> Iterator[Document]:
    """Yield the notes, tickets and orders, and passages of the modules."""
    texts = _texts()
    for note in texts["notes"]:
        yield Document(f"notes/{note['name']}", note["text"])
    for i in range(40):
        text = f"{texts['problems'][i % 8]} The log ends with error {code(i)}."
        yield Document(f"tickets/T-{7100 + i}", text)
    for i in range(40):
        goods = [texts["goods"][n % 7] for n in (i, i + 3)]
        text = f"{1 + i % 5} x {goods[0]}, {2 + i % 3} x {goods[1]}. To be sent by mail."
        yield Document(
            f"orders/ORD-{20400 + 7 * i}", f"Order of {texts['surnames'][i % 20]}: {text}"
        )
    for module in texts["modules"]:
        for number, text in enumerate(passages(module)):
            yield Document(f"code/{module}/{number}", text)


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield id, text and the document that answers it; ids begin with `meaning` or `name`."""
    for note in _texts()["notes"]:
        yield f"meaning:{note['name']}", note["query"], f"notes/{note['name']}"
    for i in (3, 17, 30):
        yield f"name:{code(i)}", code(i), f"tickets/T-{7100 + i}"
    for i in (2, 23, 39):
        id = f"ORD-{20400 + 7 * i}"
        yield f"name:{id}", id, f"orders/{id}"
    for name in ("sourdogh", "vegtables", "migraene", "marathn"):
        known = {"sourdogh": "sourdough", "vegtables": "vegetables", "migraene": "migraine"}
        yield f"name:{name}", name, f"notes/{known.get(name, 'marathon')}"
    for module, function in (
        ("heapq", "heappushpop"),
        ("textwrap", "shorten"),
        ("csv", "sniff"),
        ("bisect", "insort_left"),
        ("string", "capwords"),
    ):
        found = [f"def {function}(" in text for text in passages(module)].index(True)
        yield f"name:{function}", f"{module} {function}", f"code/{module}/{found}"


def code(number: int) -> str:
    """The code of an error.

    >>> code(3)
    'E4031'
    """
    return f"E{4001 + 10 * number}"


def passages(module: str) -> list[str]:
    """The source of a module of the standard library, cut between lines."""
    path = Path(get_path("stdlib"), *module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    texts = [""]
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if len(texts[-1]) > PASSAGE:
            texts.append("")
        texts[-1] += line
    return texts


@cache
def _texts() -> dict[str, Any]:
    """Notes with their queries, problems of tickets, surnames, goods, and names of modules."""
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return found
