"""Pages of the Python interface, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from pydoc import locate
from typing import Any

import griffe
from command_pages import options_of, plain

import slimdex
from slimdex.indexes.options import Choices
from slimdex.retrieval.cli.settings import SettingsOptions

ROOT = Path(__file__).parents[2]
GROUPS = {
    "Documents and searches": ("Collection", "Document", "Hit", "SearchRequest", "Target"),
    "Encoders": ("TransformerEncoder", "StaticEncoder", "HttpEncoder", "GivenEncoder"),
    "Errors": ("SlimdexError", "InputError", "CorruptError", "InUseError"),
}
"""Headings and their names; other public names come under the last heading."""
ELSEWHERE = ("Settings", "__version__")
"""Public names that have a page of their own, or need none."""
WIDTH = 80
"""Characters of the longest signature in one line."""
SECTION = re.compile(r"(\w+)\n-{3,}\n")
ITEM = re.compile(r"^(\w[\w, ]*?)(?: :|$)((?:.*)(?:\n +.*)*)", re.MULTILINE)


def python_page() -> str:
    """Write the page of all public names."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = [name for name in slimdex.__all__ if name not in (*grouped, *ELSEWHERE)]
    lines = [
        "# Python reference",
        "All names are imported from `slimdex`. [Python](../python.md) is the tutorial, and "
        "[settings](settings.md) have a page of their own.",
    ]
    for heading, names in {**GROUPS, "More": tuple(rest)}.items():
        lines += [f"## {heading}", *chain.from_iterable(map(described, names))]
    return "\n\n".join(lines)


def settings_page() -> str:
    """Write the page of settings: a list from the command line's help, then the class."""
    defaults = Choices().as_dict()
    lines = [
        "# Settings reference",
        "How vectors are reduced, coded and rescored: options of `slimdex build` and `slimdex "
        "reduce`, fields of `slimdex.Settings`, and the body of `POST /indexes/NAME/reduce`. "
        "[How it works](../how-it-works.md) explains them; [tuning](../tuning.md) chooses them.",
    ]
    helps = options_of("reduce")
    for name, default in defaults.items():
        default = "auto" if default is None else default
        lines.append(f"`{name}`, by default `{default}`\n:   {plain(helps[name])}")
    assert set(defaults) == set(vars(SettingsOptions()))
    return "\n\n".join([*lines, "## In Python", *described("Settings")])


@cache
def package() -> griffe.Object | griffe.Alias:
    """Read the package, without importing it."""
    return griffe.load("slimdex", search_paths=[ROOT], resolve_aliases=True)


def described(name: str) -> Iterator[str]:
    """Describe a public name and, of a class, its public members that have a docstring."""
    public = target(package().members[name])
    yield heading(3, f"slimdex.{name}", name, public)
    yield from description(public)
    if isinstance(public, griffe.Class):
        # Attributes before methods, and inherited members before the class's own.
        members = [each for each in public.all_members.values() if is_shown(each)]
        members.sort(key=lambda each: (each.is_function, not each.inherited, each.lineno))
        for member in members:
            yield heading(4, f"slimdex.{name}.{member.name}", member.name, target(member))
            yield from description(target(member))


def target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return what a name stands for, where it is defined."""
    return found.final_target if isinstance(found, griffe.Alias) else found


def is_shown(member: griffe.Object | griffe.Alias) -> bool:
    """Whether a member is public, and says what it is for."""
    is_private = member.name.startswith("_") and not member.name.endswith("__")
    return bool(member.docstring) and not is_private


def heading(level: int, place: str, name: str, found: griffe.Object) -> str:
    """Write a heading, with parentheses after a function's name in the table of contents."""
    label = f' data-toc-label="{name}()"' if found.is_function else ""
    words = f"{name} {{ #{place}{label} }}".replace("_", r"\_")  # else `__len__` is bold
    return f"{'#' * level} {words}"


def description(found: griffe.Object) -> Iterator[str]:
    """Yield the signature and the docstring.

    The signature of a class without described parameters is left out: users don't call it.
    """
    text = found.docstring.value if found.docstring else ""
    if "options" in getattr(found, "parameters", ()):  # help of each is in the running code
        text = inspect.getdoc(locate(found.path)) or ""
    has_parameters = "dataclass" in found.labels or "Parameters\n---" in text
    if has_parameters or not found.is_class:
        yield f"```python\n{signature(found)}\n```"
    yield from sections(text, found)


