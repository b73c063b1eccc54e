"""Tokens of a text for BM25.

Names and codes are indexed as a whole and in parts: ``os.path.join()`` gives ``os``, ``path``,
``join`` and ``os.path.join``, so that a query for the whole name ranks it above texts that share a
part; ``readTimeout`` gives ``readtimeout``, ``read`` and ``timeout``. Scripts without spaces
(Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) are split into character bigrams, as by
Lucene's CJKAnalyzer; their single characters and trigrams, and names joined without their signs,
are further forms, which do not count as a text's length.

Texts, queries and ids have one normal form, Unicode's NFKC_Casefold: compatibility characters and
case are folded, and invisible characters dropped. A word with accents is indexed and searched
without them too, so that ``cafe`` finds ``café``, and ``café`` ranks first the texts that have it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

PROPER = "="
"""Mark of a proper name among the forms of a text."""
LONGEST_TERM = 80
LONGEST_NAME = 500
"""Longest indexed word or name, in characters; queries contain no longer ones."""
MOST_IDS = 1024
"""Ids whose terms are remembered: each row of a document has its id."""
SHORTEST_MISSPELT = 5
"""Shortest name that is found despite a typing error; one edit turns a shorter one into another
word."""

MARKS = "".join(chr(c) for c in range(0x300, 0x1E00) if unicodedata.category(chr(c))[0] == "M")
"""Vowel signs and accents, which belong to the letter before them; `re` does not count them as
letters."""
_PART = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_JOINT = r"(?:[-_./@+]|::?|(?<=\d),(?=\d{3}(?!\d)))"
"""Signs that join the parts of a name; commas join the digits of a number, as in 1,299.50."""
_NAME = re.compile(rf"{_PART.pattern}(?:{_JOINT}{_PART.pattern})*+")
"""A name or a single part: one that required a joint would be tried at every letter of a part."""
_HAS_JOINT = re.compile(_JOINT)
_HUMPS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EDGE = re.compile(r"\A[\W_]+|(?<![\W_])[\W_]++\Z")
_ASCII_EDGE = "".join(sign for sign in map(chr, range(128)) if not sign.isalnum())
_HAS_LETTER = re.compile(r"[^\W\d_]")
_UUID = re.compile(r"(?i:[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})")
_GROUPS = re.compile(r"\d(?<!\d\d)\d*+(?:[ ./-](?:\d++|[a-z]{4}\b))+")
"""Numbers in groups, as of phones, books (ISBN) and, after two letters, bank accounts (IBAN)."""
_GROUP_SIGNS = re.compile("[ ./-]")
FEWEST_DIGITS = 8
"""Shortest number in groups that is also indexed without the signs between them."""
_HAS_DIGIT = re.compile(r"\d")
ASKING = re.compile("an?|are|can|did|do(es)?|how|i|is|the|to|use|was|were|what|who|you")
"""Words of a question that asks about a name."""
UNSPACED = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
"""Runs of scripts without spaces."""
INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)
"""Runs of Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), such as soft hyphens,
joiners and variation selectors."""
_DIGITS = [chr(c) for c in range(0x660, 0x1E00) if unicodedata.category(chr(c)) == "Nd"]
_SPELLINGS = str.maketrans(
    {digit: str(unicodedata.decimal(digit)) for digit in _DIGITS}
    | {"ک": "ك", "ی": "ي", "ى": "ي", "ـ": "", "\u2010": "-", "\u2212": "-"}
)
"""Digits and letters of other keyboards, Arabic's lengthening sign, and hyphens."""
_UNDECOMPOSED = dict(
    zip("æðøþđħıłœŧ", ["ae", "d", "o", "th", "d", "h", "i", "l", "oe", "t"], strict=True)
)
"""Letters that Unicode does not decompose, and how they are typed without their own keys."""
_ACCENTS = frozenset((*range(10, 37), *range(200, 241)))
"""Combining classes of the points of Semitic scripts, and of marks above, below and on letters;
vowel signs and tones of other scripts have other ones."""
_INSEPARABLE = "йїўѓќ"
"""Letters whose mark nobody leaves out."""


