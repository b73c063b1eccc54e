"""Words of names, inflected words, and scripts without spaces or with vowel signs."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.lexical.tokens import (
    id_terms,
    misspelt_form,
    name_forms,
    name_words,
    names_of,
    words_in,
    words_of,
)
from slimdex.retrieval.lexical.word_index import WordIndex

PAIRS = {
    "向量搜索": "向量 量搜 搜索",
    "ภาษาไทย": "ภา าษ ษา าไ ไท ทย",
    "ລາວ": "ລາ າວ",
    "ខ្មែរ": "ខ្ ្ម មែ ែរ",
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
        "https://a.example/x_y?q=1": "https a example x y q 1 a.example/x_y a.example x_y",
        "$37,000/QALY": "37 000 qaly 37,000/qaly 37,000",
        "IDs": "ids i ds",
        "Wörter-Liste": "wörter liste wörter-liste",
        "größeÄndern": "grösseändern grösse ändern",
        "номерСчёта": "номерсчёта номер счёта",
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


INVISIBLE = [
    *("\xad", "\u034f", "\u061c", "\u115f", "\u1160", "\u17b4", "\u180b", "\u180e", "\u200b"),
    *("\u200c", "\u200d", "\u200e", "\u202a", "\u202e", "\u2060", "\u2066", "\u206f", "\u3164"),
    *("\ufe00", "\ufe0f", "\ufeff", "\uffa0", "\ufff0", "\U0001bca0", "\U0001d173", "\U000e0001"),
    *("\U000e0100", "\U000e0fff"),
]  # fmt: skip
"""Ends of the ranges of Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt."""


@pytest.mark.parametrize("sign", INVISIBLE, ids=lambda sign: f"U+{ord(sign):04X}")
def test_invisible_characters_cut_no_words_and_no_names(sign: str) -> None:
    for text in ("Donaudampfschiff", "readTimeout", "os.path", "Größe", "向量搜索", "нефть"):
        within = sign.join(text)
        assert words_in(f"{sign}{within}{sign}") == words_in(text)
        assert id_terms(within) == id_terms(text)
        assert name_forms(within) == name_forms(text)
        assert misspelt_form(within) == misspelt_form(text)


FOLDED = {
    "İstanbul ISTANBUL istanbul i\u0307stanbul": "istanbul",
    "Straße STRASSE STRAẞE strasse": "strasse",
    "ﬁnd FIND find ＦＩＮＤ": "find",
    "ΟΔΟΣ οδος οδοσ": "οδοσ",
    "Kelvin KELVIN kelvin": "kelvin",
    "ᾂ ἀ\u0300\u0345": "ἂι",
}
"""Spellings that are one word in Unicode's NFKC_Casefold, and with "İ" as an i."""


@pytest.mark.parametrize("texts", FOLDED)
def test_spellings_of_one_word_have_one_form(texts: str) -> None:
    assert {*words_of(texts)} == {FOLDED[texts]}
    assert {form for text in texts.split() for form in name_forms(text)[:1]} == {FOLDED[texts]}


@given(st.text(max_size=8), st.sampled_from([str.upper, str.lower, str.title, str.casefold]))
def test_case_and_normal_form_change_no_word(text: str, change: Callable[[str], str]) -> None:
    """Camel case and the two letters that Unicode keeps apart in lower case are left out."""
    text = text.lower().replace("ı", "").replace("\u0307", "")
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert names_of(unicodedata.normalize(form, change(text))) == names_of(text)


UNACCENTED = {
    "café": "cafe",
    "crème-brûlée": "creme brulee creme-brulee",
    "ısparta": "isparta",
    "счёт": "счет",
    "Οδός": "οδοσ",
    "ש\u05c1\u05b8לו\u05b9ם": "שלום",
    "م\u064eد\u0652ر\u064eس\u064eة": "مدرسة",
    "Việt x\u0302y": "viet xy",
}


@pytest.mark.parametrize("text", UNACCENTED)
def test_words_with_accents_are_indexed_without_them_too(text: str) -> None:
    for form in ("NFC", "NFD"):
        words = [*words_of(text), *UNACCENTED[text].split()]
        assert words_in(unicodedata.normalize(form, text)).split() == words


def test_accents_are_optional_and_their_texts_rank_first(tmp_path: Path) -> None:
    rows = [
        ("a", "A cafe."),
        ("b", "A café."),
        ("c", "A CAFE\u0301."),
        ("Résumé", "Paper."),
    ]
    index = WordIndex.create(tmp_path / "words", rows)
    assert sorted(index.search("cafe", 4).rows.tolist()) == [0, 1, 2]
    assert index.search("Café", 4).rows.tolist() == [1, 2, 0]
    for query in ("resume", "résumé", "RE\u0301SUME\u0301", "re\xadsume", "resumee"):
        assert index.search(query, 1).named.tolist() == [3]