def signature(found: griffe.Object) -> str:
    """Write how an object is called, with a line for each parameter if they are many."""
    if isinstance(found, griffe.Attribute):
        default = f" = {found.value}" if found.value and "property" not in found.labels else ""
        return f"{found.name}: {found.annotation}{default}"
    assert isinstance(found, griffe.Class | griffe.Function)
    calls = [*(found.overloads or ()), found] if isinstance(found, griffe.Function) else [found]
    return "\n".join(map(call, calls))


def call(found: griffe.Class | griffe.Function) -> str:
    """Write one way to call an object."""
    words = list(parameters(found))
    returns = f" -> {found.returns}" if isinstance(found, griffe.Function) else ""
    start = f"class {found.name}" if found.is_class else found.name
    for label in sorted(found.labels & {"classmethod", "dataclass", "staticmethod"}):
        start = f"@{label}\n{start}"
    line = f"{start}({', '.join(words)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{start}(\n" + "".join(f"    {each},\n" for each in words) + f"){returns}"


def parameters(found: griffe.Class | griffe.Function) -> Iterator[str]:
    """Write each parameter, with `*` before the keyword-only ones."""
    keyword = griffe.ParameterKind.keyword_only
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    previous_kind = None
    for each in found.parameters:
        if each.name in ("self", "cls"):
            continue

        # Write `*` before the first keyword-only parameter, unless `*args` precedes it.
        is_after_star = previous_kind in (keyword, griffe.ParameterKind.var_positional)
        if each.kind is keyword and not is_after_star:
            yield "*"
        previous_kind = each.kind

        # Griffe gives `*args` and `**keywords` a default, too.
        has_default = each.default is not None and each.kind not in stars
        default = f" = {default_of(each)}" if has_default else ""
        yield f"{stars.get(each.kind, '')}{each.name}: {each.annotation}{default}"


def default_of(parameter: griffe.Parameter) -> str:
    """Write a default as the code does: Griffe changes the quotes.

    The default of an option of a search is the first argument of `option`.
    """
    default: Any = parameter.default
    if isinstance(default, griffe.ExprCall) and str(default.function) == "option":
        default = default.arguments[0]
    return str(default).replace("'", '"')


def sections(text: str, found: griffe.Object) -> Iterator[str]:
    """Yield a docstring's paragraphs in order: prose, sections such as Parameters, doctests."""
    prose = list[str]()
    lists = list[str]()
    tests = list[str]()
    for part in re.split(r"\n\s*\n", text):
        title = SECTION.match(part)
        if title:
            lists += section(title[1], part[title.end() :], found)
        elif part.startswith(">>>"):
            tests.append(part)
        else:
            prose.append(part)
    examples = ["**Examples**", "```pycon\n" + "\n".join(tests) + "\n```"] if tests else []
    yield from [*prose, *lists, *examples]


def section(title: str, text: str, found: griffe.Object) -> Iterator[str]:
    """Write a section of a docstring: `name : meaning`, or the name and its meaning below it.

    Raises KeyError for a parameter that does not exist.
    """
    yield f"**{title}**"
    if title == "Returns":
        yield text
        return
    lines = []
    for names, meaning in ITEM.findall(text):
        for name in names.split(", "):
            shown = f"**`{name}`**{type_of(name, title, found)}"
            lines.append(f"- {shown} – {' '.join(meaning.split())}")
    yield "\n".join(lines)


def type_of(name: str, title: str, found: griffe.Object) -> str:
    """Write the type and default of a parameter or attribute, as far as the code names them."""
    if title == "Parameters":
        assert isinstance(found, griffe.Class | griffe.Function)
        each = found.parameters[name]
        default = "" if each.default is None else f", default `{default_of(each)}`"
        return f" (`{each.annotation}`{default})"
    member = found.all_members.get(name) if title == "Attributes" else None
    annotation = getattr(member, "annotation", None)
    return f" (`{annotation}`)" if annotation else ""
