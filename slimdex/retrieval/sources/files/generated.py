"""Recognise files that nobody writes by hand, which would only get in the way of answers.

A wrong guess loses somebody's work, and a missed one costs a few passages, so each rule is narrow:
a header has to say that its own file is generated, and lines have to be long as well as dense.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection
from pathlib import PurePosixPath

from .kinds import HEAD, ending

NAMES = re.compile(
    # lock files
    r"(.*\.lock|go(\.work)?\.sum|(pnpm|conda)-lock\.ya?ml|(package|cartfile)\.resolved|"
    r"gems\.locked|(buildscript-)?gradle\.lockfile|cabal\.project\.freeze|"
    # minified files; browsers append ".download" to scripts of a saved page
    r".*\.min\.([cm]?js|css)(\.download)?|"
    # what compilers of protocols and Xcode write
    r".*(_pb2(_grpc)?\.pyi?|\.pb(\.gw)?\.go|\.pb\.(h|cc)|_pb\.(js|d\.ts|ts)|\.pbxproj))",
    re.I,
)
LIBRARY_FOLDERS = frozenset(
    ["node_modules", "bower_components", "jspm_packages", "site-packages", "_vendor", "Pods"]
)
"""Names of folders that only package managers fill."""
INSTALLED = frozenset(["pyvenv.cfg", ".cargo-checksum.json"])
VENDORED = frozenset(["modules.txt", "autoload.php", "github.com"])
"""Names in a folder of libraries, and in one that is called `vendor`."""
CODE_OF_OTHERS = frozenset(["third_party", "third-party", "thirdparty", "3rdparty", "3rd-party"])
"""Names of folders in which code is a copy of others' code; texts may be anything."""


def holds_libraries(folder: str, names: Collection[str]) -> bool:
    """Return whether a folder with these names in it holds installed or copied libraries.

    A folder called `vendor` alone proves nothing: it may be about sellers.

    >>> holds_libraries("vendor", ["modules.txt"]), holds_libraries("vendor", ["prices.md"])
    (True, False)
    """
    is_vendored = folder == "vendor" and not VENDORED.isdisjoint(names)
    return folder in LIBRARY_FOLDERS or is_vendored or not INSTALLED.isdisjoint(names)


def is_generated(path: str, kind: str, data: bytes) -> bool:
    """Return whether nobody wrote a file by hand; only code and plain text are judged by content.

    `path` is relative to the folder that is read.
    """
    *folders, name = PurePosixPath(path).parts
    is_code = kind == "code"
    if NAMES.fullmatch(name) or (is_code and CODE_OF_OTHERS.intersection(folders)):
        return True
    if kind not in ("code", "text"):
        return False
    if ending(name) not in TEMPLATES and says_generated(data):
        return True
    return is_minified(data) or (is_code and is_dump(data, ending(name)))


# -- headers --

HEADER = re.compile(
    r"(?:\s*+(?>(?s:/\*.*?(?:\*/|\Z)|<!--.*?(?:-->|\Z)|\{-.*?(?:-\}|\Z)|\(\*.*?(?:\*\)|\Z))|"
    r"package\s.*|['\"]use strict['\"];?|(?!#\s*+(?:include|import)\b)(?://|--|<\?|[#;%'*]).*))*+",
    re.I,
)
"""Comments before the first line of code, in any language, and lines that may be between them."""
MARKS = re.compile(r"^(?:<!)?[ \t/*#;%'!(){-]+", re.M)
"""Beginnings of comments and of the lines in them."""
ITSELF = (
    r"this\s+(?:[\w-]+\s+){0,2}?(?:(?:file|code|class|module|header|source|script|stub|interface)"
    r"\s+)?(?:is|was|has\s+been)\s+(?:an?\s+)?"
)
MADE = r"(?:auto(?:matically)?|machine)[-\s]?(?:generated|created|produced|built|written)"
FROM = r"\s+(?:by|from|with|using)\b"
SENTENCE = r"(?:\A|\n\n|[.!>]\s+|^\w+:\s+)"
CLAIM = re.compile(
    rf"(?:^(?:package\s+\w+\s+|\w+:\s+)?|[.!]\s+|\b{ITSELF})"
    rf"(?:@generated\b|(?:{MADE}|generated|code\s+generated)(?:\s+(?:code|file|source|class))?"
    rf"(?:\s*(?:[-.,;:!(]|$)|{FROM}|\s+(?:on|at|via|automatically|and|do)\b))",
    re.I | re.M,
)
"""A file says of itself that it is generated."""
BAN = re.compile(
    r"\b(?:do\s+not|don'?t|never|(?:should|must)\s+not)\s+"
    r"(?:ever\s+|be\s+|hand[-\s]?|manually\s+|directly\s+|(?:try|attempt)\s+to\s+)?"
    r"(?:edit|modify|modified|change|alter|touch|make\s+changes)"
    r"|\b(?:edit|chang|modif)\w*\b[^.]{0,80}\b(?:lost|overwritten|discarded|not\s+advised)"
    r"|\binstead\s+of\s+editing",
    re.I,
)
"""A file says that it should not be edited."""
SURE = re.compile(
    rf"(?:^|[.!>]\s+)(?:{ITSELF})?(?:automatically\s+|auto)?@generated\b"
    r"|<auto-?generated\b"
    rf"|{SENTENCE}(?:{ITSELF})?{MADE}{FROM}"
    rf"|{SENTENCE}this\s+(?:file|class|code)\s+is\s+generated{FROM}"
    r"|^(?:the\s+following\s+code\s+was\s+)?generated\s+(?:automatically\s+)?(?:by|from.{1,200}by)"
    r"\s+(?:the\s+)?(?:gnu\s+)?(?:antlr|autoconf|autoheader|aclocal|coffeescript|cython|flex|"
    r"jflex|jison|peg\.?js|peggy|ragel|re2c|rust-bindgen|swig)\b"
    r"|^\S+\s+generated\s+(?:automatically\s+)?by\s+(?:automake|aclocal|autoheader)\b"
    r"|\A\s*a\s+(?:bison\s+parser|lexical\s+scanner)\b|\A\s*(?:jest|vitest)\s+snapshot\s+v\d",
    re.I | re.M,
)
"""A claim that needs no ban: a mark, a complete sentence, or the line of a known generator."""
INVITATION = re.compile(
    r"\bfeel\s+free\b|\b(?:please|can\s++(?:be\s++)?|may\s++(?:be\s++)?|safe(?:ly)?\s++(?:to\s++)?|"
    r"should\s++be\s++)\s*+(?:edit|modif|adjust|chang|customi[sz])",
    re.I,
)
"""A file was generated once, for somebody to go on with."""
TEMPLATES = frozenset([
    ".in", ".tmpl", ".gotmpl", ".tpl", ".template", ".j2", ".jinja", ".jinja2", ".mustache", ".hbs",
    ".erb", ".ejs", ".tt",
])  # fmt: skip
"""Endings of templates, whose headers are about what they generate."""