def _without_accents(letter: str) -> str:
    """Return a letter as it is typed without accents; unchanged if it has none."""
    signs = letter if letter in _INSEPARABLE else unicodedata.normalize("NFD", letter)
    bare = ""
    for sign in signs:
        if unicodedata.combining(sign) not in _ACCENTS:
            bare += _UNDECOMPOSED.get(sign.lower(), sign)
    return unicodedata.normalize("NFC", bare)


@cache
def _accents() -> tuple[dict[int, str], re.Pattern[str]]:
    """Letters with accents -> those without, and a pattern of the former."""
    # Letters from Latin to Arabic, and the extended blocks of Latin and Greek.
    bare_letters = {}
    for code in (*range(0xC0, 0x700), *range(0x1E00, 0x2000)):
        bare = _without_accents(chr(code))
        if bare != chr(code):
            bare_letters[code] = bare
    return bare_letters, re.compile(f"[{''.join(map(chr, bare_letters))}]")


def words_of(text: str) -> list[str]:
    """Words of a text or query, in order, in lower case.

    >>> words_of("Use os.path.join(), not libssl-dev!")
    ['use', 'os', 'path', 'join', 'os.path.join', 'not', 'libssl', 'dev', 'libssl-dev']
    >>> words_of("readTimeout, HTTPServer")
    ['readtimeout', 'read', 'timeout', 'httpserver', 'http', 'server']
    >>> words_of("向量搜索 ok"), words_of("ภาษาไทย ok")
    (['向量', '量搜', '搜索', 'ok'], ['ภา', 'าษ', 'ษา', 'าไ', 'ไท', 'ทย', 'ok'])
    """
    return _words(_normal(text))


def words_in(text: str) -> str:
    """Words of a text with spaces between them, as they are indexed; without accents they follow.

    >>> words_in("Use os.path in a Café!")
    'use os path os.path in a café cafe'
    """
    text = _normal(text)
    words = _words(text)
    return " ".join(words if text.isascii() else [*words, *_bare_forms(words)])


def _words(text: str) -> list[str]:
    """Return the words of a normalized text: see `words_of`."""
    words = list[str]()
    for run in text.split():
        if run.isascii() and (word := run.strip(_ASCII_EDGE)).isalnum():  # nearly all words
            if word.islower() and len(word) <= LONGEST_TERM:  # most of them: worth a branch
                words.append(word)
            else:
                words += _with_humps(word)
            continue

        # Add the parts of the run, and after them the names that they form.
        parts = _PART.findall(run)
        for part in parts:
            words += _with_humps(part) if part.isascii() else _words_in_run(part)
        if len(parts) > 1 and not UNSPACED.search(run):
            words += filter(_is_name, _names_in(_lower(run)))
    return words


def _names_in(run: str) -> list[str]:
    """Names in a run without spaces, each followed by its parts between slashes.

    >>> _names_in("https://docs.example.org/usage.md?q")
    ['https', 'docs.example.org/usage.md', 'docs.example.org', 'usage.md', 'q']
    """
    names = list[str]()
    for name in _NAME.findall(run):
        names.append(name)
        if "/" in name:
            names += name.split("/")
    return names


def _bare_forms(words: Iterable[str]) -> list[str]:
    """Words with accents, without them.

    >>> _bare_forms(["ein", "café", "über", "cafe"])
    ['cafe', 'uber']
    """
    others = [word for word in words if not word.isascii()]
    if not others:  # making the table would slow each start
        return []
    bare_letters, accent = _accents()
    return [word.translate(bare_letters) for word in others if accent.search(word)]


