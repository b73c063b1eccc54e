"""Cache of parsed word vector files, since parsing gigabytes takes minutes.

Each file has a folder in the cache, keyed by its path, size and time of change; vectors are
memory-mapped. The cache can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

from ...user_cache import cache_folder
from .files import words_of

LAYOUT = 1
FACTS, WORDS, VECTORS = "facts.json", "words.txt", "vectors.f32"
BATCH = 4096
"""Vectors buffered before they are written."""


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


@dataclass(frozen=True)
class _Facts:
    words: int
    dim: int
    sha256: str
    bytes: int
    """Size of the file of words."""


def read_word_vectors(path: Path) -> WordVectors:
    """Read the word vectors of a file, from the cache if possible.

    Raises `InputError` if the file is invalid; then nothing is cached.
    """
    path = path.resolve()
    state = path.stat()
    key = f"{LAYOUT}\n{path}\n{state.st_size}\n{state.st_mtime_ns}"
    try:
        kept = cache_folder() / f"words-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        if (kept / FACTS).is_file() and (found := _loaded(kept)):
            return found
        kept.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=kept.parent, prefix="new-"))
    except (OSError, RuntimeError):  # no writable cache: parse each time
        with tempfile.TemporaryDirectory() as folder:
            _parse(path, Path(folder))
            return _whole(path, Path(folder))  # a mapping outlives its file's name
    try:
        _parse(path, new)
        if not kept.exists():
            new.rename(kept)
        return _whole(path, kept)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _parse(path: Path, folder: Path) -> None:
    """Write words, vectors and, last, the facts."""
    digest, words, rows = hashlib.sha256(), dict[str, None](), list[Matrix]()

    def flush() -> None:
        data = np.stack(rows).astype("<f4").tobytes()
        digest.update(data)
        file.write(data)
        rows.clear()

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
    text = "\n".join(words).encode()
    digest.update(text)
    (folder / WORDS).write_bytes(text)
    facts = _Facts(len(words), dim, digest.hexdigest(), len(text))
    (folder / FACTS).write_text(json.dumps(asdict(facts)))


def _whole(path: Path, folder: Path) -> WordVectors:
    found = _loaded(folder)
    if found is None:  # another process has just removed it
        raise InputError(
            f"{path}: its cached vectors were removed from {folder}; run the command again"
        )
    return found


def _loaded(folder: Path) -> WordVectors | None:
    """Load cached vectors; if they are incomplete, delete them and return None."""
    try:
        facts = _Facts(**json.loads((folder / FACTS).read_text()))
        text = (folder / WORDS).read_bytes()
        shape = (facts.words, facts.dim)
        size = (folder / VECTORS).stat().st_size
        if len(text) != facts.bytes or size != 4 * facts.words * facts.dim:
            raise ValueError(folder)
        words = text.decode().split("\n")
        vectors: Matrix = np.asarray(np.memmap(folder / VECTORS, "<f4", "r", shape=shape))
        if len(words) != facts.words:
            raise ValueError(folder)
    except (OSError, ValueError, TypeError, KeyError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return WordVectors(words, vectors, facts.sha256)
