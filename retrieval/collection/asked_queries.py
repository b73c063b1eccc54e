"""Asked queries: texts, or vectors of texts, as callers give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError, shortened

from ..encoders.base import Encoder, encode_queries


def one_query(query: str | Matrix) -> Sequence[str] | Matrix:
    """A query as one of many; raises `InputError` if it is neither a text nor a vector."""
    if isinstance(query, str):
        return [query]
    if getattr(query, "ndim", 0) != 1:
        raise InputError(f"query {_shown(query)}; expected a text or a vector (dim,)")
    return query[None]


def encoded_by(encoder: Callable[[], Encoder], queries: str | Sequence[str] | Matrix) -> Matrix:
    """Vectors (q, dim) of queries, which may be such already.

    Parameters
    ----------
    encoder : called if there are texts.

    Raises
    ------
    InputError
        If they are neither texts nor vectors.
    """
    if isinstance(queries, np.ndarray):
        return queries
    texts = [queries] if isinstance(queries, str) else queries
    if not isinstance(texts, Sequence) or isinstance(texts, bytes):
        raise InputError(f"queries {_shown(queries)}; expected texts or vectors (q, dim)")
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise InputError(f"query {_shown(wrong[0])}; expected texts or vectors (q, dim)")
    return encode_queries(encoder(), texts)


def _shown(value: Any) -> str:
    """The beginning of a value that is not what it should be."""
    return shortened(repr(value), 40) if len(repr(value)) > 40 else repr(value)
