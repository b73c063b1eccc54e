"""Word vector files: GloVe, word2vec and fastText text, word2vec binary, plain or gzip.

Parsing gigabytes takes minutes, so each file becomes a folder of model2vec in the cache, once. Only
a part of it is in memory at a time. The cache can be deleted at any time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, shorten
from slimdex.system.user_cache import cached_folder

from ..pieces import word_tokenizer
from .folder import MODEL2VEC, TOKENIZER, WEIGHTS, StaticVectors, read_static

Word = tuple[str, NDArray[np.float32]]
"""A word and its vector (d,)."""

LONGEST_LINE = 1 << 18
LONGEST_WORD = 1 << 12
"""Limits in bytes, so that a file of another kind is refused before it is read to its end."""
MOST_DIMENSIONS = 1 << 13
CHUNK = 1 << 22
"""Bytes read at once."""
LINES = 64
"""Lines parsed at once."""
EXPECTED_LINES = "expected word vectors, a word and its numbers a line"
HEADER = re.compile(rb"(\d{1,18})[ \t](\d{1,18})")
LAYOUT = 2
"""Increased with every change of what is in the folders."""
SHA256 = "sha256"
"""File with the hash of the vectors."""
HEADER_BYTES = 256
"""Room for the header of a file in safetensors, which is only known at the end."""
_NOT_TEXT = re.compile(rb"[^\t\n\r -~]")


def read_word_vectors(path: Path) -> StaticVectors:
    """Read the word vectors of a file; of a word that occurs twice, the first.

    Raises `InputError` if the file is invalid; then nothing is cached.
    """
    path = path.resolve()
    stat = path.stat()
    key = hashlib.sha256(f"{LAYOUT}\n{path}\n{stat.st_size}\n{stat.st_mtime_ns}".encode())
    folder = cached_folder(f"words-{key.hexdigest()[:32]}", lambda new: _convert(path, new))
    return replace(read_static(folder), known_sha256=(folder / SHA256).read_text())


def _convert(path: Path, folder: Path) -> None:
    """Write the matrix, the tokenizer and the hash of a file's word vectors."""
    words = dict[str, None]()
    vector = np.empty(0, np.float32)
    with (folder / WEIGHTS).open("wb") as file:
        file.write(bytes(HEADER_BYTES))
        for word, vector in words_of(path):
            if word not in words:
                words[word] = None
                file.write(vector.astype("<f4").tobytes())
        file.write(bytes(4 * len(vector)))  # zeros for unknown words

        # The header has its size in 8 bytes, and may end in spaces.
        shape = [len(words) + 1, len(vector)]
        matrix = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * shape[0] * shape[1]]}
        header = json.dumps({MODEL2VEC: matrix}).encode()
        file.seek(0)
        file.write((HEADER_BYTES - 8).to_bytes(8, "little") + header.ljust(HEADER_BYTES - 8))
    word_tokenizer([*words]).save(str(folder / TOKENIZER), pretty=False)
    (folder / SHA256).write_text(read_static(folder).sha256)


def words_of(path: Path) -> Iterator[Word]:
    """Yield every word with its vector, in the order of the file.

    Raises `InputError` if the file has another format, is truncated, or contradicts its header.
    """
    try:
        with _open(path) as file:
            yield from _words(path, file)
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise InputError(f"{path}: {error}; expected whole and finite word vectors") from error


