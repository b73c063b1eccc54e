"""Tokens: the words of a text, as BM25 counts them.

Names and codes count whole and in their parts: of ``os.path.join()`` the words are ``os``,
``path``, ``join`` and ``os.path.join``, so that whoever types the whole name finds it before all
that share a part with it. Scripts without spaces are cut into pairs of characters, as Lucene's
CJKAnalyzer does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST, LONGEST_NAME = 80, 500
"""Characters of a word, and of a name: what is longer is nothing that anybody types."""

_RUN = re.compile(r"\S+")
_PART = re.compile(r"[^\W_]+")
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
_HAS_LETTER = re.compile(r"[^\W\d_]")
_CJK = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def words_of(text: str) -> list[str]:
    """The words of a text or a query, in its order, in lower case.

    >>> words_of("Use os.path.join(), not libssl-dev!")
    ['use', 'os', 'path', 'join', 'os.path.join', 'not', 'libssl', 'dev', 'libssl-dev']
    >>> words_of("向量搜索 ok")
    ['向量', '量搜', '搜索', 'ok']
    """
    found = list[str]()
    for run in _RUN.findall(_folded(text)):
        parts = _PART.findall(run)
        for part in parts:
            found += _pairs(part) if not part.isascii() else [part[:LONGEST]]
        whole = _EDGE.sub("", run)
        if len(parts) > 1 and len(whole) <= LONGEST and not _CJK.search(whole):
            found.append(whole)
    return found


def names_of(id: str) -> list[str]:
    """What a document is called: all of its id, and of a path its last part; a number is no name.

    >>> names_of("docs/My Usage.md"), names_of("os.path"), names_of("10")
    (['docs/my usage.md', 'my usage.md'], ['os.path'], [])
    """
    whole = " ".join(_folded(id).split())
    forms = dict.fromkeys([whole, whole.rstrip("/").rpartition("/")[2]])
    return [form for form in forms if _HAS_LETTER.search(form) and len(form) <= LONGEST_NAME]


def name_words(id: str) -> list[str]:
    """Those names that are words, as they may stand in a sentence.

    >>> name_words("docs/My Usage.md"), name_words("libssl-dev")
    ([], ['libssl-dev'])
    """
    return [name for name in names_of(id) if " " not in name and len(name) <= LONGEST]


def name_forms(query: str) -> list[str]:
    """What a document may be called whose name is all of a query: as it is, or without what
    surrounds it, as the parentheses of a function.

    >>> name_forms(" os.path.join() "), name_forms("C++"), name_forms("My  usage.md")
    (['os.path.join()', 'os.path.join'], ['c++', 'c'], ['my usage.md'])
    """
    whole = " ".join(_folded(query).split())
    forms = dict.fromkeys([whole, _EDGE.sub("", whole)])
    return [form for form in forms if form and len(form) <= LONGEST_NAME]


def _folded(text: str) -> str:
    """A text in one form, without case; half characters, which are no Unicode, become "?"."""
    return unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode()).casefold()


def _pairs(part: str) -> Iterator[str]:
    """A run of letters; what is in a script without spaces by pairs of characters."""
    end = 0
    for found in _CJK.finditer(part):
        if between := part[end : found.start()]:
            yield between[:LONGEST]
        run, end = found[0], found.end()
        yield from (run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    if rest := part[end:]:
        yield rest[:LONGEST]
