"""ReducedModel: the encoder of an index, with its reducer as layers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.layers import Dense, Layer, layers_of

from ..collection.open_index import OpenIndex
from ..encoders.opened import OpenedEncoder
from ..encoders.transformer import TransformerEncoder
from ..encoders.word_vectors.static_encoder import StaticEncoder
from .selection import FULL


@dataclass(frozen=True)
class ReducedModel:
    """What turns a text into the vector that an index's codes are made of.

    Attributes
    ----------
    layers : after the encoder, in order; none for full vectors.
    """

    encoder: OpenedEncoder
    layers: list[Layer]

    @classmethod
    def of(cls, core: OpenIndex, vectors: str) -> ReducedModel:
        """The model of an index.

        Raises
        ------
        InputError
            If there are no documents yet, vectors were given, or the encoder is none of slimdex';
            for a reducer that is no layers.
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
        """Of its vectors."""
        dense = [layer for layer in self.layers if isinstance(layer, Dense)]
        return len(dense[-1].weight) if dense else self.encoder.dim

    @property
    def is_same_for_any_length(self) -> bool:
        """Whether the layers give the same for a vector and for any multiple of it."""
        first = self.layers[0] if self.layers else None
        return first is not None and getattr(first, "bias", None) is None
