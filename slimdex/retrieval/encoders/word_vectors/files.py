"""Word vector files: GloVe, word2vec and fastText text, word2vec binary, plain or gzip.

Files are streamed: only a part is in memory at a time. They are parsed once, since parsing
gigabytes takes minutes: each has a folder in the cache, keyed by its path, size and time of change,
whose vectors are memory-mapped. The cache can be deleted at any time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Matrix
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.user_cache import cache_folder, new_cache_folder

Word = tuple[str, NDArray[np.float32]]
"""A word and its vector (d,)."""

LONGEST_LINE = 1 << 20
LONGEST_WORD = 1 << 12
"""Limits in bytes: a longer line or word is refused before it is read to its end."""
MOST_DIMENSIONS = 1 << 14
CHUNK = 1 << 22
"""Bytes read or parsed at once."""
EXPECTED_LINES = "expected word vectors, a word and its numbers a line"
WEIGHTS = (".safetensors", ".onnx", ".pt", ".pth", ".ckpt")
"""Endings of files of weights, which are not enough to run a model."""
GGUF = (
    "a model in GGUF, llama.cpp's format; expected a folder with safetensors, or the address of a "
    "server that runs it, http://HOST/v1#NAME"
)
UNSUPPORTED = {
    b"GGUF": GGUF,
    b"PK\x03\x04": "a zip archive; expected the file in it",
    b"\xba\x16\x4f\x2f": "a fastText model; expected its .vec file",
}
"""First bytes of unsupported files -> message."""
HEADER = re.compile(rb"(\d{1,18})[ \t](\d{1,18})")
LAYOUT = 1
FACTS = "facts.json"
WORDS = "words.txt"
VECTORS = "vectors.f32"
BATCH = 4096
"""Vectors buffered before they are written."""
LARGEST = float(np.finfo(np.float32).max)
_NOT_TEXT = re.compile(rb"[^\t\n\r -~]")


@dataclass(frozen=True)
class WordVectors:
    """Contents of a word vector file; of duplicate words, the first.

    Attributes
    ----------
    vectors : (n, d), a row for each word; memory-mapped if cached.
    sha256 : of words and vectors, independent of the file format.
    """

    words: list[str]
    vectors: Matrix
    sha256: str


def read_word_vectors(path: Path) -> WordVectors:
    """Read the word vectors of a file, from the cache if possible.

    Raises `InputError` if the file is invalid; then nothing is cached.
    """
    path = path.resolve()
    stat = path.stat()
    key = f"{LAYOUT}\n{path}\n{stat.st_size}\n{stat.st_mtime_ns}"

    # Load from the cache, or else create a folder to parse into.
    with ExitStack() as stack:
        try:
            cached = cache_folder() / f"words-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
            vectors = _load(cached) if (cached / FACTS).is_file() else None
            if vectors is not None:
                return vectors
            new = stack.enter_context(new_cache_folder(cached))
        except (OSError, RuntimeError):  # no writable cache: parse each time
            with tempfile.TemporaryDirectory(dir=temporary_parent(path.parent)) as folder:
                _parse(path, Path(folder))
                return _load_or_raise(path, Path(folder))  # a mapping outlives its deleted file
        _parse(path, new)
    return _load_or_raise(path, cached)


def _parse(path: Path, folder: Path) -> None:
    """Parse a word vector file into a folder of the cache: vectors, words and, last, the facts."""
    digest = hashlib.sha256()
    words = dict[str, None]()
    rows = list[Matrix]()

    def flush() -> None:
        data = np.stack(rows).astype("<f4").tobytes()
        digest.update(data)
        file.write(data)
        rows.clear()

    # Vectors, in batches; of a word that occurs twice, the first.
    with (folder / VECTORS).open("wb") as file:
        dim = 0
        for word, vector in words_of(path):
            dim = len(vector)
            if word not in words:
                words[word] = None
                rows.append(vector)
                if len(rows) == BATCH:
                    flush()
        if rows:
            flush()

    # Words, and the facts that mark the folder as complete.
    text = "\n".join(words).encode()
    digest.update(text)
    (folder / WORDS).write_bytes(text)
    facts = {"words": len(words), "dim": dim, "sha256": digest.hexdigest(), "bytes": len(text)}
    (folder / FACTS).write_text(json.dumps(facts))


def _load_or_raise(path: Path, folder: Path) -> WordVectors:
    """Load the vectors of a file that was just parsed; raise `InputError` if they are gone."""
    vectors = _load(folder)
    if vectors is None:  # another process has just removed it
        raise InputError(
            f"{path}: its cached vectors were removed from {folder}; run the command again"
        )
    return vectors


def _load(folder: Path) -> WordVectors | None:
    """Load cached vectors; if they are incomplete, delete them and return None."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        text = (folder / WORDS).read_bytes()
        count = facts["words"]
        dim = facts["dim"]
        size = (folder / VECTORS).stat().st_size
        if len(text) != facts["bytes"] or size != 4 * count * dim:
            raise ValueError(folder)

        # The vectors stay on disk until they are read.
        words = text.decode().split("\n")
        vectors: Matrix = np.asarray(np.memmap(folder / VECTORS, "<f4", "r", shape=(count, dim)))
        if len(words) != count:
            raise ValueError(folder)
    except (OSError, ValueError, TypeError, KeyError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return WordVectors(words, vectors, facts["sha256"])


def words_of(path: Path) -> Iterator[Word]:
    """Yield every word with its vector, in the order of the file.

    Raises `InputError` if the file has another format, is truncated, or contradicts its header; the
    message gives the file, the position, the value found and what was expected.
    """
    try:
        with _open(path) as file:
            yield from _words(path, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: {error}; expected a whole gzip file") from error


def _open(path: Path) -> io.BufferedReader:
    """Open a file, decompressing gzip; raise `InputError` for an unsupported format."""
    if path.suffix.lower() in WEIGHTS:
        raise InputError(f"{path}: weights of a model; expected the model's folder")
    with path.open("rb") as file:
        start = file.read(4)
    message = UNSUPPORTED.get(start)
    if message is not None:
        raise InputError(f"{path}: {message}")
    raw: Any = gzip.GzipFile(path) if start[:2] == b"\x1f\x8b" else path.open("rb", buffering=0)
    return io.BufferedReader(raw, CHUNK)


def _words(path: Path, file: io.BufferedReader) -> Iterator[Word]:
    """Yield every word with its vector, of a text or binary file with or without a header."""
    line = _line(path, file, 1)
    if not line.strip():
        raise InputError(
            f"{path}: {'line 1 is empty' if line else 'an empty file'}; {EXPECTED_LINES}"
        )

    # Without a header it is a text file, whose words begin at once.
    header = HEADER.fullmatch(line.strip())
    if header is None:
        dim = _dimensions(path, line)
        yield from _text_words(path, file, line, 1, dim)
        return

    # A header states how many words follow.
    count = int(header[1])
    dim = int(header[2])
    if not count or not 1 <= dim <= MOST_DIMENSIONS:
        raise InputError(
            f"{path}: line 1: {count} words of {dim} dimensions; expected 1 or more, of 1 to "
            f"{MOST_DIMENSIONS}"
        )
    if _is_binary(path, file.peek(), dim):
        if path.suffix != ".gz":
            _check_size(path, len(line), count, dim)
        yield from _binary_words(path, file, count, dim)
        return

    # A text file must have as many words as its header says.
    number = 0
    second_line = _line(path, file, 2)
    for number, word in enumerate(_text_words(path, file, second_line, 2, dim), 1):
        if number > count:
            raise InputError(
                f"{path}: line {number + 1}: one more word; expected {count}, as line 1 says"
            )
        yield word
    if number < count:
        raise InputError(f"{path}: {number} words; expected {count}, as line 1 says")


def _line(path: Path, file: io.BufferedReader, number: int) -> bytes:
    """Read the line with this number, b"" at the end; raise `InputError` if it is too long."""
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        raise InputError(
            f"{path}: line {number} is longer than {LONGEST_LINE:,} bytes; {EXPECTED_LINES}"
        )
    return line


def _dimensions(path: Path, line: bytes) -> int:
    """Count the numbers at the end of the first line; raise `InputError` if there are none."""
    fields = _fields(line)
    dim = 0
    # The first field is the word, even if it looks like a number.
    while dim < len(fields) - 1 and _is_number(fields[-1 - dim]):
        dim += 1
    if not 1 <= dim <= MOST_DIMENSIONS:
        raise InputError(f"{path}: line 1: {_quote(line)}; {EXPECTED_LINES}")
    return dim


def _text_words(
    path: Path, file: io.BufferedReader, line: bytes, number: int, dim: int
) -> Iterator[Word]:
    """Yield the words and vectors of a text file; `line`, with this number, is already read.

    A word may contain spaces, so its vector is the last `dim` fields.
    """
    # Parse the numbers of many lines, about CHUNK bytes, together.
    while line:
        first = number
        words = list[str]()
        numbers = list[str]()
        size = 0
        while line and size < CHUNK:
            word, *fields = _fields(line, dim)
            # A word that ends in a number means that the line has more numbers than expected.
            has_more = b" " in word and _is_number(word.rpartition(b" ")[2])
            if len(fields) < dim or has_more:
                count = sum(map(_is_number, _fields(line)[1:]))
                raise InputError(
                    f"{path}: line {number}: {count} numbers; expected a word and {dim}"
                )
            words.append(_decode(path, word, f"line {number}"))
            numbers.append(b" ".join(fields).decode("ascii", "replace"))
            size += len(line)
            number += 1
            line = _line(path, file, number)
        yield from zip(words, _vectors(path, numbers, first), strict=True)


def _binary_words(path: Path, file: io.BufferedReader, count: int, dim: int) -> Iterator[Word]:
    """Yield the words of a binary file: a word, a space, float32s and an optional newline."""
    data = b""
    at = 0  # where the next word begins in data
    for number in range(1, count + 1):
        # Read on if `data` may not have the whole word and its vector.
        if len(data) - at < LONGEST_WORD + 4 * dim:
            data = data[at:] + file.read(CHUNK)
            at = 0
        space = data.find(b" ", at, at + LONGEST_WORD)
        if space < 0 and len(data) - at >= LONGEST_WORD:
            raise InputError(
                f"{path}: word {number:,} is longer than {LONGEST_WORD:,} bytes; expected word "
                "vectors in binary"
            )
        end = space + 1 + 4 * dim
        if space < 0 or len(data) < end:
            raise InputError(
                f"{path}: ends in word {number:,}; expected {count:,} words, as line 1 says"
            )
        vector = np.frombuffer(data[space + 1 : end], dtype="<f4").astype(np.float32)
        if not np.isfinite(vector).all():
            wrong = vector[~np.isfinite(vector)][0]
            raise InputError(f"{path}: word {number:,}: {wrong}; expected finite numbers")
        yield _decode(path, data[at:space].lstrip(b"\n"), f"word {number:,}"), vector
        at = end
    # Only white space may follow.
    if (data[at:] + file.read(64)).strip():
        raise InputError(f"{path}: more words; expected {count:,}, as line 1 says")


def _is_binary(path: Path, first: bytes, dim: int) -> bool:
    """Return whether the bytes after the first word are float32s, which are hardly ever text."""
    space = first.find(b" ")
    numbers = first[space + 1 : space + 2 * dim]  # in a text file, still on the first line
    return path.suffix == ".bin" or (space >= 0 and bool(_NOT_TEXT.search(numbers)))


def _check_size(path: Path, header: int, count: int, dim: int) -> None:
    """Raise `InputError` if a binary file is too short; `header` is the size of its header."""
    least = header + count * (4 * dim + 2)  # a word has at least a letter and a space
    size = path.stat().st_size
    if size < least:
        raise InputError(
            f"{path}: {size:,} bytes; expected {least:,} or more, for {count:,} words of {dim} "
            "dimensions as line 1 says"
        )


def _decode(path: Path, word: bytes, place: str) -> str:
    """Decode a word; raise `InputError` with its place if it is empty or not UTF-8."""
    try:
        text = word.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {place}: {_quote(word)}; expected UTF-8") from error
    if not text or "\n" in text:
        raise InputError(f"{path}: {place}: {text!r}; expected a word")
    return text


def _fields(line: bytes, last: int = -1) -> list[bytes]:
    """Split a line at spaces, or at tabs if it has no space.

    With `last`, only that many fields are split off at the end; the rest is the first field.
    """
    stripped = line.rstrip(b" \r\n")
    return stripped.rsplit(b" " if b" " in stripped else b"\t", last)


def _vectors(path: Path, lines: list[str], first: int) -> Matrix:
    """Parse lines of numbers to vectors (n, d); `first` is the number of the first line.

    Raises `InputError` for a field that is not a finite number.
    """
    try:
        exact = np.loadtxt(lines, np.float64, comments=None, delimiter=" ", ndmin=2)
        with np.errstate(over="ignore"):
            vectors: Matrix = exact.astype(np.float32)
        if np.isfinite(vectors).all():
            return vectors
    except ValueError:
        pass

    # Find the first invalid field, which numpy does not report.
    place, wrong = next(
        (number, field)
        for number, line in enumerate(lines, first)
        for field in line.split(" ")
        if not _is_number(field) or not abs(float(field)) <= LARGEST
    )
    raise InputError(f"{path}: line {place}: {shorten(wrong, 60)}; expected a finite number")


def _is_number(field: bytes | str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in str(field)  # Python accepts 1_000


def _quote(data: bytes) -> str:
    return shorten(data.strip().decode(errors="backslashreplace"), 60)
