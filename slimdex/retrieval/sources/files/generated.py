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

GENERATED = "generated file"
MINIFIED = "minified file"
LOCK = "lock file"
VENDORED = "vendored file"
DUMP = "data dump"
LIBRARIES = "library folder"
REASONS = (GENERATED, MINIFIED, LOCK, VENDORED, DUMP, LIBRARIES)

LOCK_FILES = re.compile(
    r"(.*\.lock|go(\.work)?\.sum|(pnpm|conda)-lock\.ya?ml|(package|cartfile)\.resolved|"
    r"gems\.locked|(buildscript-)?gradle\.lockfile|cabal\.project\.freeze)",
    re.I,
)
MINIFIED_NAMES = re.compile(r".*\.min\.([cm]?js|css)(\.download)?", re.I)
"""Names of minified files; browsers append ".download" to scripts of a saved page."""
GENERATED_NAMES = re.compile(
    r".*(_pb2(_grpc)?\.pyi?|\.pb(\.gw)?\.go|\.pb\.(h|cc)|_pb\.(js|d\.ts|ts)|\.pbxproj)"
)
LIBRARY_FOLDERS = frozenset(
    ["node_modules", "bower_components", "jspm_packages", "site-packages", "_vendor"]
)
"""Names of folders that only package managers fill."""
CODE_OF_OTHERS = frozenset(["third_party", "third-party", "thirdparty", "3rdparty", "3rd-party"])
"""Names of folders in which code is a copy of others' code; texts may be anything."""
HOST = re.compile(r"([a-z0-9-]+\.)+(com|org|net|io|in|dev|ch|ai|me|sh|tools)")
"""Folder in Go's `vendor` before modules: the host of an import path."""


def holds_libraries(folder: str, names: Collection[str]) -> bool:
    """Return whether a folder with these names in it holds installed or copied libraries.

    A folder called `vendor` alone proves nothing: it may be about sellers.

    >>> holds_libraries("vendor", ["modules.txt"]), holds_libraries("vendor", ["prices.md"])
    (True, False)
    """
    if folder in LIBRARY_FOLDERS or "pyvenv.cfg" in names or ".cargo-checksum.json" in names:
        return True
    if {"gems", "specifications"} <= {*names}:  # Ruby's `vendor/bundle`
        return True
    if folder == "Pods":
        return "Manifest.lock" in names
    if folder != "vendor":
        return False
    return bool({"modules.txt", "autoload.php"} & {*names}) or any(map(HOST.fullmatch, names))


def unwritten(path: str, kind: str, head: bytes, data: bytes) -> str | None:
    """Reason to leave out a file that nobody writes by hand, one of `REASONS`; None to read it.

    Parameters
    ----------
    path : below the folder that is read.
    kind : as `kind_of` returns it; only code and plain text are judged by content.
    head : first bytes, decompressed.
    data : all bytes.
    """
    # By name.
    *folders, name = PurePosixPath(path).parts
    if LOCK_FILES.fullmatch(name):
        return LOCK
    if MINIFIED_NAMES.fullmatch(name):
        return MINIFIED
    if GENERATED_NAMES.fullmatch(name):
        return GENERATED
    if kind == "code" and CODE_OF_OTHERS.intersection(folders):
        return VENDORED

    # By content.
    if kind not in ("code", "text"):
        return None
    if ending(name) not in TEMPLATES and says_generated(head):
        return GENERATED
    if is_minified(data):
        return MINIFIED
    return DUMP if kind == "code" and is_dump(data, ending(name)) else None


# -- headers --

MARK = re.compile(
    r"\s*(//+!?|#+!?|--+|;+|%+|/\*+!?|\*+(?!/)|<!--+|\{-|\(\*|'|REM\b|dnl\b)\s?", re.I
)
"""Beginning of a comment in any language."""
BLOCKS = {"/*": "*/", "<!--": "-->", "{-": "-}", "(*": "*)"}
"""Beginning -> end of a comment of several lines."""
NO_CODE = re.compile(
    r"\s*+(?:<\?(?:php|xml)\b.*+|[\"']use strict[\"'];?|package\s++[\w.]++;?|"
    r"#\s*+(?:pragma|if|ifdef|ifndef|else|endif|define|undef)\b.*+)?\s*+",
    re.I,
)
"""Lines before or between the comments of a header."""
INCLUDES = re.compile(r"\s*#\s*(?:include|import)\b")
"""Lines of C that only look like comments."""
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


