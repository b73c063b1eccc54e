"""Parts of word-vector encoders for export: a vector per token, and the tokenizer."""

from __future__ import annotations

import json

import numpy as np

from slimdex.indexes.arrays import Matrix

from ..encoders.word_vectors.static_encoder import StaticEncoder


def rows_of(encoder: StaticEncoder) -> Matrix:
    """Weighted token vectors (tokens, dim); zero for the dropped token."""
    whole = encoder.vectors.as_in_a_folder()
    rows = whole.vectors if whole.mapping is None else whole.vectors[whole.mapping]
    weights = encoder.weights
    if weights is not None:
        missing = len(rows) - len(weights)
        rows = rows * np.pad(weights, (0, missing))[:, None]
    rows = np.array(rows, dtype=np.float32)
    if whole.dropped is not None:
        rows[whole.dropped] = 0.0
    return rows


def definition_of(encoder: StaticEncoder) -> str:
    """Tokenizer as JSON, for texts of any length, without special tokens."""
    definition = json.loads(encoder.vectors.as_in_a_folder().definition or "")
    definition |= {"post_processor": None, "truncation": None, "padding": None}
    return json.dumps(definition, ensure_ascii=False)
