"""Tokens of a text for BM25.

Names and codes are indexed as a whole and in parts: ``os.path.join()`` gives ``os``, ``path``,
``join`` and ``os.path.join``, so that a query for the whole name ranks it above texts that share a
part. Scripts without spaces are split into character bigrams, as by Lucene's CJKAnalyzer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST, LONGEST_NAME = 80, 500
"""Longest word or name in characters; nobody types longer ones."""

_PART = re.compile(r"[^\W_]+")
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
_ASCII_EDGE = "".join(sign for sign in map(chr, range(128)) if not sign.isalnum())
_HAS_LETTER = re.compile(r"[^\W\d_]")
_CJK = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def words_of(text: str) -> list[str]:
    """Words of a text or query, in order, in lower case.

    >>> words_of("Use os.path.join(), not libssl-dev!")
    ['use', 'os', 'path', 'join', 'os.path.join', 'not', 'libssl', 'dev', 'libssl-dev']
    >>> words_of("向量搜索 ok")
    ['向量', '量搜', '搜索', 'ok']
    """
    found = list[str]()
    for run in _folded(text).split():
        if run.isascii() and (word := run.strip(_ASCII_EDGE)).isalnum():  # nearly all words
            found.append(word[:LONGEST])
            continue
        parts = _PART.findall(run)
        for part in parts:
            found += _pairs(part) if not part.isascii() else [part[:LONGEST]]
        whole = _EDGE.sub("", run)
        if len(parts) > 1 and len(whole) <= LONGEST and not _CJK.search(whole):
            found.append(whole)
    return found


def names_of(id: str) -> list[str]:
    """Names of a document: its id, and the last part if that is a path; numbers are not names.

    >>> names_of("docs/My Usage.md"), names_of("os.path"), names_of("10")
    (['docs/my usage.md', 'my usage.md'], ['os.path'], [])
    """
    whole = " ".join(_folded(id).split())
    forms = dict.fromkeys([whole, whole.rstrip("/").rpartition("/")[2]])
    return [form for form in forms if _HAS_LETTER.search(form) and len(form) <= LONGEST_NAME]


def name_words(id: str) -> list[str]:
    """Names of a document without spaces, which can occur as words in a sentence.

    >>> name_words("docs/My Usage.md"), name_words("libssl-dev")
    ([], ['libssl-dev'])
    """
    return [name for name in names_of(id) if " " not in name and len(name) <= LONGEST]


def name_forms(query: str) -> list[str]:
    """Names that equal a query: the query itself, and the query without surrounding punctuation.

    >>> name_forms(" os.path.join() "), name_forms("C++"), name_forms("My  usage.md")
    (['os.path.join()', 'os.path.join'], ['c++', 'c'], ['my usage.md'])
    """
    whole = " ".join(_folded(query).split())
    forms = dict.fromkeys([whole, _EDGE.sub("", whole)])
    return [form for form in forms if form and len(form) <= LONGEST_NAME]


def _folded(text: str) -> str:
    """Normalise Unicode and case; lone surrogates become "?"."""
    return unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode()).casefold()


def _pairs(part: str) -> Iterator[str]:
    """Yield a run of letters, or its character bigrams in scripts without spaces."""
    end = 0
    for found in _CJK.finditer(part):
        if between := part[end : found.start()]:
            yield between[:LONGEST]
        run, end = found[0], found.end()
        yield from (run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    if rest := part[end:]:
        yield rest[:LONGEST]
