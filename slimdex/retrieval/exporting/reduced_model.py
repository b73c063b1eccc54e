"""ReducedModel: the encoder of an index followed by its reducer as layers; parts of encoders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.reducers.layers import Dense, Layer, layers_of

from ..collection import Collection
from ..encoders.transformer import TransformerEncoder
from ..encoders.word_vectors.static_encoder import StaticEncoder
from .selection import FULL


@dataclass(frozen=True)
class ReducedModel:
    """Encoder and reducer of an index, as a model from text to vector.

    `layers` follow the encoder, in order; none for full vectors.
    """

    encoder: TransformerEncoder | StaticEncoder
    layers: list[Layer]

    @classmethod
    def of(cls, collection: Collection, vectors: str) -> ReducedModel:
        """Create the model of an index.

        Raises `InputError` if the index is empty, its vectors were supplied by the user, its
        encoder is not one of slimdex, or its reducer can't be expressed as layers.
        """
        if vectors != FULL and collection.index.is_empty:
            raise InputError(f"{collection.path} holds no documents; expected some to reduce by")
        layers = [] if vectors == FULL else layers_of(collection.index.snapshot.index.reducer)
        encoder: Any = collection.encoder
        if not isinstance(encoder, TransformerEncoder | StaticEncoder):
            kind = encoder.spec().get("type")
            raise InputError(
                f"{collection.path}: encoder {kind!r}; expected a TransformerEncoder or a "
                "StaticEncoder, whose network is known"
            )
        return cls(encoder, layers)

    @property
    def dim(self) -> int:
        """Dimensions of its vectors."""
        dense = [layer for layer in self.layers if isinstance(layer, Dense)]
        return len(dense[-1].weight) if dense else self.encoder.dim

    @property
    def is_scale_invariant(self) -> bool:
        """True if the layers map a vector and its multiples to the same output."""
        first = self.layers[0] if self.layers else None
        return first is not None and getattr(first, "bias", None) is None


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
