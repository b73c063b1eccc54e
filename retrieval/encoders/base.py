"""What an encoder is: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

ENCODER_PARTS = {"dim": "dim", "encode": "encode(texts)", "spec": "spec()"}
"""What any encoder has, and how that is called."""
PLACE = ("model", "revision")
"""What a spec says of where a model comes from, and not of what it is."""
PRECISION = ("precision", "measured")
"""What a spec says of how exactly it is computed: vectors in any can be compared."""


class Encoder(Protocol):
    """Anything with these three can be given to `Collection`."""

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        ...

    def spec(self) -> dict[str, Any]:
        """What must be equal for vectors to be comparable, as JSON can hold it."""
        ...


class QueryEncoder(Protocol):
    """An encoder that treats queries otherwise than documents."""

    def encode_queries(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim) of texts that are looked for."""
        ...


Lengths = NDArray[np.int64]
"""(n, 2): the tokens of each text, and how many of them are read."""


@runtime_checkable
class LimitedEncoder(Protocol):
    """An encoder that reads so much of a text and no more, and tells how much."""

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Vectors (n, dim), and of each text its tokens and how many were read."""
        ...


@runtime_checkable
class CountingEncoder(Protocol):
    """An encoder that counts tokens, so that long texts can be cut to what it reads.

    That is its `max_length`, tokens with the special ones; where it has none, or None, it reads
    texts of any length, and they are cut only to a length that is asked for.
    """

    def token_counts(self, texts: Sequence[str]) -> Sequence[int]:
        """Tokens of each text as a document, special ones included, none cut off."""
        ...


@runtime_checkable
class AdaptableEncoder(Protocol):
    """An encoder that can compute in several precisions."""

    def fastest(self) -> Encoder:
        """The one that new collections should be made with, on this machine."""
        ...

    def in_precision(self, precision: str) -> Encoder:
        """The same encoder in another precision."""
        ...


def for_new_documents(encoder: Encoder) -> Encoder:
    """An encoder in the precision that a new collection should be made with."""
    return encoder.fastest() if isinstance(encoder, AdaptableEncoder) else encoder


def as_recorded(encoder: Encoder, spec: dict[str, Any]) -> Encoder:
    """An encoder in the precision that a spec names, if it names one."""
    if isinstance(encoder, AdaptableEncoder) and "precision" in spec:
        return encoder.in_precision(spec["precision"])
    return encoder


def encode_queries(encoder: Encoder, texts: Sequence[str]) -> Matrix:
    """Vectors (n, dim) of queries, by an encoder that may or may not tell them from documents."""
    if hasattr(encoder, "encode_queries"):  # `isinstance` is slow where a protocol is asked for
        return cast(QueryEncoder, encoder).encode_queries(texts)
    return encoder.encode(texts)


def several(texts: str | Sequence[str]) -> Sequence[str]:
    """Texts as they are; a str is one of them, not its letters.

    >>> several("a cat"), several(["a cat", "a dog"])
    (['a cat'], ['a cat', 'a dog'])
    """
    return [texts] if isinstance(texts, str) else texts


def checked_encoder(encoder: Any) -> Encoder:
    """What a caller gives for an encoder, if it can be one.

    Raises
    ------
    InputError
        If it lacks something that an encoder has.
    """
    if isinstance(encoder, str):
        raise InputError(f"encoder {encoder!r}, a str; expected TransformerEncoder({encoder!r})")
    name = type(encoder).__name__
    if missing := [part for part in ENCODER_PARTS if not hasattr(encoder, part)]:
        raise InputError(
            f"encoder {name} has no {' and no '.join(missing)}; expected "
            f"{', '.join(ENCODER_PARTS.values())}"
        )
    if not isinstance(encoder.dim, int | np.integer) or encoder.dim < 1:
        raise InputError(f"encoder {name}: dim={encoder.dim!r}; expected a whole number from 1 on")
    checked: Encoder = encoder
    return checked


def is_same_encoder(spec: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether vectors of two encoders, known by their specs, can be compared.

    Where a model's folder lies does not matter if its weights have the same SHA-256, nor does
    the precision.
    """
    if "sha256" in spec and "sha256" in other:
        spec, other = (
            {k: v for k, v in s.items() if k not in PLACE + PRECISION} for s in (spec, other)
        )
    return spec == other
