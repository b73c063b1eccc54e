"""Untrusted texts take time in proportion to their length, in patterns and in readers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import pytest

import slimdex
from slimdex.retrieval.cli.safe_text import visible
from slimdex.retrieval.documents import Hit
from slimdex.retrieval.lexical import tokens
from slimdex.retrieval.quality.query_pools import sentences
from slimdex.retrieval.search.excerpts import nearest_by_words, word_places
from slimdex.retrieval.sources.files import decoding, front_matter, kinds
from slimdex.retrieval.sources.files.formats import html_pages, markdown

from ..chance import CHANCE, sweep

ROOT = Path(slimdex.__file__).parent
FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub"}
ANCHORED = {"match", "fullmatch"}
MATCHED = {"FENCES"}
"""Patterns in dictionaries, which are matched at the beginning of a text."""
SOUGHT = {
    ("lexical/tokens.py", "_accents"),  # a set of letters
    ("search/excerpts.py", "_verbatim"),  # a query of limited length
    ("files/ignore_rules.py", "__init__"),  # a reader below
    ("formats/pdf.py", "_add_page"),  # the first characters of a title
    ("search/request.py", "_glob_regex"),  # 1,000 characters at most
    ("cluster/milvus_server.py", "is_ours"),  # an alias of 100 characters
}
"""Ends of the files, and the functions, that make a pattern from a text."""
LEAST, MOST = 16, 1 << 14
"""Lengths of the shortest and longest texts, in characters."""
TELLING_S, RESOLUTION_S = 0.05, 0.01
"""Processor time from which growth is measured, and the steps in which some systems count it."""
LONGER, MOST_GROWTH = 8, 24
"""A text `LONGER` times as long may take `MOST_GROWTH` times as long; quadratic time is 64."""

PART = 30
"""Texts that are tried for each pattern where sweeps are sampled; there are up to 2,000."""


class Pattern(NamedTuple):
    """A regular expression, where it is, and how it is used: "match", "fullmatch" or otherwise."""

    place: str
    compiled: re.Pattern[Any]
    use: str = "findall"


def seconds(function: Callable[[Any], object], text: Any, times: int = 1) -> float:
    """Processor time of some calls, whatever other processes do meanwhile."""
    begin = process_time()
    for _ in range(times):
        function(text)
    return process_time() - begin


def growth(function: Callable[[Any], object], made: Callable[[int], Any]) -> float:
    """How many times as long the function takes for a text that is `LONGER` times as long.

    0 if it takes too little time to measure. Lengths are doubled, so that exponential time is
    noticed while it still ends.
    """
    length = LEAST
    while (taken := seconds(function, made(length))) < TELLING_S:
        if length >= MOST:
            return 0.0
        length = length * 3 // 2 if length < 512 else 3 * length
    grown = 0.0
    for _ in range(3):  # again only if it looks bad
        shorter = seconds(function, made(length // LONGER), LONGER)
        grown = LONGER * taken / max(shorter, RESOLUTION_S)
        if grown <= MOST_GROWTH:
            break
        taken = seconds(function, made(length))
    return grown


class Source(NamedTuple):
    """A module's tree, the names that it imports, and the methods that it calls on a name."""

    tree: ast.Module
    imported: set[str]
    methods: set[tuple[str, str]]

    @classmethod
    def of(cls, path: Path) -> Source:
        tree = ast.parse(path.read_text("utf-8"))
        nodes = [*ast.walk(tree)]
        imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
        return cls(
            tree,
            {alias.name for node in imports for alias in node.names},
            {method for node in nodes if (method := method_of(node))},
        )


