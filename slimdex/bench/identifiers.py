"""Questions for the codes and names in a data set's own texts.

Labelled sets hardly ask for an error's number, a version, a function or a surname, though people
do. Here each question asks, in one of five forms, for a word that a single text has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from slimdex.retrieval.documents import Document

KINDS: Mapping[str, re.Pattern[str]] = {
    "code": re.compile(r"(?<![\w.-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])\w{2,}(?:-\w+)*(?![\w-])"),
    "number": re.compile(r"(?<![\w.,$-])\d{4,}(?![\w-]|[.,]\d)"),
    "version": re.compile(r"(?<![\w.,$-])\d+(?:\.\d+)+(?![\w-])"),
    "amount": re.compile(r"[$£€]\d{1,3}(?:,\d{3})*\.?\d*"),
    "function": re.compile(r"(?<![\w.])[A-Za-z]\w*(?:[_.][A-Za-z]\w+)+|(?<!\w)[a-z]+[A-Z]\w+"),
    "person": re.compile(r"(?<=[a-z] )[A-Z][a-z]{5,}(?!\w)"),
}
"""Kinds of identifiers and what they look like; a person is a rare capitalised word."""
FORMS = (
    "{}",
    "what is {}",
    "what about {} please",
    "tell me what you know about {}",
    "how do I fix {} on my device",
)
WORDS_OF_A_KIND = 33
"""Few enough that 1,000 questions include every kind."""
SHORTEST = 4


def identifier_questions(documents: Sequence[Document]) -> Iterator[tuple[str, str, str]]:
    """Yield id, text and the answering document's id of each question.

    >>> two = [Document("a", "Error E4217: no pressure."), Document("b", "E4218: ask the porter.")]
    >>> [text for id, text, _ in identifier_questions(two) if id.startswith("code:E4217:")][:2]
    ['E4217', 'what is E4217']
    """
    texts = [document.content for document in documents]
    words_of_texts = Counter(word for text in texts for word in set(_words(text)))
    for kind, pattern in KINDS.items():
        places: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            for word in sorted({*pattern.findall(text)}):
                places.setdefault(word, []).append(row)
        single = [
            word
            for word, rows in places.items()
            if len(rows) == 1
            and len(word) >= SHORTEST
            and all(words_of_texts[part] == 1 for part in _words(word)[-1:])
        ]
        order = np.random.default_rng(0).permutation(len(single))[:WORDS_OF_A_KIND]
        for word in (single[i] for i in order):
            for number, form in enumerate(FORMS):
                yield f"{kind}:{word}:{number}", form.format(word), documents[places[word][0]].id


def _words(text: str) -> list[str]:
    """Words in lower case; those with signs inside are one.

    >>> _words("See os.path, version 3.11.")
    ['see', 'os.path', 'version', '3.11']
    """
    return re.findall(r"\w+(?:[-.,_]\w+)*", text.lower())
