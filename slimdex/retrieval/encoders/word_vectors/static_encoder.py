"""StaticEncoder: text vectors as means of word vectors, weighted by smooth inverse frequency (SIF).

Arora, Liang and Ma 2017, "A simple but tough-to-beat baseline for sentence embeddings",
https://openreview.net/forum?id=SyK00v5xx.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.system.atomic_files import check_new, publish_folder
from slimdex.system.threads import eigh, product

from ..base import check_unchanged, several
from ..model_folder import Prompts
from ..models import find_model
from ..pieces import WordPieces
from ..sparse_rows import SparseRows
from ..tokens import GROUP_TEXTS, groups
from .files import read_word_vectors
from .folder import StaticVectors, read_static, static_place, write_static

MEAN = "mean"
WEIGHTED = "weighted"
SIF = "sif"
POOLINGS = (MEAN, SIF)
"""Poolings to choose from; `WEIGHTED` uses the weights in a folder."""
SIF_A = 1e-3
"""The paper's parameter a, the same for all its data."""


def has_word_vectors(model: str) -> bool:
    """Return whether a model has word vectors: any file, or a folder or hub id that contains some.

    Raises `InputError` if the model is not found.
    """
    return Path(model).is_file() or static_place(find_model(model).folder) is not None


class StaticEncoder:
    """Encoder that averages word vectors, pretrained or distilled; it runs no network.

    Unknown words are omitted. A text without known words has the zero vector, as in model2vec and
    sentence-transformers, and therefore the same similarity to all texts.

    Parameters
    ----------
    model
        a word vector file (GloVe or word2vec text, fastText ``.vec``, word2vec binary, plain or
        gzip), a folder of model2vec, of sentence-transformers with a StaticEmbedding, or written by
        `save`, or a hub id.
    pooling
        ``mean``; or ``sif``, weighted by ``a / (a + p(word))`` with p by Zipf's law, since such
        files list words by frequency (`fitted` takes p from texts). By default the folder's
        pooling, and ``mean`` for files.
    query_prompt
        prefix of queries; by default the folder's.
    document_prompt
        prefix of documents; by default the folder's.

    Attributes
    ----------
    dim
        dimensions of the vectors; `width` is the same, since there are no hidden states.
    vectors
        token vectors and the tokenizer.
    weights
        factors of the tokens' vectors (tokens,); None for equal weights.

    Raises
    ------
    InputError
        If the file or folder is missing or has another format, or the pooling is unknown.
    """

    precision = "fp32"
    runtime = "numpy, fp32"

    def __init__(
        self,
        model: str | Path,
        *,
        pooling: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        if pooling is not None and pooling not in POOLINGS:
            raise InputError(
                f"pooling={pooling!r}; expected {' or '.join(POOLINGS)} for word vectors"
            )
        revision = None
        if Path(model).is_file():
            name = str(Path(model).resolve())
            vectors = read_word_vectors(Path(name))
        else:
            files = find_model(str(model))
            name = files.name
            revision = files.revision
            vectors = read_static(files.folder)
        prompts = vectors.prompts.override(query_prompt, document_prompt)
        self._set(replace(vectors, prompts=prompts), pooling, name, revision)

    @classmethod
    def of(cls, vectors: StaticVectors) -> StaticEncoder:
        """Create an encoder from vectors that are not saved yet."""
        return cls.__new__(cls)._set(vectors, None)

    def _set(
        self,
        vectors: StaticVectors,
        pooling: str | None,
        name: str | None = None,
        revision: str | None = None,
    ) -> Self:
        """Set all attributes; return the encoder. `name` is None if it is not saved."""
        self.vectors = vectors
        self._name = name
        self._revision = revision
        self.dim = int(vectors.vectors.shape[1])
        self.width = self.dim
        self.pooling = pooling or (MEAN if vectors.weights is None else WEIGHTED)
        self.weights = vectors.weights if self.pooling == WEIGHTED else None
        if self.pooling == SIF:
            self.weights = _weights(vectors, None)
        self._pieces = WordPieces(vectors.tokenizer, vectors.dropped)
        return self

    @property
    def prompts(self) -> Prompts:
        """Prefixes of queries and documents."""
        return self.vectors.prompts

    def count_tokens(self, texts: str | Sequence[str]) -> int:
        """Count the tokens that have a vector."""
        return sum(self.token_counts(several(texts)))

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each document, with its prompt, that have a vector."""
        counts = list[int]()
        for group in groups(texts):
            counts += self._pieces.counts(_with_prompt(texts[group], self.prompts.document))
        return counts

    def spec(self) -> dict[str, Any]:
        """Return the file or folder, the SHA-256 of its contents, the pooling, and prompts, if any.

        `model` is None for an encoder that was `fitted` and not saved.
        """
        spec: dict[str, Any] = {
            "type": "static",
            "model": self._name,
            "sha256": self.vectors.sha256,
            "revision": self._revision,
            "pooling": self.pooling,
        }
        if self.prompts != Prompts():
            spec["prompts"] = [self.prompts.query, self.prompts.document]
        return spec

    def encode(self, texts: str | Sequence[str]) -> Matrix:
        """Encode documents to vectors (n, dim); a single text gives (1, dim)."""
        return self._encode(several(texts), self.prompts.document)

    def encode_queries(self, texts: str | Sequence[str]) -> Matrix:
        """Encode queries to vectors (n, dim), with the query prompt."""
        return self._encode(several(texts), self.prompts.query)

    def _encode(self, texts: Sequence[str], prompt: str) -> Matrix:
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for group in groups(texts):
            out[group] = self._pool(*self._pieces.ids(_with_prompt(texts[group], prompt)))
        return normalize_rows(out) if self.vectors.normalize else out

    def fitted(
        self,
        texts: Iterable[str] = (),
        *,
        frequencies: Mapping[str, float] | str | Path | None = None,
    ) -> StaticEncoder:
        """Return a SIF encoder, fitted to texts (Arora et al. 2017).

        Words are weighted by ``a / (a + p(word))`` with a = 1e-3; then the first principal
        component of the text vectors is removed. The new encoder has a copy of the vectors in
        memory; `save` it so that an index can load it.

        Parameters
        ----------
        texts
            similar to those to be searched, read once; without texts, no component is removed.
        frequencies
            counts of words in a large corpus, or a file with lines of ``word count``; by default
            counted in the texts.

        Raises
        ------
        InputError
            If there are neither texts nor frequencies, or they contain no known word.
        """
        prompt = self.prompts.document
        parts = [self._pieces.ids(_with_prompt(part, prompt)) for part in _parts(texts)]

        # Count how often each token occurs.
        counts = np.zeros(self.vectors.tokens, dtype=np.float64)
        if frequencies is not None:
            if not isinstance(frequencies, Mapping):
                frequencies = read_frequencies(Path(frequencies))
            ids, lengths = self._pieces.ids([*frequencies])
            # Each token of a word occurs as often as the word.
            occurrences = np.repeat(np.fromiter(frequencies.values(), np.float64), lengths)
            counts += np.bincount(ids, occurrences, minlength=len(counts))
        else:
            for ids, _ in parts:
                counts += np.bincount(ids, minlength=len(counts))
        if not counts.sum() > 0:
            raise InputError(
                "fitted: no known word in the texts or frequencies; expected texts like those to "
                "be searched"
            )

        # Weight the tokens, and remove the first component of the texts.
        weights = _weights(self.vectors, counts / counts.sum())
        vectors = replace(self.vectors, weights=weights, known_sha256=None)
        encoder = StaticEncoder.of(vectors)
        if parts:
            moment = np.zeros((self.dim, self.dim))
            for ids, lengths in parts:
                exact = encoder._pool(ids, lengths).astype(np.float64)
                moment += product(exact.T, exact)
            _, axes = eigh(moment)  # the last is the first singular vector of the texts
            remaining = without_component(vectors.vectors, axes[:, -1])
            vectors = replace(vectors, vectors=remaining)
        return StaticEncoder.of(vectors)

    def save(self, folder: str | Path) -> StaticEncoder:
        """Write a new folder atomically, and return an encoder that reads it.

        model2vec's ``StaticModel.from_pretrained(folder)`` gives the same vectors. Raises
        `InputError` if the path exists.
        """
        weighted = replace(self.vectors, weights=self.weights)
        check_new(Path(folder))
        publish_folder(Path(folder), lambda new: write_static(new, weighted))
        return StaticEncoder(Path(folder).absolute())

    def _pool(self, ids: Rows, lengths: Rows) -> Matrix:
        """Weighted means (n, dim) of n texts, given their concatenated token ids and their lengths.

        A text without tokens gets the zero vector.
        """
        rows = ids if self.vectors.mapping is None else self.vectors.mapping[ids]
        weights = np.ones(len(ids), np.float32) if self.weights is None else self.weights[ids]
        sums = SparseRows(lengths, rows, weights).times(self.vectors.vectors)
        out: Matrix = sums / np.maximum(lengths, 1).astype(np.float32)[:, None]
        return out


def static_from_spec(spec: dict[str, Any], *, model: str | None = None) -> StaticEncoder:
    """Load the encoder of an index, from `model` if it has moved, and check that it is the same.

    Raises `InputError` if it is missing or has other vectors.
    """
    place = model or spec.get("model")
    if place is None:
        raise InputError(
            "this index was built with a StaticEncoder that was fitted: pass it to open(), or "
            "`save` it and pass model=PATH"
        )
    pooling = spec["pooling"]
    query, document = spec.get("prompts", ("", ""))
    try:
        encoder = StaticEncoder(
            place,
            pooling=pooling if pooling in POOLINGS else None,
            query_prompt=query,
            document_prompt=document,
        )
    except InputError:
        if model is not None or not os.path.exists(place):
            raise
        # An untrusted index may name any file on this machine: don't quote its content.
        raise InputError(
            f"model {place!r}: no word vectors that can be read; expected those that the index was "
            "built with (pass model=PATH for a line that says more)"
        ) from None
    check_unchanged(encoder, spec, "sha256", "pooling")
    return encoder


def _weights(vectors: StaticVectors, p: NDArray[np.float64] | None) -> NDArray[np.float32]:
    """Compute SIF weights (tokens,) from probabilities, or by Zipf's law in the order of tokens."""
    if p is None:
        p = np.zeros(vectors.tokens)
        known = np.arange(vectors.tokens) != vectors.dropped
        p[known] = zipf(int(known.sum()))
    return sif_weights(p)


def _with_prompt(texts: Sequence[str], prompt: str) -> Sequence[str]:
    """Prepend a prompt, if any, to each text."""
    return [prompt + text for text in texts] if prompt else texts


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in batches."""
    remaining = iter(texts)
    while part := list(islice(remaining, GROUP_TEXTS)):
        yield part


def zipf(count: int) -> NDArray[np.float64]:
    """Probabilities (count,) of words sorted by frequency, by Zipf's law.

    Ranks start at 2, as in model2vec, so that the first word does not outweigh all others.

    >>> zipf(2).round(3).tolist()
    [0.6, 0.4]
    """
    inverse = 1.0 / np.arange(2, count + 2)
    probabilities: NDArray[np.float64] = inverse / inverse.sum()
    return probabilities


def sif_weights(p: NDArray[np.float64], a: float = SIF_A) -> NDArray[np.float32]:
    """Compute ``a / (a + p(w))``: 1 for a word that never occurs, little for "the".

    >>> sif_weights(np.array([0.0, 0.001, 0.009])).round(3).tolist()
    [1.0, 0.5, 0.10000000149011612]
    """
    return (a / (a + p)).astype(np.float32)


def without_component(X: Matrix, u: NDArray[np.float64]) -> Matrix:
    """Remove the component along the unit vector u (d,) from rows of X (n, d): ``x - u u^T x``.

    A text vector is a weighted mean of word vectors, so this removes it from texts, too.

    >>> without_component(np.array([[3, 4]], dtype=np.float32), np.array([1.0, 0.0])).tolist()
    [[0.0, 4.0]]
    """
    direction = u.astype(np.float32)
    out: Matrix = X - np.outer(product(X, direction), direction)
    return out


def read_frequencies(path: Path) -> dict[str, float]:
    """Read lines of a word and its count, separated by a space or tab.

    Raises `InputError` if a line has another form, or all counts are 0.
    """
    counts: dict[str, float] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            word, _, count = line.strip("\r\n ").replace("\t", " ").rpartition(" ")
            if not line.strip():
                continue
            # Digits, perhaps with a fraction; few enough that no count is infinite.
            if not word.strip() or not re.fullmatch(r"\d{1,18}(\.\d{1,18})?", count):
                shown = shorten(line.strip(), 60)
                raise InputError(f"{path}: line {number}: {shown}; expected a word and its count")
            counts[word.strip()] = counts.get(word.strip(), 0.0) + float(count)
    if not sum(counts.values()):
        raise InputError(f"{path}: no counts; expected lines of a word and its count")
    return counts
