"""Trees of source code without the comments that describe functions, which become questions.

A question is the first sentence of a function's docstring or of the comment directly above it. It
has some words, is asked of one function only, and does not name it.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from slimdex.indexes.errors import InputError
from slimdex.retrieval.sources.files.formats.definitions.definition import Definition
from slimdex.retrieval.sources.files.formats.source_code import definitions

STDLIB = "stdlib"
"""Tree available everywhere: Python's standard library, without tests and what is installed."""
LEFT_OUT = {"test", "tests", "site-packages", "__pycache__", "idlelib", "lib2to3", "turtledemo"}
ENDINGS = (".py", ".c", ".h", ".js")
LARGEST = 1_000_000
"""Longest file, in characters; longer ones are generated."""
FEWEST_WORDS, MOST_WORDS = 5, 40
_COMMENT = re.compile(r"\s*(/\*.*?\*/|//[^\n]*)[ \t]*(\n|$)", re.DOTALL)
_MARKS = re.compile(r"^\s*(/\*+|\*+/|\*|///?)|\*+/\s*$", re.MULTILINE)
_TAG = re.compile(r"(?m)^\s*[@\\]\w+|^\s*-{3,}|^\s*={3,}")
_SENTENCE = re.compile(r"[.:;](\s|$)|\n\s*\n")
_FUNCTION = re.compile(
    r"(?!\s*(?:typedef|struct|enum|union|#|(?:export\s+)?(?:default\s+)?class)\b)"
)


@dataclass(frozen=True)
class Question:
    """A description of a function: its file, and its first and last line there, from 1."""

    text: str
    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Tree:
    """Files without the descriptions: path -> text."""

    name: str
    files: Mapping[str, str]
    questions: Sequence[Question]


def read_tree(name: str, files: int, questions: int) -> Tree:
    """Read some files of `stdlib` or of a folder, evenly chosen by a seed, and their questions.

    Raises `InputError` if there are no descriptions.
    """
    root = Path(sysconfig.get_path("stdlib") if name == STDLIB else name)
    paths = [path for path in sorted(root.rglob("*")) if _is_read(path, root)]
    rng = np.random.default_rng(0)
    chosen = sorted(rng.permutation(len(paths))[:files].tolist())
    texts, asked = dict[str, str](), list[Question]()
    for path in (paths[i] for i in chosen):
        relative = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text) <= LARGEST:
            texts[relative], own = without_descriptions(relative, text)
            asked += own
    often = Counter(question.text for question in asked)
    asked = [question for question in asked if often[question.text] == 1]
    if not asked:
        raise InputError(f"{root}: no described functions; expected {', '.join(ENDINGS)}")
    some = sorted(rng.permutation(len(asked))[:questions].tolist())
    return Tree(root.name if name != STDLIB else STDLIB, texts, [asked[i] for i in some])


def without_descriptions(path: str, text: str) -> tuple[str, list[Question]]:
    r"""Remove the descriptions from a file of code, and return them as questions.

    >>> text = "/* Close the valve, and wait for it. */\nint shut(void)\n{\n}\n"
    >>> rest, questions = without_descriptions("a.c", text)
    >>> rest, questions[0].text, questions[0].first
    ('int shut(void)\n{\n}\n', 'Close the valve, and wait for it', 1)
    """
    ending = Path(path).suffix
    described = _docstrings if ending == ".py" else _comments
    found = list(definitions(text, ending))
    removed, texts = described(text, found)
    lines = [line for n, line in enumerate(text.split("\n"), start=1) if n not in removed]
    rest = "\n".join(lines)
    after = list(definitions(rest, ending))
    if [each.name for each in after] != [each.name for each in found]:
        return text, []  # without its description something else is recognised
    asked = [
        Question(sentence, path, now.line, now.end)
        for before, now in zip(found, after, strict=True)
        if (sentence := _sentence(texts.get(before.line, ""), before.name))
    ]
    return rest, asked


def _is_read(path: Path, root: Path) -> bool:
    inner = path.relative_to(root).parts
    return path.suffix in ENDINGS and not LEFT_OUT & {*inner} and path.is_file()


def _docstrings(text: str, found: Sequence[Definition]) -> tuple[set[int], dict[int, str]]:
    """Lines of all docstrings; the functions' docstrings by the first line of the function."""
    removed, texts = set[int](), dict[int, str]()
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError):
        return removed, texts
    for node in nodes:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring, first = ast.get_docstring(node), node.body[0]
        if docstring is None or len(node.body) == 1:
            continue
        removed |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        if not isinstance(node, ast.ClassDef):
            texts[min([node.lineno, *(d.lineno for d in node.decorator_list)])] = docstring
    return removed, texts


def _comments(text: str, found: Sequence[Definition]) -> tuple[set[int], dict[int, str]]:
    """Lines of all comments above definitions; those above functions by their first line."""
    removed, texts, lines = set[int](), dict[int, str](), text.split("\n")
    for each in found:
        own = "\n".join(lines[each.line - 1 : each.end])
        end = 0
        for comment in _leading(own):
            end = comment.end()
        above = own[:end]
        removed |= set(range(each.line, each.line + above.count("\n")))
        if above and _FUNCTION.match(own, end):
            texts[each.line] = _MARKS.sub("", above)
    return removed, texts


def _leading(text: str) -> Iterator[re.Match[str]]:
    """Comments at the beginning of a text."""
    place = 0
    while found := _COMMENT.match(text, place):
        yield found
        place = found.end()


def _sentence(text: str, name: str) -> str:
    """First sentence of a description; "" if it is no question."""
    kept = takewhile(lambda line: not _TAG.match(line), text.strip().split("\n"))
    sentence = " ".join(_SENTENCE.split("\n".join(kept), maxsplit=1)[0].split())
    words = re.findall(r"\w+", sentence)
    own = set(re.findall(r"\w{3,}", name)[-1:])
    is_asked = FEWEST_WORDS <= len(words) <= MOST_WORDS and not own & {*words}
    return sentence if is_asked else ""
