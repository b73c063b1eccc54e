"""Hits and documents as JSON, for the command line and the service."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from .documents import Document, Hit


def hit_json(hit: Hit) -> dict[str, Any]:
    """Convert a hit to JSON-serialisable values."""
    return {
        "id": hit.id,
        "score": round(hit.score, 6),
        "title": hit.title,
        "text": hit.text,
        "start": hit.start,
        "end": hit.end,
        "line": hit.line,
        "page": hit.page,
        "headings": list(hit.headings),
        "anchor": hit.anchor,
        "found_by": hit.found_by,
        "metadata": dict(hit.metadata),
    }


def hit_from_json(said: Mapping[str, Any]) -> Hit:
    """Convert the result of `hit_json` back to a hit; metadata keep JSON's types.

    >>> hit_from_json(hit_json(Hit("7", 0.5, "It rained.")))
    Hit('7', 0.500, 'It rained.')
    """
    return Hit(**said)


def document_json(document: Document) -> dict[str, Any]:
    """Convert a document, with its parts and passages."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": dict(document.metadata),
        "parts": [
            {
                "start": part.start,
                "headings": list(part.headings),
                "page": part.page,
                "anchor": part.anchor,
            }
            for part in document.parts
        ],
        "passages": [{"start": start, "end": end} for start, end in document.passages],
    }


def json_of(value: dict[str, Any], *, ensure_ascii: bool = False) -> str:
    """Serialise as JSON: NaN and infinity as null, bytes as base64, other types as text.

    >>> json_of({"score": float("nan"), "raw": b"ok"})
    '{"score": null, "raw": "b2s="}'
    """
    try:
        return json.dumps(value, default=_other, ensure_ascii=ensure_ascii, allow_nan=False)
    except (TypeError, ValueError):  # a key that is not text, or NaN or infinity
        value = _finite(value)
    return json.dumps(value, default=_other, ensure_ascii=ensure_ascii, allow_nan=False)


def _other(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        return str(value).replace(",", "")  # as DuckDB reads it, too: "3 days 0:00:02"
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
