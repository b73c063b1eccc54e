"""Distillation of a transformer into static word vectors, by encoding each token alone.

The method of model2vec (Tulkens and van Dongen 2024, https://github.com/MinishLab/model2vec):
encode every token between the special ones, average the last layer, keep principal components, and
weight by Zipf's law. model2vec's own distillation finds equally good vectors, but takes several
times as long in torch, and requires transformers below 5.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, batches
from slimdex.indexes.reducers.linear import Pca
from slimdex.system.atomic_files import check_new
from slimdex.system.progress import progress

from .pieces import unknown_id
from .transformer import TransformerEncoder
from .word_vectors.folder import StaticVectors
from .word_vectors.static_encoder import StaticEncoder, has_word_vectors, sif_weights, zipf

DIMENSIONS = 256
MODEL2VEC_A = 1e-4
"""SIF's parameter a for weights by Zipf's law, as in model2vec."""
UNUSED = re.compile(r"\[unused\d+\]")
AT_ONCE = 2048
"""Tokens encoded between progress reports."""


def distill(
    model: str,
    out: str | Path,
    *,
    dim: int | None = None,
    texts: Iterable[str] | None = None,
    frequencies: str | Path | None = None,
    precision: str = "fp32",
    trust_remote_code: bool = False,
) -> StaticEncoder:
    """Write a folder of static vectors, and return an encoder that reads it.

    The same model and texts give the same vectors up to rounding, and on one machine identical
    files once OpenVINO's conversion of the model is cached.

    Parameters
    ----------
    model : a transformer, or word vectors, whose rows are used unchanged.
    out : a folder that does not exist yet.
    dim : dimensions after PCA; by default 256 or fewer for transformers, all for word vectors.
    texts, frequencies : fit SIF on these (`StaticEncoder.fitted`); by default transformers get
        weights by Zipf's law, as in model2vec, and word vectors none.
    precision : of the transformer, as for `TransformerEncoder`.

    Raises
    ------
    InputError
        If `out` exists, the model is not found, or it has fewer dimensions.
    """
    check_new(Path(out))
    encoder = distilled(model, dim=dim, precision=precision, trust_remote_code=trust_remote_code)
    # Replace weights by Zipf's law with weights by these texts or frequencies.
    if texts is not None or frequencies is not None:
        encoder = encoder.fitted(texts or (), frequencies=frequencies)
    return encoder.save(out)


def distilled(
    model: str, *, dim: int | None, precision: str, trust_remote_code: bool = False
) -> StaticEncoder:
    """Distil a model without saving it: see `distill`."""
    if dim is not None and dim < 1:
        raise InputError(f"dim={dim}; expected 1 or more")
    if not has_word_vectors(model):
        transformer = TransformerEncoder(
            model, pooling="mean@-1", precision=precision, trust_remote_code=trust_remote_code
        )
        return StaticEncoder.of(_of_transformer(transformer, dim))
    vectors = StaticEncoder(model).vectors
    if dim is not None:
        # Keep the zero row of unknown words, and drop the hash, which is of the file's vectors.
        known = np.arange(len(vectors.vectors)) != vectors.dropped
        reduced = _reduce(vectors.vectors, dim, known)
        vectors = replace(vectors, vectors=reduced, known_sha256=None)
    return StaticEncoder.of(vectors)


def _of_transformer(encoder: TransformerEncoder, dim: int | None) -> StaticVectors:
    """Distil a transformer: encode each token of its vocabulary, reduce the vectors, add weights.

    Raises `InputError` if the tokenizer is written in Python, or the model has fewer dimensions
    than `dim`.
    """
    _check_dim(dim, encoder.dim)  # check before a minute of work

    # Encode each token alone, between the special tokens that surround a text.
    before, after = _around(encoder.tokenizer)
    definition, ids, known = _vocabulary(encoder.tokenizer, encoder.plain_tokenizer())
    rows = np.zeros((len(ids), encoder.dim), dtype=np.float32)
    chosen = np.flatnonzero(known)
    for part in batches(len(chosen), AT_ONCE):
        tokens = [[*before, ids[i], *after] for i in chosen[part].tolist()]
        rows[chosen[part]] = encoder.encode_ids(tokens)
        progress("distilling", part.stop, len(chosen))

    # Weight the tokens by their frequencies: vocabularies list frequent tokens first.
    tokenizer = Tokenizer.from_str(definition)
    probabilities = np.zeros(len(ids))
    probabilities[known] = zipf(len(chosen))
    out_dim = min(DIMENSIONS, encoder.dim) if dim is None else dim
    return StaticVectors(
        _reduce(rows, out_dim, known),
        tokenizer,
        definition,
        weights=np.where(known, sif_weights(probabilities, MODEL2VEC_A), 0).astype(np.float32),
        dropped=unknown_id(tokenizer),
        normalize=True,
    )


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids of the special tokens that a tokenizer puts before and after the tokens of a text."""
    encoding = tokenizer.encode("a")
    ids = encoding.ids
    positions = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
    if not positions:  # the tokenizer finds nothing but special tokens in "a"
        return ids, []
    return ids[: positions[0]], ids[positions[-1] + 1 :]


def _vocabulary(tokenizer: Any, definition: str) -> tuple[str, list[int], Any]:
    """Return a tokenizer for the static vectors, and the tokens of its vocabulary in row order.

    Special and unused tokens are removed from WordPiece vocabularies. Other vocabularies can't be
    shortened without side effects: there the mask excludes them and their rows are zero.

    `definition` is the tokenizer as JSON, from `plain_tokenizer`.

    Returns the tokenizer as JSON, without special tokens; each row's token id in the model; and a
    mask of the rows whose tokens stand for text.
    """
    # Tokens that stand for text: neither special, nor unused, nor the unknown token.
    data = json.loads(definition)
    special = {token["id"] for token in data["added_tokens"] if token["special"]}
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    by_id = sorted((id, token) for token, id in vocabulary.items())
    plain = {id for id, token in by_id if id not in special and not UNUSED.fullmatch(token)}
    unknown = data["model"].get("unk_token")
    plain -= {vocabulary.get(unknown, -1)}  # no token has the id -1

    # In WordPiece, remove all others and renumber from 0; otherwise keep a row for every id.
    if data["model"]["type"] == "WordPiece":
        by_id = [(id, token) for id, token in by_id if id in plain or token == unknown]
        data["model"]["vocab"] = {token: i for i, (_, token) in enumerate(by_id)}
        data["added_tokens"] = []
    else:
        token_of = dict(by_id)
        by_id = [(id, token_of.get(id, "")) for id in range(by_id[-1][0] + 1)]
    ids = [id for id, _ in by_id]
    definition = json.dumps(data, ensure_ascii=False)
    return definition, ids, np.array([id in plain for id in ids])


def _reduce(rows: Matrix, dim: int, known: Any) -> Matrix:
    """Reduce rows (n, d) to principal components (n, dim), fitted on the rows in the mask `known`.

    The other rows become zero.

    With all dimensions, rows are only centred: their axes stay those of the model, so that vectors
    which were distilled on different machines are comparable.
    """
    _check_dim(dim, rows.shape[1])
    out = np.zeros((len(rows), dim), dtype=np.float32)
    if dim == rows.shape[1]:
        out[known] = rows[known] - rows[known].mean(axis=0, dtype=np.float64)
    else:
        pca = Pca(dim).fit(rows[known])
        out[known] = pca.transform(rows[known])
    return out


def _check_dim(dim: int | None, width: int) -> None:
    if dim is not None and dim > width:
        raise InputError(f"dim={dim}; expected 1 to the model's {width}")
