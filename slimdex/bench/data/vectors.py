"""Vectors of texts: encoders on this machine, and what they encoded, on disk by its contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.encoders.base import Encoder, encode_queries, is_address
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.locks import FileLock

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.transformer import TransformerEncoder
    from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

    LocalEncoder = TransformerEncoder | StaticEncoder
    """An encoder whose speed and precision experiments can state."""

WINDOW = 1024
"""Texts encoded between two writes: at most this many are encoded again after a crash."""


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


def encoded(
    encoder: Encoder,
    texts: Sequence[str],
    folder: Path,
    stage: str = "encoding",
    *,
    queries: bool = False,
) -> VectorFile:
    """Encode texts to vectors (n, dim), float32, in a file named after encoder and texts.

    Existing vectors are kept; an interrupted run continues at the end of its file. Another process
    that needs the same ones waits for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encode = partial(encode_queries, encoder) if queries else encoder.encode
    path = folder / f"{content_key(encoder, texts, queries=queries)}.f32"
    row_bytes = encoder.dim * np.dtype(np.float32).itemsize
    with FileLock(folder, path.stem).held(inf):
        rows = path.stat().st_size // row_bytes if path.exists() else 0
        file = VectorFile(path, encoder.dim, rows, np.float32)
        for part in batches(len(texts), WINDOW, len(file)):
            file.append(encode(texts[part]))
            progress(stage, part.stop, len(texts))
    return file


def content_key(encoder: Encoder, texts: Sequence[str], *, queries: bool = False) -> str:
    """Shortened SHA-256 of everything that determines the vectors.

    If the weights have a checksum, the name of the model does not matter.
    """
    spec = encoder.spec()
    if spec.get("sha256"):
        spec.pop("model")
    if "prompts" in spec:
        spec["prompted as"] = "query" if queries else "document"
    digest = hashlib.sha256(json.dumps([spec, encoder.dim], sort_keys=True).encode())
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]
