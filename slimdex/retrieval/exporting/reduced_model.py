"""ReducedModel: the encoder of an index followed by its reducer as layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.reducers.layers import Dense, Layer, layers_of

from ..encoders.transformer import TransformerEncoder
from ..encoders.word_vectors.static_encoder import StaticEncoder
from ..open_index import OpenIndex
from .selection import FULL


@dataclass(frozen=True)
class ReducedModel:
    """Encoder and reducer of an index, as a model from text to vector.

    `layers` follow the encoder, in order; none for full vectors.
    """

    encoder: TransformerEncoder | StaticEncoder
    layers: list[Layer]

    @classmethod
    def of(cls, core: OpenIndex, vectors: str) -> ReducedModel:
        """Create the model of an index.

        Raises `InputError` if the index is empty, its vectors were supplied by the user, its
        encoder is not one of slimdex, or its reducer can't be expressed as layers.
        """
        layers = [] if vectors == FULL else layers_of(core.reduced_index.reducer)
        encoder: Any = core.encoder
        if not isinstance(encoder, TransformerEncoder | StaticEncoder):
            kind = encoder.spec().get("type")
            raise InputError(
                f"{core.path}: encoder {kind!r}; expected a TransformerEncoder or a "
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
