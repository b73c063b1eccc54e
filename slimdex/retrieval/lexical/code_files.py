"""Code files: what the name and the definitions of a file of source code say about it.

A path tells whether a file is code, and whether it is a test or an example, by the names that
languages and their tools agree on: ``context_test.go``, ``src/test/java``, ``examples/``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from ..documents import Document
from .tokens import stems_of, words_of

CODE = frozenset([
    ".py", ".pyi", ".pyx", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".tsx", ".java", ".kt",
    ".kts", ".scala", ".groovy", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".m",
    ".mm", ".cs", ".go", ".rs", ".swift", ".rb", ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".sh",
    ".bash", ".zsh", ".ksh", ".fish", ".ps1", ".sql", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl",
    ".clj", ".el", ".lisp", ".scm", ".vim", ".zig", ".nim", ".dart", ".d", ".f90", ".f", ".pas",
    ".vb", ".tcl", ".css", ".scss", ".cmake", ".mk", ".proto", ".thrift", ".graphql", ".tf",
])  # fmt: skip
"""Endings of files of source code."""
TEST = frozenset(["test", "tests"])
TEST_FOLDERS = frozenset([
    "bench", "benches", "benchmark", "benchmarks", "demo", "demos", "e2e", "example", "examples",
    "fixture", "fixtures", "mocks", "sample", "samples", "spec", "specs", "testdata", "testing",
])  # fmt: skip
"""Words of folders whose code shows or tests other code; a file's name may have them otherwise."""
SPECS = frozenset(["spec", "specs"])
"""Last words of the names of tests; alone, one may be a specification."""
FOLDER_MODULES = frozenset(["__init__", "index", "mod"])
"""Names of files that stand for their folder: of Python, JavaScript and Rust."""
SEPARATORS = re.compile(r"[^\w$]+")
CONSTANT = re.compile(
    r"^(?:#[ \t]*define[ \t]+(?P<defined>\w+)|"
    r"(?:(?:export|pub(?:\([\w ]+\))?|public|private|internal|static|final|const|constexpr|let|"
    r"var|val|readonly|declare|local)[ \t]+)*+"
    r"(?P<assigned>[A-Za-z_$][\w$]*+)[ \t]*+(?::[^=\n]*+)?:?=(?!=))",
    re.MULTILINE,
)
"""A constant that is not indented, or a macro of C."""
GROUP = re.compile(r"^(?:const|var)[ \t]*\(\n(?P<lines>(?:[ \t].*\n|\n)*+)\)", re.MULTILINE)
"""A group of constants in Go."""
IN_GROUP = re.compile(r"^\t(?P<assigned>\w++)(?:[ \t][^=\n]*+)?=(?!=)", re.MULTILINE)
LIKE_A_CONSTANT = re.compile(r"[A-Z][A-Z\d]+|.*(?:[a-z\d][A-Z]|[A-Za-z\d]_[A-Za-z\d]).*")
"""Names in capitals or of several words; other names could be words of a question."""


class Definition(NamedTuple):
    """A class, function or outermost constant that a file defines.

    Attributes
    ----------
    path : its name after those of the classes and modules around it.
    start : where it begins in the text, in characters.
    passage : number of the passage in which that is.
    """

    path: tuple[str, ...]
    start: int
    passage: int


class CodeFile(NamedTuple):
    """Facts about a document that the ranking of code uses.

    Attributes
    ----------
    is_code : False for documents that are beside the code, such as a README.
    is_test : whether it is a test or an example.
    name_stems : stems of each word of the file's name, or of its folder's if it stands for that.
    whole_stems : stems of this name in one word.
    definitions : last name in lower case -> definitions with this name; none unless it is code.
    """

    is_code: bool
    is_test: bool
    name_stems: tuple[frozenset[str], ...]
    whole_stems: frozenset[str]
    definitions: Mapping[str, list[Definition]]

    @classmethod
    def of(cls, document: Document) -> CodeFile:
        """Read a document's path and the headings of its parts.

        >>> file = CodeFile.of(Document("http/requestLogger_test.go", ""))
        >>> file.is_code, file.is_test, [sorted(stems) for stems in file.name_stems]
        (True, True, [['request'], ['logger'], ['test']])
        """
        is_code = document.metadata.get("kind") == "code" or is_code_path(document.id)
        name = _module_name(document.id)
        return cls(
            is_code=is_code,
            is_test=is_code and is_test_path(document.id),
            name_stems=tuple(frozenset(stems_of(word)) for word in name_words_of(name)),
            whole_stems=frozenset(stems_of(name.lower())),
            definitions=_definitions(document) if is_code else {},
        )

    def share_in(self, stems: frozenset[str]) -> float:
        """Share of the words of its name that a query with these stems has, 0 to 1."""
        if not self.name_stems:
            return 0.0
        if self.whole_stems <= stems:  # the query has the whole name as one word
            return 1.0
        shared = sum(not stems.isdisjoint(word) for word in self.name_stems)
        return shared / len(self.name_stems)


