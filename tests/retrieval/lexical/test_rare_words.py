"""Rare codes and names of a query, against cases worked by hand and a count over the texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.lexical.rare_words import RareWords
from slimdex.retrieval.lexical.word_index import WordIndex

CODES = ["e4217", "cve-2016-2827", "404", "2.14.3", "1,299.50", "strict_content_length", "os.path"]
NO_CODES = ["e4", "42", "well-known", "and/or", "boiler", "pump"]


def rare(text: str, counts: Mapping[str, int], total: int = 1000) -> RareWords:
    """Rare words of a query whose terms each have an idf of 2."""
    return RareWords.of(text, counts, dict.fromkeys(counts, 2.0), total)


@pytest.mark.parametrize("word", CODES)
def test_codes_of_few_rows_are_rare(word: str) -> None:
    """Of 1,000 rows, three; of 10,000, a five-hundredth; never more than 50."""
    for total, most in ((4, 3), (1000, 3), (10_000, 20), (1_000_000, 50)):
        assert rare(word, {word: most}, total) == RareWords({word: 2.0}, 2.0)
        assert not rare(word, {word: most + 1}, total).idfs


@pytest.mark.parametrize("word", NO_CODES)
def test_words_of_two_rows_are_not_rare_otherwise(word: str) -> None:
    assert not rare(word, {word: 2}).idfs
    assert not rare(f"Tell {word.title()}", {word: 2}).idfs


def test_a_name_of_one_row_has_a_capital_there_or_in_the_query() -> None:
    """A capital at the beginning of a query says nothing."""
    counts = {"boiler": 1, "bowman": 1, "tea": 2}
    small = RareWords.of(
        "boiler bowman tea", counts, {**counts}, 99, {"bowman", "tea"}.__contains__
    )
    assert {*small.idfs} == {"bowman"}
    capitals = rare("Ask Lee, Yu, aCSF, Tea", {"ask": 1, "lee": 1, "yu": 1, "acsf": 1, "tea": 2})
    assert {*capitals.idfs} == {"lee", "acsf"}


def test_a_written_word_counts_by_its_rarest_term() -> None:
    """Not by its parts; 4.3.1 by the longest of those that are as rare."""
    counts = {"fix": 9, "4": 70, "3": 1, "1": 220, "4.3.1": 1, "e4": 0}
    idfs = {"fix": 3.0, "4": 1.0, "3": 5.0, "1": 1.0, "4.3.1": 5.0, "e4": 8.0}
    assert RareWords.of("fix 4.3.1 e4", counts, idfs, 999) == RareWords({"4.3.1": 5.0}, 8.0)


def test_words_without_spaces_count_by_each_term() -> None:
    counts = {"修理": 5, "理水": 9, "e4217": 1}
    idfs = {"修理": 2.0, "理水": 1.0, "e4217": 3.0}
    assert RareWords.of("修理水E4217", counts, idfs, 999) == RareWords({"e4217": 3.0}, 6.0)


def test_a_bonus_falls_by_what_else_the_query_is_about() -> None:
    """By the share of other words that rows have, and by the best row without the code."""
    bm25 = np.array([7, 5, 3, 1], np.float32)
    own = np.array([4.0, 0, 2, 0])
    found = RareWords({"e4217": 4.0}, 10.0).bonuses(own, bm25)
    np.testing.assert_allclose(found, [16 * 4 / 10 * 4 / 9, 0, 16 * 2 / 10 * 2 / 7, 0])
    alone = RareWords({"e4217": 4.0}, 4.0).bonuses(own[:1], bm25[:1])
    np.testing.assert_allclose(alone, [16])


def test_rows_have_the_bonuses_of_their_rare_words(tmp_path: Path) -> None:
    texts = [
        "Error E4217: the pump of Wojciechowska stopped.",
        "Error E4218: the pump stopped.",
        "E4217 and E4218 mean that the pump stopped.",
        *["The pump runs."] * 20,
    ]
    index = WordIndex.create(tmp_path / "words", [("", text) for text in texts])
    found = index.search("pump E4217 wojciechowska E4218", 200)

    def idf(rows: int) -> float:
        return float(np.log(1 + (23 - rows + 0.5) / (rows + 0.5)))

    idfs = {"E4217": idf(2), "E4218": idf(2), "Wojc": idf(1)}
    whole = idf(23) + sum(idfs.values())
    own = np.array([sum(i for word, i in idfs.items() if word in texts[r]) for r in found.rows])
    rival = found.scores[own == 0].max()
    np.testing.assert_allclose(found.rare, 16 * own / whole * own / (own + rival), rtol=1e-6)
    assert found.rare[np.flatnonzero(found.rows == 5)] == 0
    assert not index.search("the pump", 200).rare.any()