def forms_of(text: str) -> list[str]:
    """Further forms of the words of a text or query, stemmed: they do not count as its length.

    Names and numbers in groups are joined without their signs. Scripts without spaces are split
    into single characters and trigrams, too.

    >>> forms_of("an e-mail to +49 30 901820"), forms_of("问王小明")
    (['email', '4930901820'], ['问', '王', '小', '明', '问王小', '王小明'])
    """
    text = _lower(_normal(text))
    forms = []
    for run in text.split():
        if "-" in run:
            forms += [name.replace("-", "") for name in _names_in(run) if "-" in name]
    for groups in _GROUPS.finditer(text):
        country = text[max(groups.start() - 2, 0) : groups.start()]
        digits = _GROUP_SIGNS.sub("", groups[0])
        if FEWEST_DIGITS <= len(digits) <= LONGEST_TERM:
            forms.append(f"{country}{digits}" if country.isalpha() else digits)
    for run in UNSPACED.findall(text) if not text.isascii() else ():
        forms += run
        forms += [run[start : start + 3] for start in range(len(run) - 2)]
    return _stems(forms)


def full_names(text: str) -> list[str]:
    """Stems of each two adjacent words that may be a name, joined.

    Both begin with a capital, or are of a script without capitals.

    >>> full_names("by Ada Lovelace, 1843"), full_names("كتبت مريم")
    (['adalovelac'], ['كتبتمريم'])
    """
    words = []
    for first, second in pairwise(_normal(text).split()):
        initials = first[0] + second[0]
        if not initials.isalpha() or initials != initials.upper():
            continue
        if _PART.fullmatch(first) and (end := _PART.match(second)):
            words += [_lower(first), _lower(end[0])]
    stems = iter(_stems(words))
    return [f"{first}{second}" for first, second in zip(stems, stems, strict=True)]


def proper_names(text: str) -> list[str]:
    """Stems of the words of a text that begin with a capital within a sentence.

    >>> proper_names("Ask Ada Lovelace. Her engines, Ada said, compute.")
    ['ada', 'lovelac', 'ada']
    """
    names = []
    for before, word in pairwise(_normal(text).split()):
        if word[0].isupper() and (before[-1].isalnum() or before[-1] in ",;"):
            names += _PART.findall(_lower(word))[:1]
    return _stems(names)


def _stems(words: Iterable[str]) -> list[str]:
    stems: list[str] = stemmer().analyze(" ".join(words))
    return stems


def stems_of(text: str) -> list[str]:
    """Stems of the words of a query, in order; see `stemmer`.

    >>> stems_of("Searching libssl-dev"), stems_of("поиски файлов")
    (['search', 'libssl', 'dev', 'libssl-dev'], ['поиск', 'файл'])
    """
    return _stems([words_in(text)])


@cache
def stemmer() -> Any:
    """Tantivy's analyzer of words with spaces between them: Snowball's English and Russian stems.

    Each changes only words of its own script. A query is too short to tell its language, so that
    words in other languages of the same script get the same stems in texts and queries.
    """
    import tantivy  # not needed to open an index

    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    english, russian = map(tantivy.Filter.stemmer, ("english", "russian"))
    return words.filter(english).filter(russian).build()


@lru_cache(MOST_IDS)
def id_terms(id: str) -> tuple[list[str], str]:
    """Names of a document, and the words of its id with spaces between them.

    >>> id_terms("docs/usage")
    (['docs/usage', 'usage'], 'docs usage docs/usage')
    """
    words = name_words(id)
    return names_of(id), " ".join([*words, *_bare_forms(words)])


def text_terms(text: str) -> tuple[str, list[str]]:
    """Words of a text with spaces between them, its further forms, and its marked proper names.

    >>> text_terms("ask Ada by e-mail")
    ('ask ada by e mail e-mail', ['email', '=ada'])
    """
    marked = (f"{PROPER}{name}" for name in proper_names(text))
    forms = dict.fromkeys([*forms_of(text), *full_names(text), *marked])
    return words_in(text), [*forms]


def names_of(id: str) -> list[str]:
    """Names of a document: its id, and the last part if that is a path; numbers are not names.

    Each with accents is a name without them too.

    >>> names_of("docs/My Usage.md"), names_of("os.path"), names_of("10"), names_of("Café")
    (['docs/my usage.md', 'my usage.md'], ['os.path'], [], ['café', 'cafe'])
    """
    name = " ".join(_fold(id).split())
    names = [name, name.rstrip("/").rpartition("/")[2]]
    forms = dict.fromkeys([*names, *_bare_forms(names)])
    return [form for form in forms if _HAS_LETTER.search(form) and len(form) <= LONGEST_NAME]


