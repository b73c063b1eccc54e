"""Names in the maintainers' pages: files, folders and classes exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "slimdex"
PAGES = ("docs/architecture.md", "docs/file-format.md", "CONTRIBUTING.md")
EXTERNAL = {"DeprecationWarning", "LockFileEx"}
"""Names in these pages that belong to Python or Windows."""
ENDINGS = "py|md|toml|yml|txt|html|cff"
PATH = re.compile(rf"\.?[\w-]+(?:/[\w.-]+)*(?:\.(?:{ENDINGS})|/)|[\w-]+(?:/[\w.-]+)+")
CLASS = re.compile(r"(?:[A-Z]+[a-z]\w*|[A-Z]{2,})(?:\.\w+)?")
GENERATED = (".venv/", "build/")


def spans(page: str) -> set[str]:
    """Return inline code, but not code blocks."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", text))


@cache
def source() -> str:
    """Return the source of the package and its tests as one text."""
    paths = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def is_path_there(name: str) -> bool:
    """Return whether a path exists; a name without a folder may be anywhere in the package."""
    if (ROOT / name).exists() or name.startswith(GENERATED):
        return True
    return "/" not in name and any(PACKAGE.rglob(name))


def is_name_there(name: str) -> bool:
    """Return whether a class, type or constant, and a method after a dot, is defined."""
    owner, _, member = name.partition(".")
    defined = re.search(rf"^(?:class|type) {owner}\b|^{owner}(?:: .+?)? =", source(), re.MULTILINE)
    return defined is not None and (not member or f"def {member}(" in source())


def missing(page: str) -> Iterator[str]:
    """Yield names in a page that do not exist.

    >>> [*missing("`Collection`, `Colection`, `slimdex/cli.py`, `kinds.py` and `Index.reed`")]
    ['Colection', 'Index.reed', 'slimdex/cli.py']
    """
    for name in sorted(spans(page)):
        if PATH.fullmatch(name):
            is_there = is_path_there(name)
        elif CLASS.fullmatch(name) and name not in EXTERNAL:
            is_there = is_name_there(name)
        else:
            is_there = True
        if not is_there:
            yield name


def misplaced(page: str) -> Iterator[str]:
    """Yield claims "NAME in FILE" of a page whose file does not define the name.

    >>> [*misplaced("`GRID` in `slimdex/indexes/options.py`, `KINDS` in `kinds.py`")]
    ['GRID in slimdex/indexes/options.py']
    """
    for name, file in re.findall(r"`(\w+)`\s+\(?(?:in|of)\s+`([\w/]+\.py)`", page):
        paths = [ROOT / file] if (ROOT / file).exists() else PACKAGE.rglob(file)
        texts = [path.read_text(encoding="utf-8") for path in paths]
        if not any(re.search(rf"^(?:def |class )?{name}\b", text, re.MULTILINE) for text in texts):
            yield f"{name} in {file}"


def tree_paths(tree: str) -> Iterator[Path]:
    """Yield the paths in a tree, in which two spaces separate names from descriptions.

    >>> [path.as_posix() for path in tree_paths("a/    x\\n  b.py     y\\n  c/ d/   z\\ntests/  t")]
    ['a', 'a/b.py', 'a/c', 'a/d', 'tests']
    """
    folder = Path()
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        names = [name for name in line.strip().partition("  ")[0].split() if is_file_name(name)]
        if indent == 0:
            folder = Path(names[0])
            yield folder
        elif indent == 2:
            yield from (folder / name for name in names)


def is_file_name(word: str) -> bool:
    return re.fullmatch(r"\w+(?:/|\.py)", word) is not None


def test_pages_name_what_is_there() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert len(spans(text)) > 10, page
        assert [*missing(text), *misplaced(text)] == [], page


def test_the_tree_of_the_architecture_is_that_of_the_package() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tree = text.partition("```text\n")[2].partition("```")[0]
    paths = [*tree_paths(tree)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = {path.name for path in paths if path.parent.name == "retrieval"}
    folders = {path.parent.name for path in (PACKAGE / "retrieval").glob("*/__init__.py")}
    assert folders - named == set()


def test_the_package_names_pages_and_tests_that_are_there() -> None:
    """Doctests may use names that do not exist."""
    paths = sorted(PACKAGE.rglob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    prose = re.sub(r"^ *(?:>>>|\.\.\.) .*\n.*$", "", text, flags=re.MULTILINE)
    named = re.findall(r"(?<![\w/.-])((?:docs|tests|slimdex)/[\w/-]+\.(?:py|md|toml))", prose)
    assert len(named) > 3
    assert [name for name in named if not (ROOT / name).exists()] == []