def _open(path: Path) -> io.BufferedReader:
    """Open a file, decompressing gzip."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    raw: Any = gzip.GzipFile(path) if is_gzip else path.open("rb", buffering=0)
    return io.BufferedReader(raw, CHUNK)


def _words(path: Path, file: io.BufferedReader) -> Iterator[Word]:
    """Yield every word with its vector, of a text or binary file with or without a header."""
    first = file.readline(LONGEST_LINE)
    lines = iter(lambda: file.readline(LONGEST_LINE), b"")

    header = HEADER.fullmatch(first.strip())
    dim = _count_numbers(first) if header is None else int(header[2])
    if not 1 <= dim <= MOST_DIMENSIONS:
        raise InputError(f"{path}: line 1: {_quote(first)}; {EXPECTED_LINES}")

    # Without a header it is a text file, whose words begin at once.
    if header is None:
        yield from _text_words(path, chain([first], lines), 1, dim)
        return

    # A header states how many words follow.
    is_binary = path.suffix == ".bin" or _is_binary(file.peek(), dim)
    words = _binary_words(file, dim) if is_binary else _text_words(path, lines, 2, dim)
    found = 0
    for word in words:
        found += 1
        yield word
    if found != int(header[1]):
        raise InputError(f"{path}: {found} words; expected {int(header[1])}, as line 1 says")


def _count_numbers(line: bytes) -> int:
    """Count the numbers at the end of a line, after its first field, which is the word."""
    dim = 0
    for field in reversed(_fields(line)[1:]):
        if not _is_number(field):
            break
        dim += 1
    return dim


def _text_words(path: Path, lines: Iterator[bytes], first: int, dim: int) -> Iterator[Word]:
    """Yield the words and vectors of lines, of which the first has this number.

    A word may contain spaces, so its vector is the last `dim` fields.
    """
    while batch := [*islice(lines, LINES)]:
        words = list[str]()
        numbers = list[str]()
        for number, line in enumerate(batch, first):
            word, *fields = _fields(line, dim)
            # A word that ends in a number means that the line has more numbers than expected.
            has_more = b" " in word and _is_number(word.rpartition(b" ")[2])
            if len(fields) < dim or has_more or not word:
                raise InputError(
                    f"{path}: line {number}: {_quote(line)}; expected a word and {dim} numbers"
                )
            words.append(word.decode())
            numbers.append(b" ".join(fields).decode())
        vectors = np.loadtxt(numbers, np.float64, comments=None, delimiter=" ", ndmin=2)
        yield from zip(words, _float32(vectors), strict=True)
        first += len(batch)


def _binary_words(file: io.BufferedReader, dim: int) -> Iterator[Word]:
    """Yield the words of a binary file: a word, a space, float32s and an optional newline."""
    data = file.read(CHUNK)
    at = 0  # where the next word begins in data
    while data[at : at + LONGEST_WORD].strip():
        space = data.find(b" ", at, at + LONGEST_WORD)
        end = space + 1 + 4 * dim
        if space < 0 or len(data) < end:
            raise ValueError("ends in a word")
        vector = np.frombuffer(data[space + 1 : end], dtype="<f4")
        yield data[at:space].lstrip(b"\n").decode(), _float32(vector)
        at = end
        # Read on if `data` may not have the whole next word and its vector.
        if len(data) - at < LONGEST_WORD + 4 * dim:
            data = data[at:] + file.read(CHUNK)
            at = 0


def _is_binary(start: bytes, dim: int) -> bool:
    """Return whether the bytes after the first word are float32s, which are hardly ever text."""
    space = start.find(b" ")
    numbers = start[space + 1 : space + 2 * dim]  # in a text file, still on the first line
    return space >= 0 and bool(_NOT_TEXT.search(numbers))


def _float32(numbers: NDArray[Any]) -> NDArray[np.float32]:
    """Convert numbers; raise `ValueError` for NaN, and numbers too large for float32."""
    with np.errstate(over="ignore"):
        vectors = numbers.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError(f"{numbers[~np.isfinite(vectors)][0]} among the numbers")
    return vectors


def _fields(line: bytes, last: int = -1) -> list[bytes]:
    """Split a line at spaces, or at tabs if it has no space.

    With `last`, only that many fields are split off at the end; the rest is the first field.
    """
    stripped = line.rstrip(b" \r\n")
    return stripped.rsplit(b" " if b" " in stripped else b"\t", last)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _quote(data: bytes) -> str:
    return shorten(data.strip().decode(errors="backslashreplace"), 60)
