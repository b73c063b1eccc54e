"""Links: what supports the figures of a page, and which figures nothing supports."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from slimdex.bench.rows import FOLDER, Row, read_rows

from .numbers_in_pages import numbers, prose

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Figure:
    """Figures of a page that one source supports.

    Attributes
    ----------
    quote : words of the page's prose (spaces folded, without code) around the figures.
    values : their values, in the order of the quote, of rows, published tables or constants.
    test : instead, the test that asserts them, as path::name; its source holds each number.
    """

    quote: str
    values: Callable[[], Sequence[float]] | None = None
    test: str = ""

    def faults(self, text: str) -> Iterator[str]:
        """What is wrong with it, given the page's prose."""
        stated = list(numbers(self.quote))
        if self.quote not in text:
            yield f"not in the page: {self.quote!r}"
        elif self.values is not None:
            values = list(self.values())
            if len(values) != len(stated):
                yield f"{len(stated)} figures and {len(values)} values: {self.quote!r}"
            for number, value in zip(stated, values, strict=False):
                if not number.agrees(value):
                    yield f"{number.text} is {value:.6g}: {self.quote!r}"
        else:
            found = numbers_of_test(self.test)
            for number in stated:
                if number.value not in found:
                    yield f"{number.text} is not in {self.test}: {self.quote!r}"


@cache
def numbers_of_test(name: str) -> frozenset[float]:
    """The numbers in a test's source, in its code, strings and decorators."""
    path, _, function = name.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    bodies = [
        ast.get_source_segment(source, node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    decorators = [
        ast.get_source_segment(source, each) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == function
        for each in node.decorator_list
    ]
    text = " ".join([*bodies, *decorators]).replace("_", "")
    return frozenset(stated.value for stated in numbers(text.replace("(", " ( ")))


@cache
def _rows(experiment: str) -> list[Row]:
    return read_rows(FOLDER, experiment)


def rows(experiment: str, **where: Any) -> list[Row]:
    """The stored rows of an experiment of which all these columns have these values.

    Raises
    ------
    LookupError
        If there are none.
    """
    found = [
        row for row in _rows(experiment) if all(row.get(name) == where[name] for name in where)
    ]
    if not found:
        raise LookupError(f"no rows of {experiment} with {where}")
    return found


def row(experiment: str, **where: Any) -> Row:
    """The one stored row with these values.

    Raises
    ------
    LookupError
        If there is none, or more than one.
    """
    found = rows(experiment, **where)
    if len(found) > 1:
        raise LookupError(f"{len(found)} rows of {experiment} with {where}")
    return found[0]


def unsupported(page: Path, figures: Sequence[Figure]) -> list[str]:
    """What is wrong with a page's figures: of its links, and numbers without one."""
    text = prose(page.read_text(encoding="utf-8"))
    faults = [fault for figure in figures for fault in figure.faults(text)]
    linked = set[int]()
    for figure in figures:
        start = text.find(figure.quote)
        while start >= 0:
            linked.update(start + number.start for number in numbers(figure.quote))
            start = text.find(figure.quote, start + 1)
    faults += [
        f"no source: {number.text} in '{text[max(0, number.start - 50) : number.start + 40]}'"
        for number in numbers(text)
        if number.start not in linked
    ]
    return [f"{page.name}: {fault}" for fault in faults]
