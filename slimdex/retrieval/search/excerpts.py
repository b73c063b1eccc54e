"""Excerpts: the part of a long text that has a query's words, and is closest to it in meaning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, starmap
from math import log
from typing import Self

import numpy as np

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.system.threads import product

from ..documents import Hit
from ..encoders.base import Encoder
from ..encoders.tokens import DEFAULT_LENGTH
from ..lexical.tokens import INVISIBLE, MARKS, UNSPACED, stems_of, words_of
from ..passages import TERMINALS

LENGTH = 160
MOST_PARTS = 80
"""Largest number of parts of texts to encode for a query; ten hits have about as many."""
BEHIND = 0.3
"""Share of the query's words by which a part is ruled out: cosines rarely make up for it."""
CHARACTERS_PER_TOKEN = 4
"""Typical value, to estimate how much of a text an encoder has read."""
LONGEST_READ = 200_000
"""Characters of a text in which the query's words are looked for."""
SHORTEST = 3
"""Fewest letters of a word that tells something by itself."""
COMMON = frozenset([
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in",
    "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "so", "some",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to",
    "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with",
    "would", "you", "your",
])  # fmt: skip
"""Words that are in any English text, and tell nothing."""
CUT = "…"
_BLANK = re.compile(r"\s+")
_UNSEEN = INVISIBLE.pattern.removesuffix("+")
_WORD = re.compile(rf"\w(?:[\w{MARKS}]|{_UNSEEN})*+")
_SENTENCE_END = re.compile(rf"[.!?](?=\s)|[{TERMINALS}]")


@dataclass(frozen=True)
class Excerpt:
    """Part of a hit's text.

    Attributes
    ----------
    text : with its line breaks, marked where it is cut.
    start, end : offsets in the hit's text, in characters.
    line, last_line : lines of the file in which it begins and ends; None if these are not known.
    page, last_page : as lines.
    """

    text: str
    start: int
    end: int
    line: int | None
    last_line: int | None
    page: int | None
    last_page: int | None

    @classmethod
    def of(cls, hit: Hit, part: slice) -> Self:
        """Make the excerpt of a part of a hit's text, with marks where text is left out."""
        before = CUT if part.start > 0 else ""
        after = CUT if part.stop < len(hit.text) else ""
        last = max(part.start, part.stop - 1)
        return cls(
            text=f"{before}{hit.text[part]}{after}",
            start=part.start,
            end=part.stop,
            line=hit.line_at(part.start),
            last_line=hit.line_at(last),
            page=hit.page_at(part.start),
            last_page=hit.page_at(last),
        )


@dataclass(frozen=True)
class _Text:
    """A hit's text, divided into parts that may become its excerpt.

    Attributes
    ----------
    scores : (parts,), shares of the query's words; cosines are added for parts that are compared.
    close : positions of the parts to compare by meaning.
    """

    hit: Hit
    parts: Sequence[slice]
    scores: Matrix
    close: Sequence[int] = ()

    @classmethod
    def of(cls, hit: Hit, query: str, length: int, read: int = 0) -> Self:
        """Score the parts by the query's words; `read` is how many characters the encoder reads."""
        text = hit.text
        if place := _verbatim(query, text):
            part = _around(text, place, length)
            return cls(hit, [part], np.zeros(1, dtype=np.float32))
        all_parts = [*parts(text[:LONGEST_READ], length)]
        scores = _shares(query, [text[part] for part in all_parts])

        # Compare by meaning only parts that score well by words and that the encoder has read.
        end = max(read - len(hit.title), 1)  # it read the title first; at least the first part
        starts = np.array([part.start for part in all_parts])
        is_close = (starts < end) & (scores >= scores.max() - BEHIND)
        close = np.flatnonzero(is_close).tolist()
        has_choice = len(close) > 1  # a single one is the best in any case
        return cls(hit, all_parts, scores, close if has_choice else ())

    @property
    def excerpt(self) -> Excerpt:
        """The best part."""
        return Excerpt.of(self.hit, self.parts[int(np.argmax(self.scores))])


def nearest_passages(
    encoder: Encoder,
    queries: Sequence[str],
    vectors: Matrix,
    hits_of_queries: Sequence[Sequence[Hit]],
    most_parts: int = MOST_PARTS,
) -> list[list[Excerpt]]:
    """Return the part of each hit's text that is closest to its query.

    Each query is given as a text and as a vector. If a hit's text contains the query verbatim, its
    excerpt is there. Otherwise parts are compared by their cosines and their shares of the query's
    words. Words alone decide if they single out a part, if the encoder has not read that far into
    the text, and once `most_parts` parts of the query's hits have been encoded.
    """
    read = CHARACTERS_PER_TOKEN * getattr(encoder, "max_length", DEFAULT_LENGTH)

    def nearest(query: str, vector: Matrix, hits: Sequence[Hit]) -> list[Excerpt]:
        """Excerpts of the hits of one query, whose vector (dim,) has length 1."""
        # Select the parts that are worth encoding.
        texts = [_Text.of(hit, query, LENGTH, read) for hit in hits]
        compared = list[_Text]()
        encoded = list[str]()
        for text in texts:
            if 0 < len(text.close) <= most_parts - len(encoded):
                compared.append(text)
                encoded += [text.hit.text[text.parts[i]] for i in text.close]

        # Encode them together: for a few texts, an encoder mostly waits for its weights.
        if compared:
            cosines = product(normalize_rows(encoder.encode(encoded)), vector)
            ends = np.cumsum([len(text.close) for text in compared])
            for text, of_text in zip(compared, np.split(cosines, ends[:-1]), strict=True):
                text.scores[text.close] += of_text
        return [text.excerpt for text in texts]

    per_query = zip(queries, normalize_rows(vectors), hits_of_queries, strict=True)
    return [*starmap(nearest, per_query)]


