"""Encoder protocols, and the specs by which an index names its encoder."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError, short_repr
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.system.json_text import dump_json

from ..passages import LEAST_TOKENS

AUTO = "auto"
OFF = "off"
ENCODER_PARTS = {"dim": "dim", "encode": "encode(texts)", "spec": "spec()"}
"""Required attributes of an encoder -> their signatures."""
PLACE = ("model", "revision", "url")
"""Keys of a spec that state a model's origin, not its identity."""
PRECISION = ("precision", "measured")
"""Keys of a spec that state numerical precision; vectors of any precision are comparable."""
FINGERPRINT_TEXTS = (
    "The cat sat on the mat.",
    "Prices rose by a third in the last quarter.",
    "for (int i = 0; i < n; i++) total += row[i];",
)
"""Texts whose vectors identify a model that is not on this machine."""
FINGERPRINT_DIMENSIONS = 64
"""First dimensions of each that are kept."""
SAME_COSINE = 0.99
"""Least cosine of the same model's vectors: servers round, batch and quantise differently."""
Lengths = NDArray[np.int64]
"""(n, 2): tokens of each text, and how many of them are encoded."""
LARGEST_NUMBER = 1 << 31
"""Limit of numbers in a spec."""
REQUIRED_FIELDS = {
    "given": ("dim",),
    "static": ("sha256", "pooling"),
    "transformer": ("model", "sha256", "pooling", "max_length", "precision"),
    "http": ("url", "model", "dim", "max_length", "fingerprint"),
}
"""Types of encoders that can be opened from a spec -> fields that are needed for that."""
FIELD_TYPES = {
    "dim": int,
    "dimensions": int,
    "head": list,
    "max_length": int,
    "prompts": list,
    "trust_remote_code": bool,
}
"""Fields that are no texts -> their types; lists are of texts."""


class Encoder(Protocol):
    """Interface that `Collection` requires of an encoder."""

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""

    def spec(self) -> dict[str, Any]:
        """Return the properties that comparable vectors must share, JSON-serialisable."""


@runtime_checkable
class LimitedEncoder(Protocol):
    """Encoder that truncates texts and reports their lengths."""

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Return vectors (n, dim), and each text's tokens and encoded tokens."""


@runtime_checkable
class CountingEncoder(Protocol):
    """Encoder that counts tokens, so that long texts can be cut into passages.

    Passages have at most `max_length` tokens, including special ones. If that is missing or None,
    the encoder reads texts of any length, and they are cut only on request.
    """

    def token_counts(self, texts: Sequence[str]) -> Sequence[int]:
        """Count the tokens of each document, including special ones, without truncation."""


def as_recorded(encoder: Encoder, spec: dict[str, Any]) -> Encoder:
    """Return the encoder in the precision that a spec records.

    It is returned unchanged if the spec records none, or the encoder has only one.
    """
    in_precision: Callable[[str], Encoder] | None = getattr(encoder, "in_precision", None)
    if in_precision is None or "precision" not in spec:
        return encoder
    return in_precision(spec["precision"])


def encode_queries(encoder: Encoder, texts: Sequence[str]) -> Matrix:
    """Encode queries to vectors (n, dim), by `encode_queries` if the encoder has it."""
    encode: Callable[[Sequence[str]], Matrix]
    encode = getattr(encoder, "encode_queries", encoder.encode)  # `isinstance` would be slow
    return encode(texts)


def several(texts: str | Sequence[str]) -> Sequence[str]:
    """Wrap a single str in a list; return other texts unchanged.

    >>> several("a cat"), several(["a cat", "a dog"])
    (['a cat'], ['a cat', 'a dog'])
    """
    return [texts] if isinstance(texts, str) else texts


def check_encoder(encoder: Any) -> Encoder:
    """Return a caller's encoder after checking its interface.

    Raises `InputError` if a part of the interface is missing.
    """
    name = type(encoder).__name__
    missing = [part for part in ENCODER_PARTS if not hasattr(encoder, part)]
    if missing:
        raise InputError(
            f"encoder {name} has no {' and no '.join(missing)}; expected "
            f"{', '.join(ENCODER_PARTS.values())}"
        )
    if not isinstance(encoder.dim, int | np.integer) or encoder.dim < 1:
        raise InputError(f"encoder {name}: dim={encoder.dim!r}; expected a positive integer")
    checked: Encoder = encoder
    return checked


def check_tokenizer(encoder: Encoder) -> None:
    """Raise `InputError` unless a token table can be fitted to an encoder's vectors."""
    if not hasattr(encoder, "plain_tokenizer"):
        raise InputError(
            f"query_encoder='table': encoder {type(encoder).__name__} has no plain_tokenizer(); "
            "expected a transformer"
        )


def is_address(model: str) -> bool:
    """Return whether a model's name is the URL of a server."""
    return model.startswith(("http://", "https://"))