def says_generated(data: bytes) -> bool:
    r"""Return whether the comments before the first line of code say that a file is generated.

    >>> says_generated(b"// Code generated by stringer. DO NOT EDIT.\npackage a\n")
    True
    >>> says_generated(b"// Package gen writes files that say: Code generated. DO NOT EDIT.\n")
    False
    """
    comments = HEADER.match(data[:HEAD].decode("latin-1"))
    header = MARKS.sub("", comments[0] if comments else "").strip()
    if BAN.search(header):
        return bool(CLAIM.search(header))
    return bool(SURE.search(header)) and not INVITATION.search(header)


# -- contents --

LONG_LINE = 300
"""Bytes of a line that few people write; some minifiers break lines after 500."""
LEAST_MINIFIED = 1000
"""Bytes in long lines; less makes no more than a few passages."""
COMMENT_LINE = (b"//", b"/*", b"*", b"#")
LEAST_DUMPED = 16 << 10
"""Bytes of rows or numbers; a hand-written file may hold fewer."""
ROWS = re.compile(
    rb"^[ \t]*+(?:INSERT\s+INTO|REPLACE\s+INTO|VALUES\b|\().*"
    rb"|^COPY\b.*\bFROM\s+stdin\b(?s:.*?)(?:^\\\.|\Z)",
    re.I | re.M,
)
"""Rows of a table in SQL."""
NUMBER = re.compile(rb"\b0x[0-9a-f]+|\\[ux]\{?[0-9a-f]+|\b\d[\d.]*(e[+-]?\d+)?[a-z]{0,3}\b", re.I)
LETTERS = string.ascii_letters.encode()
PUNCTUATION = string.punctuation.encode()


def is_minified(data: bytes) -> bool:
    """Return whether most of a text is in long lines without the spaces that people leave."""
    lines = [*filter(None, map(bytes.strip, data.splitlines()))]
    long_lines = [line for line in lines if len(line) > LONG_LINE]
    lines = [line for line in lines if len(line) > LONG_LINE or not line.startswith(COMMENT_LINE)]
    long = b"".join(long_lines)
    is_mostly_long = len(long) >= 0.8 * sum(map(len, lines)) and 5 * len(long_lines) >= len(lines)
    if not is_mostly_long or len(long) < LEAST_MINIFIED:
        return False
    # Prose has one space for five or six letters, and few signs: texts in Chinese have no space.
    return _count(long, b" \t") < 0.11 * len(long) and _count(long, PUNCTUATION) > 0.08 * len(long)


def is_dump(data: bytes, ending: str) -> bool:
    """Return whether most of a file of code is rows of a database, or a table of numbers."""
    if len(data) < LEAST_DUMPED:
        return False
    if ending == ".sql":
        rows = sum(len(row[0]) for row in ROWS.finditer(data))
        return rows >= max(LEAST_DUMPED, 0.75 * len(data))
    words = NUMBER.sub(b"", data)
    return len(words) <= 0.7 * len(data) and _count(words, LETTERS) < 0.1 * len(data)


def _count(data: bytes, characters: bytes) -> int:
    return len(data) - len(data.translate(None, characters))
