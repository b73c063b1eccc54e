"""BM25 against the formula; damaged and half-written folders."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError
from slimdex.retrieval.lexical import word_index
from slimdex.retrieval.lexical.tokens import LONGEST_TERM, name_words, words_in, words_of
from slimdex.retrieval.lexical.word_index import WordIndex, write_extended
from tests.chance import CHANCE

WORDS = ["red", "green", "blue", "os.path", "naïve", "北京"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(", ".join)
K1, B = 1.2, 0.75


def bm25(texts: list[str], query: str) -> list[float]:
    """Robertson and Zaragoza 2009, with Lucene's inverse document frequency, in plain Python."""
    documents = [words_in(text).split() for text in texts]
    average = sum(map(len, documents)) / len(documents)
    scores = [0.0] * len(documents)
    for word in set(words_in(query).split()):
        having = sum(word in document for document in documents)
        idf = log(1 + (len(documents) - having + 0.5) / (having + 0.5))
        for i, document in enumerate(documents):
            count = Counter(document)[word]
            if count:
                length = 1 - B + B * len(document) / average
                scores[i] += idf * count * (K1 + 1) / (count + K1 * length)
    return scores


def extended(index: WordIndex, path: Path, rows: Iterable[tuple[str, str]]) -> WordIndex:
    write_extended(index.path, len(index), path, rows)
    return WordIndex.open(path)


@settings(max_examples=CHANCE.examples(25))
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), query=TEXTS, cut=st.integers(0, 12))
def test_scores_are_bm25s(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, cut: int
) -> None:
    """In one addition or two; texts are so short that their lengths are kept exactly."""
    folder, rows = tmp_path_factory.mktemp("words"), [("", text) for text in texts]
    index = extended(WordIndex.create(folder / "1", rows[:cut]), folder / "2", rows[cut:])
    hits = index.search(query, 100)
    expected = {row: score for row, score in enumerate(bm25(texts, query)) if score > 0}
    assert set(hits.rows.tolist()) == expected.keys()
    np.testing.assert_allclose(hits.scores, [expected[row] for row in hits.rows], rtol=1e-5)
    assert (np.diff(hits.scores) <= 0).all()


@pytest.fixture
def index(tmp_path: Path) -> WordIndex:
    rows = [(f"d{i}", f"cat {'cat ' * (i % 3)}number{i}") for i in range(60)]
    return WordIndex.create(tmp_path / "words", rows)


def test_hidden_rows_are_not_found(index: WordIndex) -> None:
    every = index.search("cat", 100).rows
    assert sorted(every.tolist()) == list(range(60))
    hidden = np.array([2, 7, 8, 9, 50])
    expected = [row for row in every.tolist() if row not in hidden]
    for k in (1, 4, 100):
        assert index.search("cat", k, hidden).rows.tolist() == expected[:k]
    assert not len(index.search("cat", 5, np.arange(60)).rows)
    assert not len(index.search("dog", 5).rows)
    assert not len(index.search("... !", 5).rows)


def test_common_words_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is searched with the frequencies of all rows, however rows were added."""
    monkeypatch.setattr(word_index, "FEWEST_COMMON", 100)
    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, (2000, 25)).clip(max=5000)
    texts = [" ".join(f"w{w}" for w in row) for row in words]
    rows = [("", text) for text in texts]
    index = WordIndex.create(tmp_path / "1", rows[:1500])
    index = extended(index, tmp_path / "2", rows[1500:])
    having = {f"w{w}": int((words == w).any(axis=1).sum()) for w in range(1, 5001)}
    for query in texts[:8]:
        rare = " ".join(word for word in query.split() if having[word] <= 400)
        assert len(rare) < len(query)
        expected = np.array(bm25(texts, rare))
        hits = index.search(query, 50)
        np.testing.assert_allclose(hits.scores, np.sort(expected)[::-1][:50], rtol=1e-5)
        np.testing.assert_allclose(expected[hits.rows], hits.scores, rtol=1e-5)
        hidden = np.sort(hits.rows[:40])
        assert index.search(query, 10, hidden).rows.tolist() == hits.rows[40:50].tolist()


def test_common_words_are_searched_where_no_other_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of rows may have a word, whatever share of the rows they are."""
    texts = [f"all{' most' * (i < 101)}{' some' * (i < 100)}" for i in range(400)]
    index = WordIndex.create(tmp_path / "1", [("", text) for text in texts])
    assert len(index.search("all some", 900).rows) == 400
    monkeypatch.setattr(word_index, "FEWEST_COMMON", 100)
    assert len(index.search("all", 900).rows) == 400
    assert len(index.search("all most absent", 900).rows) == 400
    assert index.search("all some", 900).rows.tolist() == list(range(100))
    assert index.search("all most some", 900).rows.tolist() == list(range(100))


@pytest.mark.parametrize("few", [0, word_index.FEW])
def test_extending_leaves_the_old_folder_unchanged(
    index: WordIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(word_index, "FEW", few)
    before = {file.name: file.read_bytes() for file in index.path.iterdir()}
    more = index
    for i in range(20):  # so that segments are merged on the way
        more = extended(more, tmp_path / f"more{i}", [(f"x{i}", "zebra")])
    assert {file.name: file.read_bytes() for file in index.path.iterdir()} == before
    assert not len(index.search("zebra", 5).rows)
    assert more.search("zebra", 50).rows.tolist() == list(range(60, 80))
    assert more.faults(80) == index.faults(60) == []
    assert len(list(more.path.iterdir())) < 20 * 5
    fresh = WordIndex.create(
        tmp_path / "fresh",
        [(f"d{i}", f"cat {'cat ' * (i % 3)}number{i}") for i in range(60)]
        + [(f"x{i}", "zebra") for i in range(20)],
    )
    for query in ("cat number3", "zebra number59 x4"):
        hits, expected = more.search(query, 80), fresh.search(query, 80)
        assert hits.rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=1e-5)
    assert not list(tmp_path.glob("*.tmp"))


