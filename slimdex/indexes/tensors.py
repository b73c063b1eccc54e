"""Fitted arrays on disk: a safetensors file with JSON in its header, never pickle."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from slimdex.errors import CorruptError
from slimdex.system.json_text import dump_json, parse_json

HEADER_LENGTH = 8
ALIGNMENT = 8
"""Bytes of the header's length field; alignment of the header."""
Arrays = dict[str, NDArray[Any]]


def save_tensors(path: Path, kind: str, params: dict[str, Any], arrays: Arrays) -> None:
    """Write `arrays` with ``{"kind": kind, "params": params}`` in the file's header."""
    header = {"kind": kind, "params": dump_json(params)}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # Not `save_file`: it writes a temporary file, which a killed process would leave behind.
    path.write_bytes(_sort_metadata(save(contiguous, metadata=header)))


def _sort_metadata(data: bytes) -> bytes:
    """Sort the metadata of a safetensors file, so that equal arrays give equal bytes.

    The library's own order changes from call to call. A file consists of the length of its
    header, the header in JSON, padded with spaces, and the arrays.
    """
    start = HEADER_LENGTH + int.from_bytes(data[:HEADER_LENGTH], "little")
    header = json.dumps(json.loads(data[HEADER_LENGTH:start]), sort_keys=True).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    return len(header).to_bytes(HEADER_LENGTH, "little") + header + data[start:]


def load_tensors(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    """Load a file written by `save_tensors`: ``(kind, params, arrays)``.

    Raises `CorruptError` if it is not such a file.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        params = parse_json(header["params"])
    # TypeError: a tensor type that numpy lacks; the others: malformed JSON
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CorruptError(f"{path}: not a slimdex tensor file ({error})") from error
    if not isinstance(params, dict):
        raise CorruptError(f"{path}: parameters {params!r:.80}; expected names and values")
    return header["kind"], params, arrays


def parameters(fitted: Any) -> dict[str, Any]:
    """Constructor arguments of a reducer, which keeps them as attributes of the same names.

    >>> from slimdex.indexes.reducers.linear import Whitening
    >>> parameters(Whitening(128, gamma=0.5))
    {'n_components': 128, 'beta': 0.0, 'gamma': 0.5}
    """
    return {name: getattr(fitted, name) for name in signature(type(fitted)).parameters}


def save_fitted(path: Path, fitted: Any, arrays: Arrays) -> None:
    """Write a fitted reducer's name, parameters and arrays."""
    save_tensors(path, fitted.name, parameters(fitted), arrays)


def load_fitted(path: Path, cls: Any, names: set[str] | None = None) -> tuple[Any, Arrays]:
    """Construct a reducer written by `save_fitted`; return it and its arrays.

    Raises `CorruptError` if the file contains another class, other arrays than `names`, or unknown
    parameters.
    """
    kind, params, arrays = load_tensors(path)
    has_other_arrays = names is not None and names != set(arrays)
    if kind != cls.name or has_other_arrays:
        raise CorruptError(f"{path}: holds {kind!r}; expected the reducer {cls.name!r}")
    try:
        return cls(**params), arrays
    except TypeError as error:
        raise CorruptError(f"{path}: {error}; expected parameters of {cls.name!r}") from error


def check_tensor(
    path: Path, name: str, array: NDArray[Any], shape: tuple[int | None, ...], dtype: DTypeLike
) -> None:
    """Raise `CorruptError` unless an array is finite and has this dtype and shape (None: any)."""
    # An expected size may come from a file and have any type: 1.0 equals 1.
    fits = len(array.shape) == len(shape) and all(
        expected is None or (type(expected) is int and expected == size)
        for expected, size in zip(shape, array.shape, strict=False)
    )
    if not fits or array.dtype != dtype:
        raise CorruptError(
            f"{path}: {name} is {array.dtype} {array.shape}; expected {np.dtype(dtype)} {shape}"
        )
    if not np.isfinite(array).all():
        raise CorruptError(f"{path}: {name} has NaN or infinity; expected finite numbers")