def is_code_path(path: str) -> bool:
    """Whether a document's id is the path of a file of source code.

    >>> is_code_path("src/Main.java"), is_code_path("README.md"), is_code_path("os.path")
    (True, False, False)
    """
    _, dot, ending = path.rpartition(".")
    return bool(dot) and f".{ending.lower()}" in CODE


def is_test_path(path: str) -> bool:
    """Whether a path is that of a test or an example.

    >>> [is_test_path(path) for path in ("a/JsonTest.java", "_examples/a.go", "App.Tests/a.cs")]
    [True, True, True]
    >>> [is_test_path(path) for path in ("attestation.go", "http/sample_rate.py", "latest/a.rb")]
    [False, False, False]
    """
    # A test is in a folder of tests, or is named like one.
    *folders, _ = PurePosixPath(path).parts or ("",)
    for folder in folders:
        words = name_words_of(folder)
        if not TEST.isdisjoint(words) or "".join(words) in TEST_FOLDERS:
            return True
    words = name_words_of(PurePosixPath(path).stem)
    first_and_last = [*words[:1], *words[-1:]]
    if not TEST.isdisjoint(first_and_last):
        return True
    return words == ["conftest"] or (len(words) > 1 and words[-1] in SPECS)


def name_words_of(name: str) -> list[str]:
    """Words of a name in snake, kebab or camel case, in lower case.

    >>> name_words_of("basic_auth"), name_words_of("JsonTreeReader"), name_words_of("user.service")
    (['basic', 'auth'], ['json', 'tree', 'reader'], ['user', 'service'])
    """
    words = list[str]()
    for part in re.split(r"[\W_]+", name):
        word, *humps = words_of(part) or [""]  # the parts follow a camel-case word
        words += humps or [word]
    return [*filter(None, words)]


def _module_name(path: str) -> str:
    """Name of a file without its last ending, or of its folder if it stands for that."""
    file = PurePosixPath(path)
    return file.parent.name if file.stem in FOLDER_MODULES and file.parent.name else file.stem


def _definitions(document: Document) -> dict[str, list[Definition]]:
    """Definitions of a document by their last names: headings of its parts, and constants."""
    starts = dict[tuple[str, ...], int]()
    for part in document.parts:
        path = tuple(chain.from_iterable(map(parts_of_name, part.headings)))
        if path:
            starts.setdefault(path, part.start)  # a part goes on after an inner definition
    for name, start in _constants(document.text):
        starts.setdefault((name,), start)

    # A definition's passage follows all passages that end at or before its start.
    by_last_name = defaultdict[str, list[Definition]](list)
    ends = [end for _, end in document.passages[:-1]]
    for path, start in starts.items():
        definition = Definition(path, start, passage=bisect_right(ends, start))
        by_last_name[path[-1].lower()].append(definition)
    return dict(by_last_name)


def _constants(text: str) -> Iterator[tuple[str, int]]:
    r"""Yield names of outermost constants of several words or in capitals, and where they begin.

    >>> list(_constants("LIMIT = 3\nexport const maxAge: number = 9;\nx = maxAge\n  MIN = 1\n"))
    [('LIMIT', 0), ('maxAge', 10)]
    >>> list(_constants("const (\n\tMaxAge = 3\n\tname = 4\n)\n#define BUF_SIZE 8\n"))
    [('MaxAge', 8), ('BUF_SIZE', 32)]
    """
    names = list[tuple[str, int]]()
    for group in GROUP.finditer(text):
        for match in IN_GROUP.finditer(text, *group.span("lines")):
            names.append((match["assigned"], match.start()))
    for match in CONSTANT.finditer(text):
        names.append((match["assigned"] or match["defined"], match.start()))
    for name, start in names:
        if LIKE_A_CONSTANT.fullmatch(name):
            yield name, start


def parts_of_name(name: str) -> list[str]:
    """Parts of a qualified name, of any language.

    >>> parts_of_name("Rack::Builder"), parts_of_name("Mux.ServeHTTP"), parts_of_name("a->b()")
    (['Rack', 'Builder'], ['Mux', 'ServeHTTP'], ['a', 'b'])
    """
    return [*filter(None, SEPARATORS.split(name))]