def method_of(node: ast.AST) -> tuple[str, str] | None:
    """The name and the attribute of an expression such as `NAME.search`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return None


def patterns() -> list[Pattern]:
    """All regular expressions of the package, by its source."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "bench" not in path.parts]
    sources = {path: Source.of(path) for path in paths}
    found = list[Pattern]()
    for path, source in sources.items():
        place = path.relative_to(ROOT).as_posix()
        for function, names, call in calls_of_re(source.tree):
            compiled = evaluated(call, path)
            if compiled is None:
                assert any(place.endswith(end) and function == name for end, name in SOUGHT), place
                continue
            uses = {ast.unparse(call.func).removeprefix("re.")}
            if names:
                (name,) = names
                using = [own for own in sources.values() if own is source or name in own.imported]
                uses = {method for own in using for known, method in own.methods if known == name}
                uses = {"match"} if name in MATCHED else uses & FUNCTIONS
            searches = not uses <= ANCHORED
            for use in {"findall"} if searches or not uses else uses:
                found.append(Pattern(f"{place}:{call.lineno}", compiled, use))
    return found


def calls_of_re(
    node: ast.AST, function: str = "", names: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], ast.Call]]:
    """Calls of functions of `re`, the functions that contain them, and what their results are
    named."""
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            names = (child.targets[0].id,)
        method = method_of(child.func) if isinstance(child, ast.Call) else None
        if isinstance(child, ast.Call) and method and method[0] == "re" and method[1] in FUNCTIONS:
            yield inner, names if method[1] == "compile" else (), child
        yield from calls_of_re(child, inner, names)