def beginning(hit: Hit) -> Excerpt:
    """The first part of a hit's text."""
    return Excerpt.of(hit, next(parts(hit.text)))


def nearest_by_words(query: str, hit: Hit, length: int = LENGTH) -> Excerpt:
    """The part of a hit's text with the query, or with most of its words; the first without any.

    >>> hit = Hit("7", 0.5, "The boiler has no pressure. Open the tap below. E4031 is shown.")
    >>> nearest_by_words("e4031", hit, 30).text, nearest_by_words("taps opened", hit, 30).text
    ('…below. E4031 is shown.', '…Open the tap below.…')
    """
    return _Text.of(hit, query, length).excerpt


def word_places(text: str, query: str) -> list[tuple[int, int]]:
    """Return starts and ends of a text's words that the query has too, in any inflected form.

    Only the telling words of the query count, if it has any: see `_terms`.

    >>> word_places("The boiler, the Bo\xadiler's valve; boilers", "the boiler")
    [(4, 10), (16, 23), (33, 40)]
    """
    terms = _terms(query)
    places = list[tuple[int, int]]()
    for word in _WORD.finditer(text):
        # Scripts without spaces are indexed by pairs of characters.
        if UNSPACED.search(word[0]):
            for start in range(*word.span()):
                end = min(start + 2, word.end())
                if _stems(text[start:end]) & terms:
                    places.append((start, end))
        elif _stems(word[0]) & terms:
            places.append(word.span())
    return places


def on_one_line(text: str) -> str:
    """Collapse all white space to single spaces."""
    return " ".join(text.split())


def shorten(text: str, length: int = LENGTH) -> str:
    """Shorten a text, marking the omission.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + CUT


def parts(text: str, length: int = LENGTH) -> Iterator[slice]:
    """Split a text into parts of at most `length` characters, after sentences or else after words.

    >>> text = "It rained. The cat sat on the mat."
    >>> [text[part] for part in parts(text, 16)]
    ['It rained.', 'The cat sat on', 'the mat.']
    """
    stop = _end(text, 0, length)
    yield slice(0, stop)
    while (start := _after_blank(text, stop)) < len(text):
        stop = _end(text, start, length)
        yield slice(start, stop)


def _after_blank(text: str, start: int) -> int:
    """Return the offset of the first character from `start` on that is no white space."""
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start


def _end(text: str, start: int, length: int) -> int:
    """Return the offset at which a part that begins at `start` ends.

    This is the last end of a sentence in the second half of its `length` characters, or else the
    last end of a line or the last space there. Without these, the part has `length` characters.
    """
    if len(text) - start <= length:
        return len(text)
    part = text[start : start + length + 1]
    sentences = [match.end() for match in _SENTENCE_END.finditer(part, 0, length)]
    for end in (*sentences[-1:], part.rfind("\n"), part.rfind(" ")):
        if end > length // 2:
            return start + end
    return start + length


@lru_cache(1 << 14)
def _stems(word: str) -> frozenset[str]:
    return frozenset(stems_of(word))


def _terms(query: str) -> frozenset[str]:
    """Stems of the telling words of a query, or of all if it has none."""
    words = words_of(query[:LONGEST_READ])
    telling = []
    for word in words:
        is_long = len(word) >= SHORTEST or UNSPACED.match(word)
        if is_long and word not in COMMON:
            telling.append(word)
    return frozenset(chain.from_iterable(map(_stems, telling or words)))


def _shares(query: str, texts: Sequence[str]) -> Matrix:
    """Share (n,) of the query's words that each text has, 0 to 1; rare ones count more."""
    terms = _terms(query)
    terms_of_texts = [terms.intersection(stems_of(text)) for text in texts]
    counts = Counter(chain.from_iterable(terms_of_texts))  # number of texts that have each term
    weights = {term: log(1 + len(texts) / (0.5 + counts[term])) for term in terms}
    total = sum(weights.values()) or 1.0
    shares: Matrix = np.zeros(len(texts), dtype=np.float32)
    for i, each in enumerate(terms_of_texts):
        shares[i] = sum(weights[term] for term in each) / total
    return shares


def _verbatim(query: str, text: str) -> slice | None:
    """Find a query in a text, ignoring case and invisible characters.

    Returns None if it does not occur as whole words, or is longer than an excerpt.
    """
    query = on_one_line(INVISIBLE.sub("", query))
    if not query or len(query) > LENGTH:
        return None
    signs = (r"\s+" if sign == " " else re.escape(sign) for sign in query)
    letters = f"{_UNSEEN}*+".join(signs)
    match = re.search(rf"(?<!\w){letters}(?!\w)", text, re.IGNORECASE)
    return None if match is None else slice(*match.span())


def _around(text: str, place: slice, length: int) -> slice:
    """Return the part of a text around `place`, beginning at a word.

    `place` begins within the first third of the part, so that some text before it is shown.
    """
    spare = length - (place.stop - place.start)
    start = max(place.start - min(length // 3, spare), 0)
    if start:
        blank = _BLANK.search(text, start, place.start)
        start = blank.end() if blank else place.start
    return slice(start, max(_end(text, start, length), place.stop))