def says_generated(head: bytes) -> bool:
    r"""Return whether the comments before the first line of code say that a file is generated.

    >>> says_generated(b"// Code generated by stringer. DO NOT EDIT.\npackage a\n")
    True
    >>> says_generated(b"// Package gen writes files that say: Code generated. DO NOT EDIT.\n")
    False
    """
    header = header_of(head[:HEAD].decode("latin-1"))
    if "generated" not in header.lower() and not SURE.search(header):
        return False
    if BAN.search(header):
        return bool(CLAIM.search(header))
    return bool(SURE.search(header)) and not INVITATION.search(header)


def header_of(text: str) -> str:
    r"""Text of the comments before the first line of code, without their marks.

    >>> header_of("/*\n * One.\n */\n// Two.\nint three;\n// Four.")
    'One.\n\nTwo.'
    """
    lines = list[str]()
    closing = ""  # the mark that ends the open block
    for line in text.splitlines():
        mark = None if NO_CODE.fullmatch(line) else MARK.match(line)
        if closing:  # within a block, whose lines may begin with a star
            inner, end, _ = line.partition(closing)
            mark = MARK.match(inner)
            lines.append(inner[mark.end() :] if mark and mark[1][0] == "*" else inner.strip())
            closing = "" if end else closing
        elif mark and not INCLUDES.match(line):  # a comment of one line, or the start of a block
            opening = next((start for start in BLOCKS if mark[1].startswith(start)), "")
            inner, end, _ = line[mark.end() :].partition(BLOCKS.get(opening, "\n"))
            lines.append(inner)
            closing = "" if end or not opening else BLOCKS[opening]
        elif NO_CODE.fullmatch(line):
            lines.append("")
        else:
            break
    return "\n".join(map(str.strip, lines)).strip()


# -- contents --

LONG_LINE = 300
"""Bytes of a line that few people write; some minifiers break lines after 500."""
LEAST_MINIFIED = 1000
"""Bytes in long lines; less makes no more than a few passages."""
COMMENT_LINE = (b"//", b"/*", b"*", b"#")
LEAST_DUMPED = 16 << 10
"""Bytes of rows or numbers; a hand-written file may hold fewer."""
ROW = re.compile(rb"\s*(INSERT\s+INTO|REPLACE\s+INTO|VALUES\b|\()", re.I)
COPY = re.compile(rb"COPY\s.*\sFROM\s+stdin", re.I)
NUMBER = re.compile(rb"\b0x[0-9a-f]+|\\[ux]\{?[0-9a-f]+|\b\d[\d.]*(e[+-]?\d+)?[a-z]{0,3}\b", re.I)


LETTERS = string.ascii_letters.encode()


def is_minified(data: bytes) -> bool:
    """Return whether most of a text is in long lines without the spaces that people leave."""
    # Collect the long lines, and all lines except short comments.
    lines = []
    long = []
    for line in filter(None, map(bytes.strip, data.splitlines())):
        if len(line) > LONG_LINE:
            long.append(line)
        if len(line) > LONG_LINE or not line.startswith(COMMENT_LINE):
            lines.append(line)
    dense = b"".join(long)
    if len(dense) < LEAST_MINIFIED or 5 * len(long) < len(lines):
        return False
    if len(dense) < 0.8 * sum(map(len, lines)):
        return False
    signs = len(dense) - len(dense.translate(None, string.punctuation.encode()))
    spaces = len(dense) - len(dense.translate(None, b" \t"))
    # Prose has one space for five or six letters, and few signs: texts in Chinese have no space.
    return spaces < 0.11 * len(dense) and signs > 0.08 * len(dense)


def is_dump(data: bytes, ending: str) -> bool:
    """Return whether most of a file of code is rows of a database, or a table of numbers."""
    if len(data) < LEAST_DUMPED:
        return False

    # A dump is mostly rows of tables, or mostly numbers.
    if ending == ".sql":
        rows = _bytes_of_rows(data)
        return rows >= LEAST_DUMPED and rows >= 0.75 * len(data)
    without_numbers = NUMBER.sub(b"", data)
    numbers = len(data) - len(without_numbers)
    letters = len(without_numbers) - len(without_numbers.translate(None, LETTERS))
    return numbers >= 0.3 * len(data) and letters < 0.1 * len(data)


def _bytes_of_rows(data: bytes) -> int:
    """Bytes of the lines of SQL that hold rows."""
    total = 0
    is_copied = False  # within the rows of a COPY, which end with the line "\."
    for line in data.splitlines():
        if is_copied or ROW.match(line):
            total += len(line) + 1
        is_copied = line.rstrip() != rb"\." if is_copied else bool(COPY.match(line))
    return total
