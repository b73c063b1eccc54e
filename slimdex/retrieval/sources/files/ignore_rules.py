"""Rules of the `.gitignore` files around and below a folder, as git has them.

The files are untrusted, so they are matched in bounded time: patterns become regular expressions
without backtracking. The text after a wildcard is matched at its first place (``(?>...)``), as no
later place could match if that fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from .limits import LARGEST_RULES, UnreadableError

FILE_NAME = ".gitignore"
LONGEST = 4096
"""Longest pattern in bytes, the limit of Linux paths."""
TOGETHER = 500
"""Patterns per regular expression; larger ones compile slowly."""
RANGE_END = re.compile(rb"-(?!\])\\?+(.)", re.DOTALL)
SINGLE_BYTE = re.compile(rb"\\?+(.)", re.DOTALL)
"""Items of a set: the end of a range, a byte."""
STAR = b"*"
ANY_BYTE = rb"[^/\0]"
NO_MATCH = b"(?!)"
Component = list[bytes]
"""One component of a pattern's path: `STAR`, and expressions for one byte each."""


class IgnoreRules:
    """Rules of a `.gitignore`; the last matching rule decides.

    The matched string is name, NUL, path, NUL, so that one expression can contain patterns
    of names and of paths in order.

    `data` is the content of the file; as in git, ``?`` matches one byte.
    """

    def __init__(self, data: bytes) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        rules = [*filter(None, map(_rule, reversed(lines)))]
        self._expressions = []
        for start in range(0, len(rules), TOGETHER):
            together = b"|".join(rules[start : start + TOGETHER])
            self._expressions.append(re.compile(together, re.DOTALL))

    def decision(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether a path relative to the file's folder is ignored; None if no rule matches.

        >>> rules = IgnoreRules(b"*.log\\n!kept.log\\nbuild/")
        >>> [rules.decision(path, is_folder=False) for path in ("a/b.log", "kept.log", "build")]
        [True, False, None]
        """
        encoded = os.fsencode(path)
        name = encoded.rpartition(b"/")[2]
        end = b"/\0" if is_folder else b"\0"
        subject = name + end + encoded + end
        for expression in self._expressions:
            if match := expression.match(subject):
                return match.lastindex is None  # a rule with "!" has a group
        return None


Load = Callable[[Path], IgnoreRules | None]


@dataclass(frozen=True)
class Rules:
    """Rules of a folder and its parents, up to the repository's root.

    Attributes
    ----------
    rules : (prefix, skip, rules): paths relative to the walked folder lose `skip` characters and
        get `prefix`, to be relative to the folder of the rules.
    load : returns a folder's own rules; None if it has none.
    """

    rules: list[tuple[str, int, IgnoreRules]]
    load: Load

    @classmethod
    def around(cls, root: Path, load: Load) -> Rules:
        """Load the rules for walking a folder, for which itself none holds.

        What `load` raises is raised, also by `within`.
        """
        # Load the rules from the repository's root, if there is one, down to the folder above.
        above = [root, *root.parents]
        managed = next((i for i, folder in enumerate(above) if (folder / ".git").exists()), 0)
        rules = []
        for folder in above[managed:0:-1]:
            if rules_of_folder := load(folder):
                rules.append((f"{root.relative_to(folder).as_posix()}/", 0, rules_of_folder))

        # A folder that is itself ignored is still read, but without the rules above it.
        around = cls(rules, load)
        return cls([], load) if around.decision("", is_folder=True) else around

    def within(self, folder: Path, relative: str) -> Rules:
        """Add the rules of a subfolder, given by its path relative to the walked folder."""
        if added := self.load(folder):
            return Rules([*self.rules, ("", len(relative), added)], self.load)
        return self

    def decision(self, relative: str, *, is_folder: bool = False) -> bool | None:
        """Decision for a path within the walked folder: of the nearest rule; None without one."""
        for before, cut, rules in reversed(self.rules):
            path = f"{before}{relative[cut:]}".removesuffix("/")
            if (decision := rules.decision(path, is_folder=is_folder)) is not None:
                return decision
        return None


def ignore_rules(folder: Path, follows: Callable[[Path], bool]) -> IgnoreRules | None:
    """Load a folder's `.gitignore`; None if it has none, or a link that is not followed.

    Raises `UnreadableError` if it has more than `LARGEST_RULES` bytes: what it names is unknown.
    """
    path = folder / FILE_NAME
    data = b""
    with suppress(OSError):
        if path.is_file() and follows(path):
            with path.open("rb") as file:
                data = file.read(LARGEST_RULES + 1)
    if len(data) > LARGEST_RULES:
        raise UnreadableError(f"{path} is over {LARGEST_RULES >> 10} KiB")
    return IgnoreRules(data) if data else None


def _rule(line: bytes) -> bytes | None:
    """Expression of a line, with a group for ``!``; None if it can't match."""
    line = _without_spaces(line.removesuffix(b"\r"))
    if line.startswith(b"#") or len(line) > LONGEST:
        return None

    # A slash at the end matches only folders, and an empty group marks "!".
    pattern = line.removeprefix(b"!")
    end = rb"/\0" if pattern.endswith(b"/") else rb"/?\0"
    if line.startswith(b"!"):
        end += b"()"

    # Without another slash, the pattern matches names in any folder; with one, it matches paths.
    pattern = pattern.removesuffix(b"/")
    parts = _parts(pattern.removeprefix(b"/"))
    if not all(parts):  # empty names can't match
        return None
    if b"/" not in pattern:
        return _name(parts[0]) + end
    return rb"[^\0]*+\0" + _path(parts) + end


def _without_spaces(line: bytes) -> bytes:
    r"""Strip trailing spaces of a line, except one after a backslash.

    >>> _without_spaces(rb"a\   "), _without_spaces(b"a b  ")
    (b'a\\ ', b'a b')
    """
    end = 0  # after the last character that is not a bare space
    at = 0
    while at < len(line):
        is_space = line[at : at + 1] == b" "
        at += 2 if line[at : at + 1] == b"\\" else 1
        end = end if is_space else at
    return line[:end]


def _parts(pattern: bytes) -> list[Component]:
    """Components of a pattern's path; an unterminated set or backslash matches nothing.

    >>> _parts(b"ab/*")
    [[b'a', b'b'], [b'*']]
    """
    parts = [Component()]
    at = 0
    while at < len(pattern):
        letter = pattern[at : at + 1]
        at = at + 1
        is_plain = letter == b"\\"
        if is_plain:
            letter = pattern[at : at + 1]
            at = at + 1
        if letter == b"/":
            parts.append([])
        elif letter == b"[" and not is_plain:
            expression, at = _set(pattern, at)
            parts[-1].append(expression)
        elif letter in (b"*", b"?") and not is_plain:
            parts[-1].append(STAR if letter == b"*" else ANY_BYTE)
        else:
            parts[-1].append(re.escape(letter) or NO_MATCH)  # no letter follows a last backslash
    return parts


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    r"""Expression of a set after its bracket, and the position after it.

    >>> _set(b"a-c]x", 0)
    (b'[\\x61\\x62\\x63]', 4)
    """
    is_negated = pattern[at : at + 1] in (b"!", b"^")
    members = {0, ord("/")} if is_negated else set[int]()
    range_start = 0  # the previous byte, if it may begin a range
    start = at + is_negated
    at = start
    while at == start or pattern[at : at + 1] != b"]":  # a first "]" is a member
        if range_start and (match := RANGE_END.match(pattern, at)):
            members.update(range(range_start, match[1][0] + 1))
            range_start = 0
        elif match := SINGLE_BYTE.match(pattern, at):
            range_start = match[1][0]
            members.add(range_start)
        else:
            return NO_MATCH, len(pattern)
        at = match.end()

    # No set matches a slash, since it separates folders.
    if not is_negated:
        members.discard(ord("/"))
    if not members:
        return NO_MATCH, at + 1
    escaped = b"".join(rb"\x%02x" % byte for byte in sorted(members))
    return (b"[^%s]" if is_negated else b"[%s]") % escaped, at + 1


def _name(part: Component) -> bytes:
    """Expression of one component, up to its end if it has stars."""
    texts = [b""]  # texts before, between and after the stars
    for is_star, alike in groupby(part, key=STAR.__eq__):
        if is_star:
            texts.append(b"")
        else:
            texts[-1] = b"".join(alike)
    first, *others = texts
    if not others:
        return first

    # The groups are atomic: the first match of each text between stars is enough.
    *middle, last = others
    between = b"".join(rb"(?>[^/\0]*?%s)" % text for text in middle)
    return rb"(?>(?=[^/\0])%s%s[^/\0]*%s(?=[/\0]))" % (first, between, last)


def _path(parts: Sequence[Component]) -> bytes:
    """Expression of a path: consecutive components, and ``**`` for any number of folders."""

    def is_any_depth(part: Component) -> bool:
        return len(part) > 1 and set(part) == {STAR}

    # Components between two "**" form a run, which is matched where it first occurs.
    runs = [(is_any, [*run]) for is_any, run in groupby(parts, key=is_any_depth)]
    path = b""
    folders = b""  # any number of them, after a "**"
    for is_any, run in runs[:-1]:
        if is_any:
            folders = rb"(?:[^/\0]++/)*?"
        else:
            names = b"".join(_name(part) + b"/" for part in run)
            path += b"(?>%s%s)" % (folders, names)
            folders = b""

    # A "**" at the end matches everything inside.
    is_any, run = runs[-1]
    return path + (rb"[^\0]+" if is_any else folders + b"/".join(map(_name, run)))
