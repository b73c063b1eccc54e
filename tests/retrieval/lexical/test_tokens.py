"""Words of names, inflected words, and scripts without spaces or with vowel signs."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from slimdex.retrieval.lexical.tokens import name_words, words_of
from slimdex.retrieval.lexical.word_index import WordIndex

PAIRS = {
    "向量搜索": "向量 量搜 搜索",
    "ภาษาไทย": "ภา าษ ษา าไ ไท ทย",
    "ລາວ": "ລາ າວ",
    "ខ្មែរ": "ខ្ ្ម មែ ែរ",
    "မြန်မာ": "မြ ြန န် ်မ မာ",
    "ก": "ก",
}


@pytest.mark.parametrize("text", PAIRS)
def test_scripts_without_spaces_are_cut_into_pairs_of_characters(text: str) -> None:
    assert words_of(text) == PAIRS[text].split(" ")
    assert words_of(f"libssl-dev{text}3") == ["libssl", "dev", *PAIRS[text].split(" "), "3"]


def test_words_find_sentences_without_spaces(tmp_path: Path) -> None:
    thai = ["กรุงเทพเป็นเมืองหลวงของประเทศไทย", "น้ำตาลทำให้อ้วน", "แมวชอบกินปลา"]
    index = WordIndex.create(tmp_path / "words", [("", text) for text in thai])
    for query, row in (("เมืองหลวง", 0), ("น้ำตาล", 1), ("ปลา", 2), ("แมว กินปลา", 2)):
        assert index.search(query, 3).rows.tolist() == [row]


def test_vowel_signs_and_accents_do_not_cut_words() -> None:
    assert words_of("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]
    assert words_of("שָׁלוֹם a\u0301b\u0323c x\u0332y") == [
        unicodedata.normalize("NFKC", word) for word in ("שָׁלוֹם", "a\u0301b\u0323c", "x\u0332y")
    ]


def test_names_are_indexed_whole_and_in_parts() -> None:
    expected = {
        "readTimeout": "readtimeout read timeout",
        "HTTPServer2Go": "httpserver2go http server2 go",
        "python3-numpy": "python3 numpy python3-numpy",
        "(std::vector<int>)": "std vector int std::vector",
        "f(os.path.join(a))": "f os path join a os.path.join",
        "https://a.example/x_y?q=1": "https a example x y q 1 a.example/x_y",
        "IDs": "ids i ds",
        "Wörter-Liste": "wörter liste wörter-liste",
    }
    assert {text: " ".join(words_of(text)) for text in expected} == expected


@pytest.mark.parametrize(
    ("id", "query"),
    [
        *(("libssl-dev", query) for query in ("libssl", "libssl_dev", "dev of LibSSL", "devs")),
        *(("http.read_timeout", query) for query in ("readTimeout", "read timeouts", "read")),
        *(("guides/Boiler pressure.md", query) for query in ("pressure", "boilers", "guide")),
    ],
)
def test_a_part_of_a_name_finds_its_document(tmp_path: Path, id: str, query: str) -> None:
    index = WordIndex.create(tmp_path / "words", [("other", "Tea."), (id, "Water."), ("7", "Ink.")])
    assert index.search(query, 3).rows.tolist() == [1]
    assert not len(index.search("7", 3).rows)


def test_inflected_words_match_and_exact_names_rank_first(tmp_path: Path) -> None:
    rows = [
        ("cache", "Stores."),
        ("caching", "Writes."),
        ("x", "It stored files."),
        ("y", "Файлы."),
    ]
    index = WordIndex.create(tmp_path / "words", rows)
    for query, row in (("caching", 1), ("cache", 0), ("cachings", 0), ("файлов", 3)):
        assert index.search(query, 1).rows.tolist() == [row]
    assert index.search("storing", 3).rows.tolist() == [0, 2]
    assert index.search("caching", 3).named.tolist() == [1]


NAMES = [("libssl-dev", "TLS."), ("Readme", "Start."), ("E4031", "Pressure."), ("tea", "Leaves.")]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        *(("libsl-dev", [0]), ("Libssl-devs", []), ("lbissl-dev", [0]), ("libssl_dev", [0])),
        *(("raedme!", [1]), ("rdme", []), ("E4O31", []), ("E4033", []), ("teas", []), ("ta", [])),
        *(("leafs", []), ("start readm", []), ("libssl-dev", [0]), ("pressur", []), ("", [])),
    ],
)
def test_misspelt_names_are_found(tmp_path: Path, query: str, rows: list[int]) -> None:
    """Unless the query is short, a code, or has a word in common with the texts as a whole."""
    index = WordIndex.create(tmp_path / "words", NAMES)
    assert index.search(query, 3).named.tolist() == rows


def test_an_exact_name_hides_similar_names(tmp_path: Path) -> None:
    rows = [("libfoo", ""), ("libfob", ""), ("x", "They say libbar."), ("libbaz", "")]
    index = WordIndex.create(tmp_path / "words", rows)
    assert index.search("libfoo", 3).named.tolist() == [0]
    assert sorted(index.search("libfox", 3).named.tolist()) == [0, 1]
    assert index.search("libbar", 3).named.tolist() == []  # a text has it
    assert index.search("libbaz", 3).named.tolist() == [3]


def test_random_ids_are_names_without_words(tmp_path: Path) -> None:
    id = "0b9ae9f4-91dc-4aad-98e9-0c0e2a2c7f11"
    assert name_words(id) == name_words(id.upper()) == []
    index = WordIndex.create(tmp_path / "words", [(id, "Tea."), ("x", "Ink.")])
    assert index.search(id, 3).named.tolist() == [0]
    assert not len(index.search("4aad", 3).rows)
