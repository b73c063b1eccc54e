"""Files of word vectors: what they hold, whatever the format, and one line for each that is bad."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.word_vectors import parsed_files
from slimdex.retrieval.encoders.word_vectors.files import LONGEST_LINE, words_of
from slimdex.retrieval.encoders.word_vectors.parsed_files import read_word_vectors
from slimdex.retrieval.user_cache import cache_folder

from .written_files import FORMATS, Writer, binary, glove, some_vectors, word2vec

WORDS = ["the", ",", "Zürich", "n't", "日本", "a_b", "</s>", "\u00a0", "1,5"]
GLOVE = b"the 0.5 1 -2\ncat 1e-3 2 3\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_every_format_gives_the_same(tmp_path: Path, write: Writer) -> None:
    vectors = some_vectors(len(WORDS), 7)
    found = read_word_vectors(write(tmp_path / "v", WORDS, vectors))
    assert found.words == WORDS
    np.testing.assert_array_equal(found.vectors, vectors)
    assert found.sha256 == read_word_vectors(glove(tmp_path / "other", WORDS, vectors)).sha256


def test_a_case_by_hand(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(GLOVE)
    found = read_word_vectors(tmp_path / "v.txt")
    assert found.words == ["the", "cat"]
    assert found.vectors.tolist() == [[0.5, 1, -2], [np.float32(1e-3), 2, 3]]


def test_words_with_spaces_and_words_that_stand_twice(tmp_path: Path) -> None:
    """As in GloVe's 840B; the first counts, as in gensim."""
    text = b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\nthe 7 8\n"
    (tmp_path / "v.txt").write_bytes(text)
    found = read_word_vectors(tmp_path / "v.txt")
    assert found.words == ["the", ". . .", "at name@domain.com"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
    (tmp_path / "w.vec").write_bytes(b"4 2\n" + text)
    assert read_word_vectors(tmp_path / "w.vec").words == found.words


word = st.text(st.characters(codec="utf-8", exclude_characters=" \n\r\t"), min_size=1, max_size=20)
number = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.data())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    words = data.draw(st.lists(word, min_size=1, max_size=8, unique=True))
    dim = data.draw(st.integers(1, 5))
    rows = data.draw(
        st.lists(
            st.lists(number, min_size=dim, max_size=dim), min_size=len(words), max_size=len(words)
        )
    )
    vectors = np.array(rows, dtype=np.float32)
    folder = tmp_path_factory.mktemp("w")
    for write in (word2vec, binary):
        read = list(words_of(write(folder / "v", words, vectors)))
        assert [one for one, _ in read] == words
        np.testing.assert_array_equal([vector for _, vector in read], vectors)


