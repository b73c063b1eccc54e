"""Fitted numbers on disk: one safetensors file, its JSON in the header. Never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .errors import CorruptError
from .json_text import parsed, written

HEADER_LENGTH, ALIGNMENT = 8, 8
"""Bytes before the header, which tell its length; and what that is a multiple of."""
Arrays = dict[str, NDArray[Any]]


def save_tensors(path: Path, kind: str, params: dict[str, Any], arrays: Arrays) -> None:
    """Write `arrays` with ``{"kind": kind, "params": params}`` in the file's header."""
    header = {"kind": kind, "params": written(params)}
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # Not `save_file`: it writes to a private file of its own, which a kill would leave behind.
    path.write_bytes(_ordered(save(whole, metadata=header)))


def _ordered(data: bytes) -> bytes:
    """A safetensors file whose metadata stand in order: the same numbers make the same bytes.

    The library puts them in an order that changes from one call to the next.
    """
    start = HEADER_LENGTH + int.from_bytes(data[:HEADER_LENGTH], "little")
    header = json.dumps(json.loads(data[HEADER_LENGTH:start]), sort_keys=True).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    return len(header).to_bytes(HEADER_LENGTH, "little") + header + data[start:]


def load_tensors(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    """Read what `save_tensors` wrote: ``(kind, params, arrays)``.

    Raises
    ------
    CorruptError
        If the file is no safetensors file of ours.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        params = parsed(header["params"])
    # numpy has no type for some tensors; the rest is what broken JSON can raise
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"{path}: not a slimdex tensor file ({error})") from error
    if not isinstance(params, dict):
        raise CorruptError(f"{path}: parameters {params!r:.80}; expected names and values")
    return header["kind"], params, arrays


def check_tensor(
    path: Path, name: str, array: NDArray[Any], shape: tuple[int | None, ...], dtype: DTypeLike
) -> None:
    """Raise `CorruptError` unless an array has this shape (None: any), type, and finite numbers."""
    fits = len(array.shape) == len(shape) and all(
        expected is None or (type(expected) is int and expected == found)
        for expected, found in zip(shape, array.shape, strict=False)
    )
    if not fits or array.dtype != dtype:
        raise CorruptError(
            f"{path}: {name} is {array.dtype} {array.shape}; expected {np.dtype(dtype)} {shape}"
        )
    if not np.isfinite(array).all():
        raise CorruptError(f"{path}: {name} has NaN or infinity; expected finite numbers")
