"""StaticEncoder: a text's vector is the mean of its words' vectors, which are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.errors import InputError

from ..base import several
from ..hub import find_model
from ..tokens import GROUP_TEXTS, groups
from .folder import StaticVectors, read_static, write_static
from .parsed_files import read_word_vectors
from .pieces import WordPieces, word_tokenizer
from .weights import (
    first_component,
    read_frequencies,
    sif_weights,
    without_component,
    zipf,
)

MEAN, WEIGHTED, SIF = "mean", "weighted", "sif"
POOLINGS = (MEAN, SIF)
"""What can be asked for; `WEIGHTED` is a folder's own, with the weights that are in it."""
AT_ONCE = 1 << 21
"""Numbers of words' vectors that are in memory at a time."""


class StaticEncoder:
    """Word vectors of others, or a transformer's vocabulary distilled: no network is run.

    Words that are not known are left out. A text without any known word has the vector zero, as in
    model2vec and sentence-transformers: it is as near to one text as to any other.

    Parameters
    ----------
    model : a file of word vectors (GloVe's or word2vec's text, fastText's ``.vec``, word2vec's
        binary, also gzip'd), a folder of model2vec, of sentence-transformers with a
        StaticEmbedding, or of our own (`save`), or a hub id.
    pooling : ``mean``; ``sif``, weighted by ``a / (a + p(word))`` with p by Zipf's law, as words
        stand in the order of their frequency in these files (`fitted` takes p from texts). By
        default what the folder says, and ``mean`` for files.

    Raises
    ------
    InputError
        If there is no such file or folder, or it holds something else; for an unknown pooling.
    """

    precision, runtime, layers = "fp32", "numpy, fp32", 0

    def __init__(self, model: str | Path, *, pooling: str | None = None) -> None:
        if pooling is not None and pooling not in POOLINGS:
            raise InputError(
                f"pooling={pooling!r}; expected {' or '.join(POOLINGS)} for word vectors"
            )
        revision = None
        if Path(model).is_file():
            name = str(Path(model).resolve())
            found = read_word_vectors(Path(name))
            vectors = StaticVectors(
                found.vectors,
                word_tokenizer(found.words),
                dropped=len(found.words),
                known_sha256=found.sha256,
            )
        else:
            files = find_model(str(model))
            name, revision = files.name, files.revision
            vectors = read_static(files.folder)
        self._set(vectors, pooling, name, revision)

    @classmethod
    def of(cls, vectors: StaticVectors) -> StaticEncoder:
        """An encoder of vectors at hand, which are in no folder yet."""
        return cls.__new__(cls)._set(vectors, None)

    def _set(
        self,
        vectors: StaticVectors,
        pooling: str | None,
        name: str | None = None,
        revision: str | None = None,
    ) -> Self:
        self._vectors, self._name, self._revision = vectors, name, revision
        self.pooling = pooling or (MEAN if vectors.weights is None else WEIGHTED)
        self._weights = vectors.weights if self.pooling == WEIGHTED else None
        if self.pooling == SIF:
            self._weights = _weights(vectors, None)
        self._pieces = WordPieces(vectors.tokenizer, vectors.dropped)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """All but what is remembered of words: another process learns its own."""
        return {name: value for name, value in vars(self).items() if name != "_pieces"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pieces = WordPieces(self._vectors.tokenizer, self._vectors.dropped)

    @property
    def vectors(self) -> StaticVectors:
        """A vector for each token, and what makes tokens of a text."""
        return self._vectors

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """What each token's vector is multiplied with (tokens,); None where all weigh the same."""
        return self._weights

    @property
    def dim(self) -> int:
        """Of the vectors."""
        return int(self._vectors.vectors.shape[1])

    @property
    def width(self) -> int:
        """The same: there are no hidden states."""
        return self.dim

    @property
    def flops_per_token(self) -> int:
        """Of a multiplication and an addition for each number."""
        return 2 * self.dim

    def count_tokens(self, texts: str | Sequence[str]) -> int:
        """Tokens of the texts that have a vector."""
        texts = several(texts)
        return sum(len(self._pieces.ids(texts[group])[0]) for group in groups(texts))

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text that have a vector; texts of any length are read."""
        counts = list[int]()
        for group in groups(texts):
            counts += map(int, self._pieces.ids(texts[group])[1])
        return counts

    def spec(self) -> dict[str, Any]:
        """The file or folder, the SHA-256 of what is in it, and the pooling.

        Where there is none yet, of an encoder that was `fitted` and not saved, `model` is None.
        """
        return {
            "type": "static",
            "model": self._name,
            "sha256": self._vectors.sha256,
            "revision": self._revision,
            "pooling": self.pooling,
        }

    def encode(self, texts: str | Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts; of one text, (1, dim)."""
        texts = several(texts)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for group in groups(texts):
            out[group] = self._pooled(*self._pieces.ids(texts[group]))
        return normalize_rows(out) if self._vectors.normalize else out

    def encode_layers(self, texts: str | Sequence[str], mode: str = MEAN) -> NDArray[np.float32]:
        """Vectors (n, 1, dim), for studies of layers; raises `InputError` for other modes."""
        if mode != MEAN:
            raise InputError(f"mode={mode!r}; expected {MEAN} for word vectors")
        return self.encode(texts)[:, None, :]

    def fitted(
        self,
        texts: Iterable[str] = (),
        *,
        frequencies: Mapping[str, float] | str | Path | None = None,
    ) -> StaticEncoder:
        """An encoder by SIF, with what texts tell: how frequent words are, and what texts share.

        Weights are ``a / (a + p(word))`` with a = 1e-3; then the first principal component of the
        texts' vectors is taken away (Arora et al. 2017). Both are part of the new encoder, which
        keeps a copy of the vectors in memory; `save` it for an index to find it again.

        Parameters
        ----------
        texts : like those that will be searched; read once. None, and nothing is taken away.
        frequencies : how often words stand in some large corpus, or a file with lines of
            ``word count``; by default they are counted in the texts.

        Raises
        ------
        InputError
            If there are neither texts nor frequencies, or no word of them is known.
        """
        parts = [self._pieces.ids(part) for part in _parts(texts)]
        counts = np.zeros(self._vectors.tokens, dtype=np.float64)
        if frequencies is not None:
            if not isinstance(frequencies, Mapping):
                frequencies = read_frequencies(Path(frequencies))
            ids, lengths = self._pieces.ids([*frequencies])
            times = np.repeat(np.fromiter(frequencies.values(), np.float64), lengths)
            counts += np.bincount(ids, times, minlength=len(counts))
        else:
            for ids, _ in parts:
                counts += np.bincount(ids, minlength=len(counts))
        if not counts.sum() > 0:
            raise InputError(
                "fitted: no known word in the texts or frequencies; expected some, as in what is "
                "to be searched"
            )
        weights = _weights(self._vectors, counts / counts.sum())
        made = replace(self._vectors, weights=weights, known_sha256=None).as_in_a_folder()
        encoder = StaticEncoder.of(made)
        if parts:
            moment = np.zeros((self.dim, self.dim))
            for ids, lengths in parts:
                exact = encoder._pooled(ids, lengths).astype(np.float64)
                moment += exact.T @ exact
            made = replace(made, vectors=without_component(made.vectors, first_component(moment)))
        return StaticEncoder.of(made)

    def save(self, folder: str | Path) -> StaticEncoder:
        """Write a new folder, whole or not at all, and return the encoder that reads it.

        model2vec's ``StaticModel.from_pretrained(folder)`` gives the same vectors.

        Raises
        ------
        InputError
            If there is something by that name.
        """
        whole = replace(self._vectors, weights=self._weights)
        write_static(Path(folder), whole, {"pooling": self.pooling})
        return StaticEncoder(Path(folder).absolute())

    def _pooled(self, ids: Rows, lengths: Rows) -> Matrix:
        """Weighted means (n, dim) of texts, whose ids come one after the other.

        Texts of one length are a product of matrices, (m, 1, length) by (m, length, dim).
        """
        out = np.zeros((len(lengths), self.dim), dtype=np.float32)
        starts = np.cumsum(lengths) - lengths
        most = max(1, AT_ONCE // self.dim)
        for length in np.unique(lengths[lengths > 0]).tolist():
            texts = np.flatnonzero(lengths == length)
            for low in range(0, length, most):  # of a text of millions of words, some at a time
                places = np.arange(low, min(low + most, length))
                for part in batches(len(texts), max(1, most // len(places))):
                    tokens = ids[starts[texts[part], None] + places]
                    out[texts[part]] += self._sums(tokens)
            out[texts] /= np.float32(length)
        return out

    def _sums(self, tokens: Rows) -> Matrix:
        """Weighted sums (n, dim) of the vectors of tokens (n, length)."""
        rows = tokens if self._vectors.mapping is None else self._vectors.mapping[tokens]
        ones = np.ones(tokens.shape, dtype=np.float32)
        weights = ones if self._weights is None else self._weights[tokens]
        out: Matrix = (weights[:, None, :] @ self._vectors.vectors[rows])[:, 0]
        return out


def static_from_spec(spec: dict[str, Any], *, model: str | None = None) -> StaticEncoder:
    """The encoder that an index was built with, checked to be the same.

    Parameters
    ----------
    model : where it is now, if that has moved.

    Raises
    ------
    InputError
        If it is not there, or other vectors are.
    """
    place = model or spec.get("model")
    if place is None:
        raise InputError(
            "this index was built with a StaticEncoder that was fitted: pass it to open(), or "
            "`save` it and say where by model=PATH (for good by `move_model`)"
        )
    if model is None and Path(place).is_absolute() and not Path(place).exists():
        raise InputError(
            f"model {place!r}: no such file or folder; if it has moved, say where it is now by "
            "model=PATH (for good by `move_model`)"
        )
    pooling = spec["pooling"]
    encoder = StaticEncoder(place, pooling=pooling if pooling in POOLINGS else None)
    found = encoder.spec()
    for key in ("sha256", "pooling"):
        if found[key] != spec[key]:
            raise InputError(
                f"model {found['model']!r} has {key} {found[key]}; the index was built with "
                f"{spec[key]}"
            )
    return encoder


def _weights(vectors: StaticVectors, p: NDArray[np.float64] | None) -> NDArray[np.float32]:
    """SIF weights (tokens,) by probabilities, or by Zipf's law in the order of the tokens."""
    if p is None:
        p = np.zeros(vectors.tokens)
        known = np.arange(vectors.tokens) != vectors.dropped
        p[known] = zipf(int(known.sum()))
    return sif_weights(p)


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Parts of texts that come one after the other."""
    left = iter(texts)
    while part := list(islice(left, GROUP_TEXTS)):
        yield part