def test_an_open_index_outlives_its_folder(index: WordIndex) -> None:
    expected = index.search("cat number3", 60)
    shutil.rmtree(index.path)
    hits = index.search("cat number3", 60)
    assert hits.rows.tolist() == expected.rows.tolist()


def test_leftovers_of_an_interruption_are_replaced(index: WordIndex, tmp_path: Path) -> None:
    for name in ("more", "more.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "left").write_text("of a process that was killed")
    more = extended(index, tmp_path / "more", [("", "yak")])
    assert more.search("yak", 5).rows.tolist() == [60]
    assert not (tmp_path / "more" / "left").exists()
    assert not (tmp_path / "more.tmp").exists()


def test_documents_of_the_name_rank_before_documents_that_mention_it(tmp_path: Path) -> None:
    rows = [(f"doc{i}", "os.path.join " * 9) for i in range(20)]
    rows += [("os.path.join", "Paths, long " * 200), ("lib/os.path.join", "b"), ("ten", "a")]
    made = WordIndex.create(tmp_path / "w", rows)
    for query in ("os.path.join", " OS.path.join()"):
        hits = made.search(query, 5)
        assert sorted(hits.rows[:2].tolist()) == sorted(hits.named.tolist()) == [20, 21]
    assert not len(made.search("long os.path.join", 5).named)
    spaced = WordIndex.create(tmp_path / "s", [("a/My notes.md", "tea"), ("b", "my notes.md")])
    assert spaced.search("my  Notes.md", 5).named.tolist() == [0]
    assert spaced.search("my  Notes.md", 5).rows[0] == 0
    assert made.search("os.path.join", 5, hidden=np.array([20])).named.tolist() == [21]


def test_missing_words_are_reported(index: WordIndex) -> None:
    assert index.faults(61) == [f"{index.path}: words of 60 rows; expected 61"]


def test_every_flipped_byte_is_reported(index: WordIndex) -> None:
    random = CHANCE.random("flips of words")
    for file in sorted(index.path.iterdir()):
        data = file.read_bytes()
        for _ in range(CHANCE.count(20, 3)):
            flipped = bytearray(data)
            flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
            file.write_bytes(flipped)
            with suppress(CorruptError):
                opened = WordIndex.open(index.path)
                assert opened.faults(60), file
                opened.search("cat number3", 5)
        file.write_bytes(data)
    assert WordIndex.open(index.path).faults(60) == []


@given(text=st.text(st.sampled_from("ab1ä_.-'é \x1c\x00/:")))
def test_words_are_parts_of_runs_and_names(text: str) -> None:
    expected = list[str]()
    for run in re.findall(r"\S+", unicodedata.normalize("NFKC", text).casefold()):
        expected += re.findall(r"[^\W_]+", run)
        for name in re.findall(r"[^\W_]+(?:(?:[-_./@+]|::?)[^\W_]+)+", run):
            expected.append(name)
            if "/" in name:
                expected += re.findall(r"[^/]+[-_.@+:][^/]+", name)
    assert words_of(text) == expected


def test_words_of_unusual_texts(index: WordIndex, tmp_path: Path) -> None:
    long = "x" * 500
    assert words_of(f"{long} ok") == ["x" * LONGEST_TERM, "ok"]
    assert words_of("") == words_of("?! _") == []
    assert words_of("Straße STRASSE") == ["strasse", "strasse"]
    assert "한국" in words_of("한국어는")
    assert name_words("libssl-dev/") == ["libssl", "dev", "libssl-dev"]
    surrogate = "half \ud800 a character"
    assert "half" in words_of(surrogate)
    more = extended(index, tmp_path / "more", [("", surrogate)])
    assert more.search(surrogate, 3).rows[0] == 60


def test_ideal_is_the_score_of_a_row_of_mean_length_with_each_word_once(tmp_path: Path) -> None:
    texts = ["red green blue grey", "red black white grey", "pink black white green"]
    index = WordIndex.create(tmp_path / "words", [("", text) for text in texts])
    found = index.search("red green", 3)
    assert found.rows[0] == 0
    assert found.ideal == pytest.approx(found.scores[0], rel=1e-5)


FORMS = [
    ("send an e-mail", "email"),
    ("call +49 30 901820", "+4930901820"),
    ("ISBN 978-3-16-148410-0", "9783161484100"),
    ("GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819"),
    ("我喜欢喝茶", "茶"),
    ("الهاتف ٤٠٣١", "4031"),
    ("كتاب في البيت", "کتاب"),
    ("كتـــاب", "كتاب"),
    ("error E\u20104031", "E-4031"),
]


@pytest.mark.parametrize(("text", "query"), FORMS)
def test_other_spellings_find_a_word(tmp_path: Path, text: str, query: str) -> None:
    index = WordIndex.create(tmp_path / "1", [("", "something else"), ("", text)])
    assert index.search(query, 2).rows.tolist() == [1]