def evaluated(call: ast.Call, path: Path) -> re.Pattern[Any] | None:
    """The pattern of a call; None if it depends on an argument of the function."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    flags = [
        ast.unparse(node)
        for node in (inner for each in given for inner in ast.walk(each))
        if (method := method_of(node)) and method[0] == "re" and method[1].isupper()
    ]
    expression = f"re.compile({ast.unparse(call.args[0])}, {' | '.join(flags) or 0})"
    try:
        compiled: re.Pattern[Any] = eval(expression, {"re": re})
    except NameError:
        module = import_module(".".join(("slimdex", *path.relative_to(ROOT).with_suffix("").parts)))
        try:
            compiled = eval(expression, vars(module))
        except NameError:
            return None
    return compiled


def sample(pattern: str) -> str:
    """A text like those that a pattern matches: all of its parts once."""
    for part, text in (
        (r"\(\?<?!(?:[^()]|\([^()]*\))*\)", ""),
        (r"\[\^(\\.|[^\]])*\]", "x"),
        (r"\\s", " "),
        (r"\\W", "!"),
        (r"\\[Sw]", "a"),
        (r"\\d", "0"),
        (r"\\[nrt]", "\n"),
        (r"\[\\?([^\]])(\\.|[^\]])*\]", r"\1"),
        (r"\(\?P<\w+>|\(\?[a-z]+:|\(\?<?[>:=]|(?<!\\)[()|^$*+?]|\\[AZbB]|\{[\d,]+\}", ""),
        (r"\\(.)", r"\1"),
    ):
        pattern = re.sub(part, text, pattern)
    return pattern


def nasty(pattern: str) -> Iterator[tuple[str, str, str]]:
    """Beginnings, repeated units and ends of texts that a pattern might try again and again."""
    like = sample(pattern)[:60]
    letters = [*dict.fromkeys([*like[:12], "x", " ", "\n", "0"])]
    units = {*letters, *(one + other for one, other in product(letters[:8], repeat=2))}
    units |= {like[i : i + n] for n in (3, 8) for i in range(len(like) - n + 1)}
    ends = ["\0", "x", *(f"{sign}\0" for sign in re.findall(r"\[\^\\?(.)", pattern)[:1])]
    yield from product(("", "x", *(like[:n] for n in (1, 2, 60))), units, ends)
    yield from product(re.findall("[a-z]{3,}", pattern), " x", ["\0"])


def growth_of(pattern: Pattern, part: int = PART) -> Iterator[float]:
    """The growth for each nasty text, or for a part of them."""
    source = pattern.compiled.pattern
    is_text = isinstance(source, str)
    encode = str if is_text else str.encode
    function = getattr(pattern.compiled, pattern.use)
    texts = [*nasty(source if is_text else source.decode("latin-1"))]
    for beginning, unit, end in CHANCE.sample(texts, part):

        def made(length: int, beginning: str = beginning, unit: str = unit, end: str = end) -> Any:
            return encode(beginning + unit * (length // len(unit)) + end)

        yield growth(function, made)


@sweep
def test_regular_expressions_take_linear_time() -> None:
    found = patterns()
    assert len(found) > 80
    for pattern in found:
        assert max(growth_of(pattern)) <= MOST_GROWTH, (pattern.place, pattern.compiled.pattern)


def raw(read: Callable[[bytes], object]) -> Callable[[str], object]:
    """A function of bytes as one of text."""
    return lambda text: read(text.encode("utf-8", "surrogateescape"))


READERS: dict[str, Callable[[str], object]] = {
    "words": tokens.words_in,
    "names": tokens.id_terms,
    "names of a query": lambda text: (tokens.name_forms(text), tokens.misspelt_form(text)),
    "excerpts": lambda text: (
        nearest_by_words(text[:200], Hit("7", 1.0, text)),
        word_places(text, text),
    ),
    "sentences": sentences,
    "escapes": visible,
    "an attribute of HTML": raw(lambda data: html_pages.read(b"<meta content='" + data + b"'>")),
    "HTML": raw(html_pages.read),
    "dates": front_matter.moment,
    "reStructuredText": markdown.read_rst,
    "kinds of files": raw(partial(kinds.kind_of, "")),
    "encodings": raw(decoding.decode_text),
}
UNITS = (
    *("89ab", "a ", "a, ", "a.", "a-", "_a", "aB", "é", "e\u0301", "\u0301", "\xad", "a\u200b"),
    *("\udc80", "向", "ก", "İ", "ﬃ", "\n", "\n\n", " ", "\t", "\r", " \n", "\x00", "1", "1."),
    *("-1 ", "- ", "* ", "*", "**a ", "_", "`", "`a", "~", "#", "# a\n", "= \n", "a\n=\n", "> "),
    *(">", "<", "<a ", "<a>", "</a>", "<!--", "<!-- ", "<!--x-->", "-->", "]]>", "<![CDATA["),
    *("<p>", "<td>", "<p>x", "<b x=", "&#", "&amp;", "[", "[a](", "![", "](", "[a]: b\n", "|"),
    *("a|b\n-|-\n", "{", "{\\", "{#a", "}", "(", "((a)", ")", '"', "'", "=?", "=?a?q?b?=", "a@"),
    *("<a@b>,", ";a=b", ":", "a:\n", "- a\n", "a: b\n", "a:\n  ", "a.b.", "? ", "\\", "From a\n"),
    *("-", "---\n", "...\n", "12:34 ", "a=int,", "AND ", "a+", "class ", "fn a(", "a(", "a;"),
)  # fmt: skip
"""Texts to repeat: the syntax of each format, runs of one character, and kinds of letters."""


WORST: dict[str, Callable[[int], str]] = {
    "words": lambda n: "a," + "b" * n,
    "names": lambda n: "a" + "-a" * (n // 2),
    "names of a query": lambda n: "a" + "!" * n + "a",
    "excerpts": lambda n: "a " * (n // 2),
    "kinds of files": lambda n: "<!--x-->" * (n // 8),
    "an attribute of HTML": lambda n: "<meta" * (n // 5),
    "HTML": lambda n: "<p " + " ".join(map(str, range(n // 5))),
}


@pytest.mark.parametrize("name", WORST)
def test_known_worst_texts_take_linear_time(name: str) -> None:
    assert growth(READERS[name], WORST[name]) <= MOST_GROWTH


@sweep
@pytest.mark.parametrize("name", READERS)
def test_readers_take_linear_time(name: str) -> None:
    for unit in CHANCE.sample(UNITS, 10):
        for beginning, end in (("", ""), ("a,", "!")):

            def made(length: int, start: str = beginning, unit: str = unit, end: str = end) -> str:
                return start + unit * (length // len(unit)) + end

            assert growth(READERS[name], made) <= MOST_GROWTH, unit
