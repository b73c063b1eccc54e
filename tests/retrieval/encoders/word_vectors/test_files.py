"""Files of word vectors: what they hold, whatever the format, and one line for each that is bad."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.encoders.word_vectors import files
from slimdex.retrieval.encoders.word_vectors.files import (
    LONGEST_LINE,
    read_word_vectors,
    words_of,
)
from slimdex.retrieval.encoders.word_vectors.folder import StaticVectors

from .written_files import FORMATS, Writer, binary, glove, some_vectors, word2vec

WORDS = ["the", ",", "Zürich", "n't", "日本", "a_b", "</s>", "\u00a0", "1,5"]
GLOVE = b"the 0.5 1 -2\ncat 1e-3 2 3\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def words_in(found: StaticVectors) -> list[str]:
    """All words but the unknown one, in their order."""
    vocabulary = found.tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)[:-1]


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_every_format_gives_the_same(tmp_path: Path, write: Writer) -> None:
    vectors = some_vectors(len(WORDS), 7)
    found = read_word_vectors(write(tmp_path / "v", WORDS, vectors))
    assert words_in(found) == WORDS
    np.testing.assert_array_equal(found.vectors[:-1], vectors)
    assert found.sha256 == read_word_vectors(glove(tmp_path / "other", WORDS, vectors)).sha256


def test_words_with_spaces_and_duplicate_words(tmp_path: Path) -> None:
    """As in GloVe's 840B; the first counts, as in gensim."""
    text = b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\nthe 7 8\n"
    (tmp_path / "v.txt").write_bytes(text)
    found = read_word_vectors(tmp_path / "v.txt")
    assert words_in(found) == ["the", ". . .", "at name@domain.com"]
    assert found.vectors.tolist() == [[1, 2], [3, 4], [5, 6], [0, 0]]
    (tmp_path / "w.vec").write_bytes(b"4 2\n" + text)
    assert read_word_vectors(tmp_path / "w.vec").sha256 == found.sha256


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
    "word alone": b"the 1 2\ncat\n",
    "no number": b"the 1 2\ncat 1 x\n",
    "nan": b"the 1 2\ncat nan 2\n",
    "beyond float32": b"the 1 2\ncat 1 1e300\n",
    "empty": b"",
    "no word": b"the 1 2\n 1 2\n",
    "latin-1": b"the 1 2\ncaf\xe9 1 2\n",
    "prose": b"It was a dark night.\n",
    "too few": b"3 2\nthe 1 2\ncat 1 2\n",
    "header, wide": b"1 2\nthe 1 2 3\n",
    "huge header": b"3 99999999\nthe\n",
    "zip": b"PK\x03\x04abc",
    "gzip cut": gzip.compress(GLOVE)[:-9],
    "zeros": b"\0" * 5000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_leaves_nothing(
    tmp_path: Path, own_cache: Path, name: str
) -> None:
    (tmp_path / "v.txt").write_bytes(BAD[name])
    with pytest.raises(InputError) as error:
        read_word_vectors(tmp_path / "v.txt")
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'v.txt'}: ")
    assert "\n" not in message
    assert not own_cache.exists() or not [*own_cache.iterdir()]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-60],
        lambda data: data.replace(b"9 7\n", b"9 6\n"),
        lambda data: data[:8] + np.float32("nan").tobytes() + data[12:],
    ],
)
def test_a_bad_binary(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = binary(tmp_path / "v", WORDS, some_vectors(len(WORDS), 7))
    changed = change(path.read_bytes())
    path.write_bytes(changed)
    packed = tmp_path / "v.bin.gz"  # the size of this file says nothing
    packed.write_bytes(gzip.compress(changed))
    for bad in (path, packed):
        with pytest.raises(InputError, match=r"v\.bin(\.gz)?: "):
            read_word_vectors(bad)


@pytest.mark.parametrize("start", [b"", b"the 1 2\n", b"3 2\n"])
def test_gigabytes_without_a_line_are_not_read(tmp_path: Path, start: bytes) -> None:
    with (tmp_path / "v.txt").open("wb") as file:
        file.write(start + b"x" * LONGEST_LINE)
        file.truncate(1 << 32)  # a hole, which takes no room
    tracemalloc.start()
    with pytest.raises(InputError, match="expected"):
        read_word_vectors(tmp_path / "v.txt")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_parsed_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(GLOVE)
    first = read_word_vectors(path)
    with monkeypatch.context() as patched:
        patched.setattr(files, "words_of", None)  # it would be an error
        again = read_word_vectors(path)
    assert (again.definition, again.sha256) == (first.definition, first.sha256)
    np.testing.assert_array_equal(again.vectors, first.vectors)
    path.write_bytes(GLOVE.replace(b"0.5", b"0.6"))
    os.utime(path, ns=(1, 1))
    assert read_word_vectors(path).vectors[0, 0] == np.float32(0.6)
