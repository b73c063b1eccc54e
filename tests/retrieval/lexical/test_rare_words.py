"""Rare codes and names of a query, against cases worked by hand and a count over the texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.lexical.rare_words import rare_words
from slimdex.retrieval.lexical.word_index import WordIndex

CODES = ["e4217", "cve-2016-2827", "404", "2.14.3", "1,299.50", "strict_content_type", "os.path"]
NO_CODES = ["e4", "42", "well-known", "and/or", "boiler", "pump"]


@pytest.mark.parametrize("word", CODES)
def test_codes_of_few_rows_are_rare(word: str) -> None:
    """Of 1,000 rows, three; of 10,000, a five-hundredth; never more than 50."""
    for total, most in ((4, 3), (1000, 3), (10_000, 20), (1_000_000, 50)):
        assert rare_words({word: most}, {word: 2.5}, total) == {word: 12.0}
        assert rare_words({word: most + 1}, {word: 2.5}, total) == {}


@pytest.mark.parametrize("word", NO_CODES)
def test_words_of_two_rows_are_not_rare_otherwise(word: str) -> None:
    assert rare_words({word: 2}, {word: 2.5}, 1000) == {}


def test_a_name_of_one_row_is_rare_from_six_letters() -> None:
    counts = {"boiler": 1, "pumps": 1}
    assert rare_words(counts, {"boiler": 3.0, "pumps": 1.0}, 1000) == {"boiler": 4 * 0.75**2}


def test_words_that_no_row_has_do_not_count() -> None:
    counts = {"e4217": 2, "device": 9, "fixed": 0}
    idfs = {"e4217": 6.0, "device": 2.0, "fixed": 8.0}
    assert rare_words(counts, idfs, 1000) == {"e4217": 12 * 0.75**2}


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

    whole = idf(23) + idf(2) + idf(1) + idf(2)
    expected = [
        sum(
            factor * (idf(rows) / whole) ** 2
            for word, factor, rows in (("E4217", 12, 2), ("E4218", 12, 2), ("Wojc", 4, 1))
            if word in texts[row]
        )
        for row in found.rows
    ]
    np.testing.assert_allclose(found.rare, expected, rtol=1e-6)
    assert found.rare[np.flatnonzero(found.rows == 5)] == 0
    assert not index.search("the pump", 200).rare.any()
