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
from pathlib import Path
from sysconfig import get_path

from slimdex.retrieval.documents import Document

PASSAGE = 900
"""Characters of a passage of a module, at most one line more."""
# fmt: off
MODULES = [
    "base64", "bisect", "calendar", "cmd", "codecs", "collections", "configparser",
    "contextlib", "copy", "csv", "difflib", "dis", "email.message", "filecmp", "fileinput",
    "fnmatch", "fractions", "ftplib", "functools", "getopt", "gettext", "glob", "gzip",
    "hashlib", "heapq", "html.parser", "imaplib", "json.decoder", "mimetypes", "numbers",
    "operator", "pathlib", "platform", "plistlib", "poplib", "pprint", "profile", "queue",
    "random", "sched", "selectors", "shelve", "shlex", "shutil", "smtplib", "socket",
    "statistics", "string", "tempfile", "textwrap", "timeit", "tokenize", "trace", "traceback",
    "urllib.parse", "uuid", "weakref", "webbrowser",
]
# fmt: on

NOTES = Path(__file__).with_suffix(".jsonl")
"""Name, text and query of each note."""
PROBLEMS = (
    "The customer writes: I cannot delete my account, the button does nothing.",
    "After the update the application shows a white page. My colleagues see the same.",
    "Export to CSV takes more than an hour. Is there a best practice for large tables?",
    "The invoice has the wrong year and the wrong address. Please send my documents again.",
    "Login fails with two factors since I have a new telephone.",
    "The search finds old articles first. How can I sort by time?",
    "Printing from the web page cuts the right margin of every sheet.",
    "The scheduled job ran twice at the end of the month; the report counts money double.",
)
# fmt: off
SURNAMES = [
    "Kowalczyk", "Okonkwo", "Lindqvist", "Baptista", "Haraldsen", "Petrosyan", "Nakamura",
    "Vandermeer", "Castellanos", "Dragomir", "O'Sullivan", "Thorvaldsen", "Mbeki", "Zielinski",
    "Ferreira", "Kaminski", "Abernathy", "Rasmussen", "Delacroix", "Yamashita",
]
# fmt: on
GOODS = (
    "desk lamp",
    "office chair",
    "water filter",
    "paper, A4",
    "toner, black",
    "monitor arm",
    "keyboard",
)


def documents() -> Iterator[Document]:
    """Yield the notes, tickets and orders, and passages of the modules."""
    for note in _notes():
        yield Document(f"notes/{note['name']}", note["text"])
    for i in range(40):
        text = f"{PROBLEMS[i % 8]} The log ends with error {code(i)}."
        yield Document(f"tickets/T-{7100 + i}", text)
    for i in range(40):
        goods = f"{1 + i % 5} x {GOODS[i % 7]}, {2 + i % 3} x {GOODS[(i + 3) % 7]}"
        text = f"Order of {SURNAMES[i % 20]}: {goods}. To be sent by mail."
        yield Document(f"orders/ORD-{20400 + 7 * i}", text)
    for module in MODULES:
        for number, text in enumerate(passages(module)):
            yield Document(f"code/{module}/{number}", text)


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield id, text and the document that answers it; ids begin with `meaning` or `name`."""
    for note in _notes():
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
        ("textwrap", "fill"),
        ("difflib", "get_close_matches"),
        ("shutil", "copytree"),
        ("statistics", "harmonic_mean"),
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


def _notes() -> list[dict[str, str]]:
    return [json.loads(line) for line in NOTES.read_text(encoding="utf-8").splitlines()]
