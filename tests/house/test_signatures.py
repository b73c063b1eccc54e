"""Signatures: what travels as one object is not passed on in pieces."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("indexes", "retrieval", "bench", "slimdex")
MOST = 10


class Signature(NamedTuple):
    """A function, and the names of its parameters."""

    place: str
    name: str
    parameters: list[str]


@cache
def signatures() -> list[Signature]:
    """Signatures of all functions and methods, wherever they are defined."""
    found = list[Signature]()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    given = node.args
                    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
                    place = path.relative_to(ROOT).as_posix()
                    found.append(Signature(place, node.name, names))
    return found


@pytest.mark.parametrize(("name", "most"), [("candidates", 10), ("progress", 15)])
def test_a_parameter_is_in_few_signatures(name: str, most: int) -> None:
    found = [f"{one.place}: {one.name}" for one in signatures() if name in one.parameters]
    assert 0 < len(found) <= most, "\n".join(found)


def test_no_function_has_many_parameters() -> None:
    for place, name, parameters in signatures():
        assert len(parameters) <= MOST, f"{place}: {name} has {len(parameters)}"
