"""Words of scripts without spaces and with vowel signs."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from slimdex.retrieval.lexical.tokens import words_of
from slimdex.retrieval.lexical.word_index import WordIndex

SENTENCES = {  # with the words that a dictionary has, separated by "|"
    "Thai": "น้ำตาล|ทำให้|อ้วน",  # sugar, makes, fat
    "Lao": "ນ້ຳ|ຕານ|ເຮັດໃຫ້|ຕຸ້ຍ",  # the same; sugar is "water of palm"
    "Khmer": "ភាសាខ្មែរ|គ្មាន|ដកឃ្លា|រវាង|ពាក្យ",  # Khmer, has no, space, between, words
    "Burmese": "မြန်မာဘာသာ|စကား|သည်",  # Burmese, language, and a particle
}


@pytest.mark.parametrize("language", SENTENCES)
def test_languages_without_spaces_have_words(language: str) -> None:
    words = SENTENCES[language].split("|")
    together = "".join(words)
    expected = [_in_pieces(word) for word in words]
    assert [_in_pieces(word) for word in words_of(together)] == expected
    assert [_in_pieces(word) for word in words_of(f"libssl-dev{together}3")] == [
        *("libssl", "dev", *expected, "3")
    ]


def _in_pieces(word: str) -> str:
    return unicodedata.normalize("NFKC", word)


def test_a_word_of_a_sentence_without_spaces_finds_it(tmp_path: Path) -> None:
    thai = ["กรุงเทพเป็นเมืองหลวงของประเทศไทย", "น้ำตาลทำให้อ้วน", "แมวชอบกินปลา"]
    index = WordIndex.create(tmp_path / "words", [("", text) for text in thai])
    for query, row in (("เมืองหลวง", 0), ("น้ำตาล", 1), ("ปลา", 2), ("แมว กินปลา", 2)):
        assert index.search(query, 3).rows.tolist() == [row]


def test_vowel_signs_and_accents_do_not_cut_words() -> None:
    assert words_of("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]
    assert words_of("שָׁלוֹם a\u0301b\u0323c x\u0332y") == [
        unicodedata.normalize("NFKC", word) for word in ("שָׁלוֹם", "a\u0301b\u0323c", "x\u0332y")
    ]