def name_words(id: str) -> list[str]:
    """Words of a document's id, without single letters; none if it is a number or a UUID.

    >>> name_words("docs/My Usage.md"), name_words("libssl-dev"), name_words("10")
    (['docs', 'my', 'docs/my', 'usage', 'md', 'usage.md'], ['libssl', 'dev', 'libssl-dev'], [])
    """
    name = _normal(id)
    if not _HAS_LETTER.search(name) or _UUID.fullmatch(name):
        return []
    return [word for word in words_of(id) if len(word) > 1 or word.isdigit()]


def name_forms(query: str) -> list[str]:
    """Names that equal a query: itself, without surrounding punctuation, and what it asks about.

    >>> name_forms(" os.path.join() "), name_forms("C++"), name_forms("use My  Usage.md")
    (['os.path.join()', 'os.path.join'], ['c++', 'c'], ['use my usage.md', 'my usage.md'])
    """
    name = " ".join(_fold(query).split())
    bare = _EDGE.sub("", name)
    asked = " ".join(word for word in bare.split() if not ASKING.fullmatch(word))
    forms = dict.fromkeys([name, bare, asked])
    return [form for form in forms if form and len(form) <= LONGEST_NAME]


def misspelt_form(query: str) -> str | None:
    """Form of a query that may be a misspelt name; None for several words, short ones and codes.

    A code with another digit is another code.

    >>> misspelt_form("Libsl-dev?"), misspelt_form("E4031"), misspelt_form("heat pump")
    ('libsl-dev', None, None)
    """
    form = _EDGE.sub("", _fold(query).strip())
    is_name = SHORTEST_MISSPELT <= len(form) <= LONGEST_TERM and " " not in form
    return form if is_name and not _HAS_DIGIT.search(form) else None


def _fold(text: str) -> str:
    """Return the normal form of a text in lower case."""
    return _lower(_normal(text))


def _normal(text: str) -> str:
    """Normalise Unicode, and drop invisible characters; lone surrogates become "?"."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).translate(_SPELLINGS)


def _lower(text: str) -> str:
    """Fold the case of a normal text; an i with a dot, as of "İ", is an i."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text.casefold()).replace("i\u0307", "i")


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_TERM and _HAS_JOINT.search(name) is not None


def _with_humps(part: str) -> list[str]:
    """A run of letters and digits in lower case, and its parts if it is in camel case."""
    word = part.lower() if part.isascii() else _lower(part)
    if word[1:] == part[1:] or len(part) > LONGEST_TERM:  # no inner capital, or too long
        return [word[:LONGEST_TERM]]
    humps = _humps(part)
    if len(humps) == 1:
        return [word[:LONGEST_TERM]]
    return [word, *map(_lower, humps)]


def _humps(part: str) -> list[str]:
    """Parts of a run in camel case.

    >>> _humps("readTimeout"), _humps("größeÄndernHTTP")
    (['read', 'Timeout'], ['größe', 'Ändern', 'HTTP'])
    """
    if part.isascii():
        return _HUMPS.split(part)

    # The pattern handles ASCII only, so replace each letter by its kind, and skip accents.
    offsets = []
    kinds = ""
    for offset, sign in enumerate(part):
        if not unicodedata.combining(sign):
            offsets.append(offset)
            kinds += "A" if sign.isupper() else "a" if sign.isalpha() else "0"
    starts = [offsets[match.start()] for match in _HUMPS.finditer(kinds)]
    return [part[start:end] for start, end in pairwise([0, *starts, len(part)])]


def _words_in_run(part: str) -> Iterator[str]:
    """Yield the words of a run of letters, or its bigrams in scripts without spaces."""
    end = 0
    for match in UNSPACED.finditer(part):
        if between := part[end : match.start()]:
            yield from _with_humps(between)
        run = match[0]
        end = match.end()
        for start in range(max(len(run) - 1, 1)):  # a single character is a word of its own
            yield run[start : start + 2]
    if rest := part[end:]:
        yield from _with_humps(rest)
