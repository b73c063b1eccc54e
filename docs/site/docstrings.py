"""Griffe extension: docstrings of this project as numpydoc has them.

Ours write `name : its meaning`, where numpydoc has a type, which is in the signature already; and
paragraphs and doctests may follow a list.
"""

from __future__ import annotations

import re

from griffe import Extension, Object

ITEM = re.compile(r"^(\w[\w, ]*?) : (.*(?:\n +.*)*)", re.MULTILINE)


class Numpydoc(Extension):
    """Rewrites each docstring."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of an object when it has been read."""
        if obj.docstring:
            obj.docstring.value = numpydoc(obj.docstring.value)


def numpydoc(text: str) -> str:
    """Order a docstring's paragraphs: prose, lists, doctests; put meanings below their names.

    >>> print(numpydoc("Add.\\n\\nParameters\\n----------\\na, b : numbers.\\n\\nRaises nothing."))
    Add.
    <BLANKLINE>
    Raises nothing.
    <BLANKLINE>
    Parameters
    ----------
    a
        numbers.
    b
        numbers.
    """
    prose, lists, tests = list[str](), list[str](), list[str]()
    for part in re.split(r"\n\s*\n", text):
        if re.match(r"\w+\n-{3,}\n", part):
            lists.append(ITEM.sub(_each, part))
        else:
            (tests if part.startswith(">>>") else prose).append(part)
    examples = ["Examples\n--------\n" + "\n".join(tests)] if tests else []
    return "\n\n".join([*prose, *lists, *examples])


def _each(item: re.Match[str]) -> str:
    """Repeat the meaning below each name, as Griffe gives all names the default of the first."""
    return "\n".join(f"{name}\n    {item[2]}" for name in item[1].split(", "))
