"""Token table: a vector for each token, so that a text's weighted sum approximates its embedding.

The table is fitted to texts and their vectors by an encoder; it then encodes queries without that
encoder. Row i of B is the tf-idf vector of text i, and row i of Y its vector by the encoder, both
of unit length. The table T minimizes ``|B T - Y|^2 + ridge |T|^2`` (ridge regression; Hoerl and
Kennard 1970), solved approximately by a few steps of conjugate gradients with a diagonal
preconditioner (Hestenes and Stiefel 1952).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Matrix, batches, normalize_rows
from slimdex.indexes.tensors import Arrays, check_tensor, load_tensors, save_tensors
from slimdex.system.progress import progress

from .pieces import WordPieces, unknown_id
from .sparse_rows import SparseRows
from .tokens import groups
from .word_vectors.folder import StaticVectors
from .word_vectors.static_encoder import StaticEncoder

KIND = "token table"
MOST_TEXTS = 1 << 16
"""A larger index is sampled, to bound memory."""
RIDGE = 0.3
STEPS = 4
"""Steps of conjugate gradients: more steps overfit, so that queries find less."""
DIMENSIONS_AT_ONCE = 128


def fit_table(definition: str, texts: Sequence[str], vectors: Matrix) -> StaticVectors:
    """Fit a table to texts and their vectors (n, d).

    `definition` is the encoder's tokenizer as JSON, from `plain_tokenizer`. Tokens that occur in no
    text get no vector, and are ignored in queries.
    """
    tokenizer = Tokenizer.from_str(definition)
    bags = _token_counts(tokenizer, texts)

    # Inverse document frequencies of the tokens that occur.
    tokens, columns = np.unique(bags.columns, return_inverse=True)
    idf = np.log(1 + len(texts) / (1 + np.bincount(columns))).astype(np.float32)
    bags = SparseRows(bags.lengths, columns, bags.weights * idf[columns]).normalized()

    # The dimensions are independent of each other.
    unit = normalize_rows(vectors)
    rows = np.zeros((len(tokens), unit.shape[1]), dtype=np.float32)
    for part in batches(unit.shape[1], DIMENSIONS_AT_ONCE):
        rows[:, part] = ridge(bags, len(tokens), np.ascontiguousarray(unit[:, part]))
        progress("fitting the token table", part.stop, unit.shape[1])
    return _table(tokenizer, definition, tokens, idf, rows)


def ridge(
    bags: SparseRows, columns: int, Y: Matrix, alpha: float = RIDGE, steps: int = STEPS
) -> Matrix:
    """Solve ``(B^T B + alpha I) T = B^T Y`` for T (columns, d), given Y (n, d), approximately.

    >>> one_each = SparseRows(np.array([1, 1]), np.array([0, 1]), np.ones(2, np.float32))
    >>> ridge(one_each, 2, np.array([[3], [6]], np.float32), alpha=0.5).ravel().tolist()
    [2.0, 4.0]
    """
    transposed = bags.transposed(columns)
    diagonal = np.bincount(bags.columns, bags.weights**2, columns) + alpha
    scale = (1 / diagonal).astype(np.float32)[:, None]  # the preconditioner
    least = np.finfo(np.float32).tiny

    table = np.zeros((columns, Y.shape[1]), dtype=np.float32)
    residual = transposed.times(Y)
    direction = scale * residual
    energy = (residual * direction).sum(axis=0)
    for _ in range(steps):
        image = transposed.times(bags.times(direction)) + np.float32(alpha) * direction
        step = energy / np.maximum((direction * image).sum(axis=0), least)
        table += step * direction
        residual -= step * image
        scaled = scale * residual
        before = energy
        energy = (residual * scaled).sum(axis=0)
        direction = scaled + energy / np.maximum(before, least) * direction
    return table


def save_table(path: Path, table: StaticVectors) -> None:
    """Write a table to a file, with vectors in float16."""
    assert table.weights is not None
    tokens = np.flatnonzero(table.weights)
    arrays: Arrays = {
        "tokens": tokens.astype(np.int32),
        "weights": table.weights[tokens],
        "vectors": table.vectors.astype(np.float16),
        "tokenizer": np.frombuffer(zlib.compress(table.definition.encode()), dtype=np.uint8),
    }
    save_tensors(path, KIND, {}, arrays)


def load_table(path: Path, dim: int) -> StaticEncoder:
    """Load a table of vectors of `dim` dimensions; raises `CorruptError` for any other file."""
    kind, _, arrays = load_tensors(path)
    if kind != KIND or set(arrays) != {"tokens", "weights", "vectors", "tokenizer"}:
        raise CorruptError(f"{path}: holds {kind!r}; expected a {KIND}")
    tokens = arrays["tokens"]
    check_tensor(path, "tokens", tokens, (None,), np.int32)
    check_tensor(path, "weights", arrays["weights"], (len(tokens),), np.float32)
    check_tensor(path, "vectors", arrays["vectors"], (len(tokens), dim), np.float16)
    try:
        definition = zlib.decompress(arrays["tokenizer"].tobytes()).decode()
        tokenizer = Tokenizer.from_str(definition)
        vectors = arrays["vectors"].astype(np.float32)
        table = _table(tokenizer, definition, tokens, arrays["weights"], vectors)
    except Exception as error:  # tokenizers raises no other
        raise CorruptError(f"{path}: no tokenizer ({error})") from error
    return StaticEncoder.of(table)


def _token_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> SparseRows:
    """Count each token in each text."""
    pieces = WordPieces(tokenizer, unknown_id(tokenizer))
    lengths = list[NDArray[np.int64]]()
    columns = list[NDArray[np.int64]]()
    counts = list[NDArray[np.float32]]()
    most = _token_count(tokenizer)
    for group in groups(texts):
        ids, ids_of_text = pieces.ids(texts[group])
        numbers = np.repeat(np.arange(len(ids_of_text)), ids_of_text)
        keys, occurrences = np.unique(numbers * most + ids, return_counts=True)
        lengths.append(np.bincount(keys // most, minlength=len(ids_of_text)))
        columns.append(keys % most)
        counts.append(occurrences.astype(np.float32))
    return SparseRows(np.concatenate(lengths), np.concatenate(columns), np.concatenate(counts))


def _table(
    tokenizer: Tokenizer,
    definition: str,
    tokens: NDArray[np.integer],
    idf: NDArray[np.float32],
    vectors: Matrix,
) -> StaticVectors:
    """The vectors (t, d) and weights (t,) of some tokens (t,), for a `StaticEncoder`."""
    count = _token_count(tokenizer)
    weights = np.zeros(count, dtype=np.float32)
    weights[tokens] = idf
    mapping = np.zeros(count, dtype=np.int64)
    mapping[tokens] = np.arange(len(tokens))
    return StaticVectors(
        vectors,
        tokenizer,
        definition,
        weights=weights,
        mapping=mapping,
        dropped=unknown_id(tokenizer),
        normalize=True,
    )


def _token_count(tokenizer: Tokenizer) -> int:
    """One more than the largest token id."""
    return 1 + max(tokenizer.get_vocab().values())