def passage_tokens(requested: str | int | None, encoder: Encoder) -> int | None:
    """Return the most tokens of a passage; None if texts are not cut into passages.

    `requested` is "auto" for as many tokens as the encoder reads (None unless it has a limit and
    can count tokens); a number; or "off" or None.

    Raises `InputError` if it is invalid or out of range, or the encoder can't count.

    >>> passage_tokens("off", object())
    """
    if requested is None or requested == OFF:
        return None

    # By default, as many tokens as the encoder reads, unless that is too few for a passage.
    most: int | None = getattr(encoder, "max_length", None)
    can_count = isinstance(encoder, CountingEncoder)
    if requested == AUTO:
        can_cut = can_count and most is not None and most >= LEAST_TOKENS
        return most if can_cut else None

    # Otherwise a number of tokens, at most as many as the encoder reads.
    if type(requested) is not int:
        raise InputError(f"passages={requested!r}; expected auto, off or a number of tokens")
    if not can_count:
        raise InputError(
            f"passages={requested}: encoder {type(encoder).__name__} can't count tokens"
        )
    if requested < LEAST_TOKENS or (most is not None and requested > most):
        upper_limit = " or more" if most is None else f" to {most}, what the encoder reads"
        raise InputError(f"passages={requested}; expected {LEAST_TOKENS}{upper_limit}")
    return requested


def is_same_encoder(spec: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether vectors of two encoders, given by their specs, are comparable.

    Models on servers are compared by the fingerprints of their vectors, and models on this machine
    by the SHA-256 of their weights. Their location and precision may differ, but all other
    settings, such as the pooling, must be the same. Specs of other encoders must be equal.
    """
    if "fingerprint" in spec and "fingerprint" in other:
        cosine = fingerprint_cosine(spec["fingerprint"], other["fingerprint"])
        # A server may change its limit, or round differently.
        ignored = (*PLACE, "max_length", "fingerprint")
        return cosine >= SAME_COSINE and _without(spec, ignored) == _without(other, ignored)
    if "sha256" in spec and "sha256" in other:
        return _without(spec, PLACE + PRECISION) == _without(other, PLACE + PRECISION)
    return spec == other


def _without(spec: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a copy of a spec without some keys."""
    return {key: value for key, value in spec.items() if key not in keys}


def check_unchanged(encoder: Encoder, spec: dict[str, Any], *keys: str) -> None:
    """Raise `InputError` if an encoder's spec differs from that of an index in one of the keys."""
    loaded = encoder.spec()
    for key in keys:
        expected = spec.get(key)
        if expected is not None and loaded.get(key) != expected:
            raise InputError(
                f"model {loaded['model']!r} has {key} {loaded.get(key)}; the index was built with "
                f"{expected}"
            )


def fingerprint(vectors: Matrix) -> str:
    """Return the first dimensions of vectors (n, d) at unit length, as float16 in base64."""
    beginnings = normalize_rows(vectors)[:, :FINGERPRINT_DIMENSIONS]
    return b64encode(beginnings.astype("<f2").tobytes()).decode()


def fingerprint_cosine(one: str, other: str) -> float:
    """Return the least cosine of the vectors in two fingerprints; 0 if they differ in size.

    >>> one, other = (fingerprint(np.eye(3, 8, k, np.float32)) for k in (0, 1))
    >>> fingerprint_cosine(one, one), fingerprint_cosine(one, other)
    (1.0, 0.0)
    """
    first = np.frombuffer(b64decode(one), dtype="<f2").astype(np.float32)
    second = np.frombuffer(b64decode(other), dtype="<f2").astype(np.float32)
    if len(first) != len(second):
        return 0.0
    rows = len(FINGERPRINT_TEXTS)
    a = normalize_rows(first.reshape(rows, -1))
    b = normalize_rows(second.reshape(rows, -1))

    # A text without known words has the zero vector; two zero vectors count as equal.
    both_zero = ~(a.any(axis=1) | b.any(axis=1))
    return float(np.where(both_zero, 1.0, np.vecdot(a, b)).min())


def is_loadable(spec: dict[str, Any]) -> bool:
    """Return whether an encoder can be opened from its spec; a function can't."""
    kind = spec.get("type")
    return isinstance(kind, str) and kind in REQUIRED_FIELDS


def check_spec(spec: Any) -> None:
    """Raise `TypeError` or `ValueError` unless a spec could be that of an index's encoder.

    Fields are checked only for encoders of slimdex; encoders of other types are the user's own.
    """
    if not isinstance(spec, dict):
        raise TypeError(f"encoder {short_repr(spec)}; expected an object")
    dump_json(spec)  # raises an error if it is nested too deeply
    for name, value in spec.items() if is_loadable(spec) else ():
        type_ = FIELD_TYPES.get(name, str)
        if value is not None and not _is_plain(value, type_):
            raise TypeError(f"encoder with {name}={short_repr(value)}; expected {type_.__name__}")


def check_whole(spec: dict[str, Any]) -> None:
    """Raise `CorruptError` if a spec lacks a field that is required to open the encoder."""
    required = REQUIRED_FIELDS[spec["type"]] if is_loadable(spec) else ()
    missing = [name for name in required if spec.get(name) is None]
    if missing or len(spec.get("prompts", ("", ""))) != 2:
        raise CorruptError(f"encoder {short_repr(spec)}: no {', '.join(missing) or 'two prompts'}")


def _is_plain(value: Any, type_: type) -> bool:
    """Return whether a value of a spec has its type, and is nothing that would fail elsewhere.

    Texts are valid Unicode without NUL, and numbers are positive and small enough.
    """
    actual: type = type(value)
    if actual is not type_:
        return False
    if isinstance(value, list):
        return all(_is_plain(text, str) for text in value)
    if isinstance(value, str):  # half of a surrogate pair can't be written as UTF-8
        return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    is_number = isinstance(value, int) and 1 <= value < LARGEST_NUMBER
    return isinstance(value, bool) or is_number
