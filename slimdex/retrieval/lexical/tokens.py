"""Tokens of a text for BM25.

Names and codes are indexed as a whole and in parts: ``os.path.join()`` gives ``os``, ``path``,
``join`` and ``os.path.join``, so that a query for the whole name ranks it above texts that share a
part; ``readTimeout`` gives ``readtimeout``, ``read`` and ``timeout``. Scripts without spaces
(Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) are split into character bigrams, as by
Lucene's CJKAnalyzer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

LONGEST_TERM, LONGEST_NAME = 80, 500
"""Longest indexed word or name, in characters; queries contain no longer ones."""
SHORTEST_MISSPELT = 5
"""Shortest name that is found despite a typing error; one edit turns a shorter one into another
word."""

_MARKS = "".join(chr(c) for c in range(0x300, 0x1E00) if unicodedata.category(chr(c))[0] == "M")
"""Vowel signs and accents, which belong to the letter before them; `re` does not count them as
letters."""
_PART = re.compile(rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*")
_NAME = re.compile(rf"{_PART.pattern}(?:(?:[-_./@+]|::?){_PART.pattern})+")
_HUMPS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EDGE = re.compile(r"^[\W_]+|[\W_]+$")
_ASCII_EDGE = "".join(sign for sign in map(chr, range(128)) if not sign.isalnum())
_HAS_LETTER = re.compile(r"[^\W\d_]")
_UUID = re.compile(r"(?i:[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})")
_HAS_DIGIT = re.compile(r"\d")
_UNSPACED = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
"""Runs of scripts without spaces."""


def words_of(text: str) -> list[str]:
    """Words of a text or query, in order, in lower case.

    >>> words_of("Use os.path.join(), not libssl-dev!")
    ['use', 'os', 'path', 'join', 'os.path.join', 'not', 'libssl', 'dev', 'libssl-dev']
    >>> words_of("readTimeout, HTTPServer")
    ['readtimeout', 'read', 'timeout', 'httpserver', 'http', 'server']
    >>> words_of("向量搜索 ok"), words_of("ภาษาไทย ok")
    (['向量', '量搜', '搜索', 'ok'], ['ภา', 'าษ', 'ษา', 'าไ', 'ไท', 'ทย', 'ok'])
    """
    words = list[str]()
    for run in _normal(text).split():
        if run.isascii() and (word := run.strip(_ASCII_EDGE)).isalnum():  # nearly all words
            words += _with_humps(word)
            continue
        parts = _PART.findall(run)
        for part in parts:
            words += _split(part.casefold()) if not part.isascii() else _with_humps(part)
        if len(parts) > 1 and not _UNSPACED.search(run):
            words += [name for name in _NAME.findall(run.casefold()) if len(name) <= LONGEST_TERM]
    return words


def words_in(text: str) -> str:
    """Words of a text with spaces between them, as they are indexed.

    >>> words_in("Use os.path!")
    'use os path os.path'
    """
    return " ".join(words_of(text))


def stems_of(text: str) -> list[str]:
    """Stems of the words of a query, in order; see `stemmer`.

    >>> stems_of("Searching libssl-dev"), stems_of("поиски файлов")
    (['search', 'libssl', 'dev', 'libssl-dev'], ['поиск', 'файл'])
    """
    stems: list[str] = stemmer().analyze(words_in(text))
    return stems


@cache
def stemmer() -> Any:
    """Tantivy's analyzer of words with spaces between them: Snowball's English and Russian stems.

    Each changes only words of its own script. A query is too short to tell its language, so that
    words in other languages of the same script get the same stems in texts and queries.
    """
    import tantivy

    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    english, russian = map(tantivy.Filter.stemmer, ("english", "russian"))
    return words.filter(english).filter(russian).build()


def id_terms(id: str) -> tuple[list[str], str]:
    """Names of a document, and the words of its id with spaces between them.

    >>> id_terms("docs/usage")
    (['docs/usage', 'usage'], 'docs usage docs/usage')
    """
    return names_of(id), " ".join(name_words(id))


class Terms(NamedTuple):
    """Functions that make the terms of ids and texts to index."""

    of_id: Callable[[str], tuple[list[str], str]] = id_terms
    of_text: Callable[[str], str] = words_in

    @classmethod
    def remembered(cls) -> Terms:
        """These functions, remembering the terms of each id and text."""
        return cls(cache(id_terms), cache(words_in))


TERMS = Terms()


def names_of(id: str) -> list[str]:
    """Names of a document: its id, and the last part if that is a path; numbers are not names.

    >>> names_of("docs/My Usage.md"), names_of("os.path"), names_of("10")
    (['docs/my usage.md', 'my usage.md'], ['os.path'], [])
    """
    whole = " ".join(_folded(id).split())
    forms = dict.fromkeys([whole, whole.rstrip("/").rpartition("/")[2]])
    return [form for form in forms if _HAS_LETTER.search(form) and len(form) <= LONGEST_NAME]


def name_words(id: str) -> list[str]:
    """Words of a document's id, without single letters; none if it is a number or a UUID.

    >>> name_words("docs/My Usage.md"), name_words("libssl-dev"), name_words("10")
    (['docs', 'my', 'docs/my', 'usage', 'md', 'usage.md'], ['libssl', 'dev', 'libssl-dev'], [])
    """
    if not _HAS_LETTER.search(_normal(id)) or _UUID.fullmatch(id):
        return []
    return [word for word in words_of(id) if len(word) > 1 or word.isdigit()]


def name_forms(query: str) -> list[str]:
    """Names that equal a query: the query itself, and the query without surrounding punctuation.

    >>> name_forms(" os.path.join() "), name_forms("C++"), name_forms("My  usage.md")
    (['os.path.join()', 'os.path.join'], ['c++', 'c'], ['my usage.md'])
    """
    whole = " ".join(_folded(query).split())
    forms = dict.fromkeys([whole, _EDGE.sub("", whole)])
    return [form for form in forms if form and len(form) <= LONGEST_NAME]


def misspelt_form(query: str) -> str | None:
    """Form of a query that may be a misspelt name; None for several words, short ones and codes.

    A code with another digit is another code.

    >>> misspelt_form("Libsl-dev?"), misspelt_form("E4031"), misspelt_form("heat pump")
    ('libsl-dev', None, None)
    """
    form = _EDGE.sub("", _folded(query).strip())
    is_name = SHORTEST_MISSPELT <= len(form) <= LONGEST_TERM and " " not in form
    return form if is_name and not _HAS_DIGIT.search(form) else None


def _folded(text: str) -> str:
    """Normalise Unicode and case."""
    return _normal(text).casefold()


def _normal(text: str) -> str:
    """Normalise Unicode; lone surrogates become "?"."""
    return unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode())


def _with_humps(part: str) -> list[str]:
    """A run of ASCII letters and digits in lower case, and its parts if it is in camel case."""
    word = part.lower()
    if word[1:] == part[1:] or len(part) > LONGEST_TERM or len(humps := _HUMPS.split(part)) == 1:
        return [word[:LONGEST_TERM]]
    return [word, *(hump.lower() for hump in humps)]


def _split(part: str) -> Iterator[str]:
    """Yield a run of letters, or its bigrams in scripts without spaces."""
    end = 0
    for match in _UNSPACED.finditer(part):
        if between := part[end : match.start()]:
            yield between[:LONGEST_TERM]
        run, end = match[0], match.end()
        yield from (run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    if rest := part[end:]:
        yield rest[:LONGEST_TERM]
