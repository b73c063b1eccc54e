"""Word vectors in each format that others write, for tests to read."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix

Writer = Callable[[Path, Sequence[str], Matrix], Path]


def _lines(words: Sequence[str], vectors: Matrix, end: str = "\n") -> str:
    rows = zip(words, vectors, strict=True)
    return "".join(f"{w} {' '.join(repr(float(x)) for x in v)}{end}" for w, v in rows)


def glove(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
    path.with_suffix(".txt").write_bytes(_lines(words, vectors).encode())
    return path.with_suffix(".txt")


def word2vec(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
    text = f"{len(words)} {vectors.shape[1]}\n{_lines(words, vectors)}"
    path.with_suffix(".w2v").write_bytes(text.encode())
    return path.with_suffix(".w2v")


def fasttext(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
    """With a space before each line's end, as fastText has it."""
    text = f"{len(words)} {vectors.shape[1]}\n" + _lines(words, vectors, " \n")
    path.with_suffix(".vec").write_bytes(text.encode())
    return path.with_suffix(".vec")


def binary(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
    """With a line's end after each vector, as word2vec's own program has it."""
    rows = zip(words, vectors, strict=True)
    body = b"".join(w.encode() + b" " + v.astype("<f4").tobytes() + b"\n" for w, v in rows)
    path.with_suffix(".bin").write_bytes(f"{len(words)} {vectors.shape[1]}\n".encode() + body)
    return path.with_suffix(".bin")


def bare_binary(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
    """Without, as gensim writes it, and by a name that does not say what it is."""
    rows = zip(words, vectors, strict=True)
    body = b"".join(w.encode() + b" " + v.astype("<f4").tobytes() for w, v in rows)
    path.with_suffix(".dat").write_bytes(f"{len(words)} {vectors.shape[1]}\n".encode() + body)
    return path.with_suffix(".dat")


def zipped(write: Writer) -> Writer:
    def written(path: Path, words: Sequence[str], vectors: Matrix) -> Path:
        plain = write(path, words, vectors)
        out = plain.with_name(plain.name + ".gz")
        out.write_bytes(gzip.compress(plain.read_bytes()))
        return out

    written.__name__ = f"zipped {write.__name__}"
    return written


FORMATS: list[Writer] = [
    glove,
    word2vec,
    fasttext,
    binary,
    bare_binary,
    zipped(glove),
    zipped(binary),
]


def some_vectors(count: int, dim: int, seed: int = 5) -> Matrix:
    drawn: Matrix = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return drawn
