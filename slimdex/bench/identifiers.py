"""Questions for the codes and names in a data set's own texts.

Labelled sets hardly ask for an error's number, a version, a function or a surname, though people
do. Here each question asks, in one of five forms, for a word that only one text has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

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
SIGNS = "$£€."
"""Signs around an amount, which are not searched."""
FIRST_LETTERS = 5
"""Letters at the start of a person's name that no other text has, so that it is no form of a word
there: *Exclusion* names nobody where others have *exclusive*."""


def identifier_questions(documents: Sequence[Document]) -> Iterator[tuple[str, str, str]]:
    """Yield id, text and the answering document's id of each question.

    No other document has the word that a question asks for, in any case, not even as a part of a
    longer one.

    >>> two = [Document("a", "Error E4217: no pressure."), Document("b", "E4218: ask the porter.")]
    >>> [text for id, text, _ in identifier_questions(two) if id.startswith("code:E4217:")][:2]
    ['E4217', 'what is E4217']
    """
    texts = [document.content for document in documents]
    is_single = _single_in(texts)
    for kind, pattern in KINDS.items():
        first_letters = FIRST_LETTERS if kind == "person" else None

        # Find words that occur in only one document.
        single = []
        for row, document in enumerate(documents):
            for word in sorted({*pattern.findall(texts[row])}):
                if len(word) >= SHORTEST and is_single(word.strip(SIGNS)[:first_letters], row):
                    single.append((word, document.id))

        # Ask for some of them.
        order = np.random.default_rng(0).permutation(len(single))[:WORDS_OF_A_KIND]
        for i in order:
            word, answer = single[i]
            for number, form in enumerate(FORMS):
                yield f"{kind}:{word}:{number}", form.format(word), answer


def _single_in(texts: Sequence[str]) -> Callable[[str, int], bool]:
    """Return a function that tells if no text but the one of a row has a string, in any case.

    >>> is_single = _single_in(["Ada wrote it.", "adamant"])
    >>> is_single("Wrote", 0), is_single("Ada", 0)
    (True, False)
    """
    folded = [text.lower() + "\n" for text in texts]
    starts = [*accumulate(map(len, folded), initial=0)]
    joined = "".join(folded)

    # The first and the last occurrence must be in the text of the row.
    def is_single(string: str, row: int) -> bool:
        first = joined.find(string.lower())
        last = joined.rfind(string.lower())
        return bool(starts[row] <= first and last < starts[row + 1])

    return is_single
