"""Excerpts: the part of a long text closest in meaning to the query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.execution.threads import product

from ..documents import Hit
from ..encoders.base import Encoder, encode_queries
from ..encoders.tokens import DEFAULT_LENGTH

LENGTH = 160
"""Characters of an excerpt."""
MOST_PARTS = 80
"""Largest number of parts of texts to encode for a query; ten hits have about as many."""
CHARACTERS_PER_TOKEN = 4
"""Typical value, to estimate how much of a text an encoder has read."""
CUT = "…"
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?](?= )|[。！？]")


def nearest_passages(
    encoder: Encoder,
    queries: Sequence[str],
    found: Sequence[Sequence[Hit]],
    most_parts: int = MOST_PARTS,
) -> list[list[str]]:
    """For each hit of each query, the part of its text closest to the query.

    Parts are compared by meaning; beyond `most_parts` of a query's first hits, by its words.
    """
    vectors = normalize_rows(encode_queries(encoder, queries))

    def nearest(query: str, vector: Matrix, hits: Sequence[Hit]) -> Iterator[str]:
        left = most_parts
        for hit in hits:
            text = on_one_line(hit.text)
            passages = _read_parts(encoder, hit, text)
            if len(passages) == 1:
                yield _shown(text, passages[0])
                continue
            texts, left = [text[part] for part in passages], left - len(passages)
            if left >= 0:
                scores = product(normalize_rows(encoder.encode(texts)), vector)
            else:
                scores = _shared_letters(query, texts)
            yield _shown(text, passages[int(np.argmax(scores))])

    return [[*nearest(*each)] for each in zip(queries, vectors, found, strict=True)]


def beginning(hit: Hit) -> str:
    """The first part of a hit's text, on one line."""
    text = on_one_line(hit.text)
    return _shown(text, next(parts(text)))


def on_one_line(text: str) -> str:
    """Collapse all white space to single spaces."""
    return " ".join(text.split())


def shortened(text: str, length: int = LENGTH) -> str:
    """Shorten a text, marking the omission.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + CUT


def parts(text: str, length: int = LENGTH) -> Iterator[slice]:
    """Split a text into parts of at most `length` characters, at the end of a sentence or else a
    word.

    >>> text = "It rained. The cat sat on the mat."
    >>> [text[part] for part in parts(text, 16)]
    ['It rained.', 'The cat sat on', 'the mat.']
    """
    stop = _end(text, 0, length)
    yield slice(0, stop)
    while stop < len(text):
        start = stop + (text[stop] == " ")
        stop = _end(text, start, length)
        yield slice(start, stop)


def _end(text: str, start: int, length: int) -> int:
    """End of the part that begins at `start`."""
    if len(text) - start <= length:
        return len(text)
    part = text[start : start + length + 1]
    sentences = [match.end() for match in _SENTENCE_END.finditer(part, 0, length)]
    if sentences and sentences[-1] > length // 2:
        return start + sentences[-1]
    blank = part.rfind(" ")
    return start + (blank if blank > length // 2 else length)


def _shared_letters(query: str, texts: Sequence[str]) -> Matrix:
    """For each text (n,), the number of letters in its words that the query shares."""
    words = set(_WORD.findall(query.lower()))
    shared = (words.intersection(_WORD.findall(text.lower())) for text in texts)
    return np.array([sum(map(len, matched)) for matched in shared], dtype=np.float32)


def _read_parts(encoder: Encoder, hit: Hit, text: str) -> list[slice]:
    """Parts of a text that the encoder has read, after the title; at least the first."""
    tokens: int = getattr(encoder, "max_length", DEFAULT_LENGTH)
    read = CHARACTERS_PER_TOKEN * tokens - len(hit.title)
    return list(takewhile(lambda part: part.start < max(read, 1), parts(text)))


def _shown(text: str, part: slice) -> str:
    """Extract a part, marking omissions at its ends."""
    before, after = part.start > 0, part.stop < len(text)
    return f"{CUT if before else ''}{text[part]}{CUT if after else ''}"


def are_by_chance(hits: Sequence[Hit], chance: float | None, query: str) -> bool:
    """True if no hit is closer than the best of the same number of random documents.

    Hits that contain the query verbatim, in their id, title or text, were not found by chance.

    Parameters
    ----------
    chance : result of `chance_score`.

    >>> are_by_chance([Hit("d7", 0.2, "Shows E4032.")], 0.3, "E4031")
    True
    >>> are_by_chance([Hit("d7", 0.2, "Shows E4031.")], 0.3, "e4031")
    False
    """
    if chance is None or any(hit.score >= chance for hit in hits):
        return False
    words = re.compile(rf"(?<!\w){re.escape(query.strip())}(?!\w)", re.IGNORECASE)
    texts = (text for hit in hits for text in (hit.id, hit.title, hit.text))
    return not any(map(words.search, texts))
