"""Languages of texts: detected by py3langid if installed, otherwise by their script alone."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec

CHARACTERS_READ = 1000
"""Characters of a text that are read."""
FEWEST_LETTERS = 40
"""Letters of a text in Latin script whose language is detected; fewer could be any."""
LEAST_DIFFERENCE = 10.0
"""Least difference of log-likelihoods between another language and English."""
ENGLISH_WORDS = frozenset(("the", "and", "this", "with", "that", "from"))
"""Words of which an English text has one, and hardly any other text: they save the detector."""
LATIN = "LATIN"


def other_languages(texts: Sequence[str]) -> tuple[float, str]:
    """Share of the texts that are not in English, and their most frequent language or script.

    Without a detector, only other scripts than Latin count. Texts that are too short, or without
    letters, do not count.

    >>> other_languages(["Сегодня идёт дождь.", "It rains on the roof.", "12"])
    (0.5, 'Cyrillic script')
    """
    found = [
        language for text in texts if (language := _language(text[:CHARACTERS_READ])) is not None
    ]
    others = Counter(language for language in found if language)
    if not others:
        return 0.0, ""
    return others.total() / len(found), others.most_common(1)[0][0]


def _language(text: str) -> str | None:
    """Language or script; "" for English, None if it can't be known."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return None
    scripts = Counter(unicodedata.name(letter, "?").partition(" ")[0] for letter in letters)
    script, _ = scripts.most_common(1)[0]
    if script != LATIN:
        return f"{script.capitalize() if script != 'CJK' else script} script"
    if find_spec("py3langid") is None or not ENGLISH_WORDS.isdisjoint(text.lower().split()):
        return ""
    if len(letters) < FEWEST_LETTERS:
        return None
    from py3langid import rank

    ranked: list[tuple[str, float]] = rank(text)
    (language, likelihood), scores = ranked[0], dict(ranked)
    return f"language {language!r}" if likelihood - scores["en"] >= LEAST_DIFFERENCE else ""
