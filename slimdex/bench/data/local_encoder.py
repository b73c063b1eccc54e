"""Encoders on this machine, whose speed and precision experiments can state."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from slimdex.indexes.errors import InputError
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.encoders.over_http.address import is_address

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.transformer import TransformerEncoder
    from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

    LocalEncoder = TransformerEncoder | StaticEncoder


def open_local(
    model: str,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    precision: str = "auto",
) -> LocalEncoder:
    """Open a model's encoder like `open_encoder`; raise `InputError` for one in a server."""
    if is_address(model):
        raise InputError(f"{model}: expected a model on this machine to measure")
    found = open_encoder(model, pooling=pooling, max_length=max_length, precision=precision)
    return cast("LocalEncoder", found)
