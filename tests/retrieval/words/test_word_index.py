"""BM25 against the formula by hand; and folders that are damaged or half-written."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.errors import CorruptError
from slimdex.retrieval.words import word_index
from slimdex.retrieval.words.tokens import LONGEST, name_words, words_of
from slimdex.retrieval.words.word_index import WordIndex
from tests.chance import CHANCE

WORDS = ["red", "green", "blue", "os.path", "naïve", "北京"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
K1, B = 1.2, 0.75


def bm25(texts: list[str], query: str) -> list[float]:
    """Robertson and Zaragoza 2009, with Lucene's inverse document frequency, in plain Python."""
    documents = [words_of(text) for text in texts]
    average = sum(map(len, documents)) / len(documents)
    scores = [0.0] * len(documents)
    for word in set(words_of(query)):
        having = sum(word in document for document in documents)
        idf = log(1 + (len(documents) - having + 0.5) / (having + 0.5))
        for i, document in enumerate(documents):
            count = Counter(document)[word]
            if count:
                length = 1 - B + B * len(document) / average
                scores[i] += idf * count * (K1 + 1) / (count + K1 * length)
    return scores


@settings(max_examples=CHANCE.examples(25))
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), query=TEXTS, cut=st.integers(0, 12))
def test_scores_are_bm25s(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, cut: int
) -> None:
    """In one addition or two; texts are so short that their lengths are kept exactly."""
    index = WordIndex.create(tmp_path_factory.mktemp("words") / "w")
    cut = min(cut, len(texts))
    index = index.extended([("", text) for text in texts[:cut]], 0)
    index = index.extended([("", text) for text in texts[cut:]], cut)
    found = index.search(query, 100, len(texts))
    expected = {row: score for row, score in enumerate(bm25(texts, query)) if score > 0}
    assert set(found.rows.tolist()) == expected.keys()
    np.testing.assert_allclose(found.scores, [expected[row] for row in found.rows], rtol=1e-5)
    assert (np.diff(found.scores) <= 0).all()


@pytest.fixture
def index(tmp_path: Path) -> WordIndex:
    made = WordIndex.create(tmp_path / "words")
    return made.extended([(f"d{i}", f"cat {'cat ' * (i % 3)}number{i}") for i in range(60)], 0)


def test_a_search_is_among_what_it_is_told(
    index: WordIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = index.search("cat", 100, 60).rows
    assert sorted(every.tolist()) == list(range(60))
    allowed, hidden = np.arange(5, 40), np.array([7, 8, 9])
    expected = [row for row in every.tolist() if row in allowed and row not in hidden and row < 30]
    for most in (word_index.AMONG, 3):  # named one by one, and picked from what is found
        monkeypatch.setattr(word_index, "AMONG", most)
        for k in (1, 4, 100):
            assert index.search("cat", k, 30, allowed, hidden).rows.tolist() == expected[:k]
    assert not len(index.search("dog", 5, 60).rows)
    assert not len(index.search("... !", 5, 60).rows)
    assert not len(index.search("cat", 5, 60, np.empty(0, np.int64)).rows)


def test_what_an_interruption_left_is_not_seen_and_not_kept(index: WordIndex) -> None:
    index.extended([("x", "zebra")], 60)
    opened = WordIndex.open(index.path)
    assert len(opened) == 61
    assert not len(opened.search("zebra", 5, stop=60).rows)
    assert opened.faults(60) == []
    again = opened.extended([("y", "yak")], 60)
    assert again.search("zebra yak", 5, stop=61).rows.tolist() == [60]
    assert not len(again.search("zebra", 5, stop=61).rows)
    assert [*opened.search("zebra", 5, stop=61).rows] == [60]  # which finds what it did


def test_documents_are_found_by_their_names(index: WordIndex) -> None:
    assert index.search("d17", 1, 60).rows.tolist() == [17]
    assert index.search("Number17!", 1, 60).rows.tolist() == [17]


def test_words_missing_are_a_fault(index: WordIndex) -> None:
    assert index.faults(61) == [f"{index.path}: words of 60 rows; expected 61"]


def test_every_flipped_byte_is_a_fault_and_no_traceback(index: WordIndex) -> None:
    random = CHANCE.random("flips of words")
    files = [f for f in index.path.iterdir() if f.stat().st_size and f.suffix != ".json"]
    for file in sorted(files):
        data = file.read_bytes()
        for _ in range(CHANCE.count(20, 3)):
            flipped = bytearray(data)
            flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
            file.write_bytes(flipped)
            with suppress(CorruptError):
                opened = WordIndex.open(index.path)
                assert opened.faults(60), file
                opened.search("cat number3", 5, 60)
        file.write_bytes(data)
    assert WordIndex.open(index.path).faults(60) == []


@pytest.mark.parametrize("left", ["", "{}", "[", None])
def test_a_folder_that_is_none_of_ours_is_refused(index: WordIndex, left: str | None) -> None:
    meta = index.path / "meta.json"
    meta.unlink() if left is None else meta.write_text(left)
    with pytest.raises(CorruptError, match="words: damaged"):
        WordIndex.open(index.path)


def test_a_disk_that_refuses_is_said_so_and_what_was_there_stays(
    index: WordIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is gone stands for it: tantivy's writes fail as they would on a bad disk."""
    moved = index.path.rename(index.path.with_name("elsewhere"))
    with pytest.raises(OSError, match=r"No such file|can't be written|Input/output"):
        index.extended([("", "dog")], 60)
    os.rename(moved, index.path)
    assert WordIndex.open(index.path).extended([("", "dog")], 60).faults(61) == []


def test_words_of_any_text_are_words(index: WordIndex) -> None:
    long = "x" * 500
    assert words_of(f"{long} ok") == ["x" * LONGEST, "ok"]
    assert words_of("C++ and e.g. a_case's") == [
        "c",
        "and",
        "e",
        "g",
        "e.g",
        "a",
        "case",
        "s",
        "a_case's",
    ]
    assert words_of("") == words_of("?! _") == []
    assert name_words("a b") == []
    assert name_words("libssl-dev/") == ["libssl-dev/", "libssl-dev"]
    surrogate = "half \ud800 a character"
    assert "half" in words_of(surrogate)
    index.extended([("", surrogate)], 60)
    index.search(surrogate, 3, 60)