BAD = {
    "short line": (b"the 1 2\ncat 1\n", "line 2: 1 numbers; expected a word and 2"),
    "long line": (b"the 1 2\ncat 1 2 3\n", "line 2: 3 numbers; expected a word and 2"),
    "word alone": (b"the 1 2\ncat\n", "line 2: 0 numbers; expected a word and 2"),
    "no number": (b"the 1 2\ncat 1 x\n", "line 2: 'x'; expected a finite number"),
    "underscore": (b"the 1 2\ncat 1_0 2\n", "line 2: '1_0'; expected a finite number"),
    "nan": (b"the 1 2\ncat nan 2\n", "line 2: 'nan'; expected a finite number"),
    "inf": (b"the 1 2\ncat 1 -inf\n", "line 2: '-inf'; expected a finite number"),
    "beyond float32": (b"the 1 2\ncat 1 1e300\n", "line 2: '1e300'; expected a finite number"),
    "empty": (b"", "an empty file; expected word vectors, a word and its numbers a line"),
    "empty line": (b"\n\nthe 1 2\n", "line 1 is empty; expected word vectors"),
    "no word": (b"the 1 2\n 1 2\n", "line 2: ''; expected a word"),
    "latin-1": (b"the 1 2\ncaf\xe9 1 2\n", r"line 2: 'caf\\xe9'; expected UTF-8"),
    "latin-1, header": (b"2 2\nthe 1 2\ncaf\xe9 1 2\n", r"line 3: 'caf\\xe9'; expected UTF-8"),
    "prose": (b"It was a dark night.\n", "line 1: 'It was a dark night.'; expected word vectors"),
    "json": (b'{"id": 1, "text": "x"}\n', "expected word vectors"),
    "too few": (b"3 2\nthe 1 2\ncat 1 2\n", "2 words; expected 3, as line 1 says"),
    "too many": (b"1 2\nthe 1 2\ncat 1 2\n", "line 3: one more word; expected 1, as line 1 says"),
    "header, wide": (b"1 2\nthe 1 2 3\n", "line 2: 3 numbers; expected a word and 2"),
    "header alone": (b"3 2\n", "0 words; expected 3"),
    "no dimensions": (b"3 0\nthe\n", "line 1: 3 words of 0 dimensions; expected 1 or more"),
    "huge header": (b"3 99999999\nthe\n", "of 99999999 dimensions; expected 1 or more, of 1 to"),
    "zip": (b"PK\x03\x04abc", "a zip archive; expected the file in it"),
    "fasttext": (b"\xba\x16\x4f\x2f\x0c", "a fastText model; expected its .vec file"),
    "gzip cut": (gzip.compress(GLOVE)[:-9], "expected a whole gzip file"),
    "zeros": (b"\0" * 5000, "expected word vectors"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_leaves_nothing(
    tmp_path: Path, own_cache: Path, name: str
) -> None:
    data, message = BAD[name]
    (tmp_path / "v.txt").write_bytes(data)
    with pytest.raises(InputError) as error:
        read_word_vectors(tmp_path / "v.txt")
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'v.txt'}: ")
    assert message in said
    assert "\n" not in said
    assert not own_cache.exists() or not [*own_cache.iterdir()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-60], r"bytes; expected \d+ or more, for 9 words of 7 dimensions"),
        (lambda data: data + b"more", "more words; expected 9, as line 1 says"),
        (lambda data: data.replace(b"9 7\n", b"9 6\n"), "v.bin: "),
        (lambda data: data.replace(b"9 7\n", b"8 7\n"), "more words; expected 8, as line 1 says"),
        (lambda data: data.replace(b"the ", b"\xffe "), r"word 1: '\\\\xffe'; expected UTF-8"),
        (
            lambda data: data[:8] + np.float32("nan").tobytes() + data[12:],
            "word 1: nan; expected finite numbers",
        ),
    ],
)
def test_a_bad_binary(tmp_path: Path, change: object, message: str) -> None:
    path = binary(tmp_path / "v", WORDS, some_vectors(len(WORDS), 7))
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        read_word_vectors(path)


def test_a_binary_that_is_cut_and_zipped(tmp_path: Path) -> None:
    """Its size says nothing, and is not asked."""
    path = binary(tmp_path / "v", WORDS, some_vectors(len(WORDS), 7))
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(path.read_bytes()[:-20]))
    with pytest.raises(InputError, match="ends in word 9; expected 9 words, as line 1 says"):
        read_word_vectors(tmp_path / "v.bin.gz")


@pytest.mark.parametrize("start", [b"", b"the 1 2\n", b"3 2\n"])
def test_gigabytes_without_a_line_are_not_read(tmp_path: Path, start: bytes) -> None:
    with (tmp_path / "v.txt").open("wb") as file:
        file.write(start + b"x" * LONGEST_LINE)
        file.truncate(1 << 32)  # a hole, which takes no room
    tracemalloc.start()
    with pytest.raises(InputError, match=r"is longer than 1,048,576 bytes; expected word vectors"):
        read_word_vectors(tmp_path / "v.txt")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_that_of_the_words(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(20_000)]
    path = binary(tmp_path / "v", words, some_vectors(len(words), 100))
    tracemalloc.start()
    list(zip(words_of(path), range(1)))  # noqa: B905
    tracemalloc.reset_peak()
    read_word_vectors(path)
    assert tracemalloc.get_traced_memory()[1] < 22 << 20 > path.stat().st_size
    tracemalloc.stop()


def test_parsed_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(GLOVE)
    first = read_word_vectors(path)
    with monkeypatch.context() as patched:
        patched.setattr(parsed_files, "words_of", None)  # it would be an error
        again = read_word_vectors(path)
    assert (again.words, again.sha256) == (first.words, first.sha256)
    np.testing.assert_array_equal(again.vectors, first.vectors)
    path.write_bytes(GLOVE.replace(b"0.5", b"0.6"))
    os.utime(path, ns=(1, 1))
    assert read_word_vectors(path).vectors[0, 0] == np.float32(0.6)


@pytest.mark.parametrize("name", ["facts.json", "words.txt", "vectors.f32"])
def test_a_cut_cache_is_rebuilt(tmp_path: Path, name: str) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(GLOVE)
    first = read_word_vectors(path)
    (kept,) = cache_folder().iterdir()
    (kept / name).write_bytes((kept / name).read_bytes()[:-1])
    assert read_word_vectors(path).sha256 == first.sha256
    assert [*cache_folder().iterdir()] == [kept]


def test_without_a_place_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "v.txt").write_bytes(GLOVE)
    assert read_word_vectors(tmp_path / "v.txt").vectors[1].tolist() == [np.float32(1e-3), 2, 3]
