"""Weights in safetensors, memory-mapped and read as float32."""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.errors import InputError

from ...sentence_folder import Dense, Normalize

Array = NDArray[np.float32]

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types of safetensors that are read -> numpy's; bfloat16 as its bits."""
OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
"""Endings of normalisation weights in old checkpoints -> today's."""
SINGLE = "model.safetensors"
TINY = 1e-12
"""Least length that a vector is divided by."""


class Weights:
    """Tensors of a model by name.

    Float32 arrays are views of the files; they stay valid as long as they are referenced.

    Parameters
    ----------
    files : safetensors files, each with some of the tensors.
    prefix : of names in checkpoints that have more than the encoder, such as ``bert.``.

    Raises
    ------
    ValueError
        If a file is malformed, or a tensor is missing or not made of floats.
    """

    def __init__(self, files: list[Path], prefix: str = "") -> None:
        self._tensors = dict[str, tuple[Path, mmap.mmap, int, Any]]()
        for path in files:
            self._open(path, prefix)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Array:
        if name not in self._tensors:
            raise ValueError(f"no weights for {name}")
        path, data, start, about = self._tensors[name]
        try:
            kind = np.dtype(DTYPES[about["dtype"]])
            begin, end = about["data_offsets"]
            shape = tuple(about["shape"])
            array = np.frombuffer(data, kind, (end - begin) // kind.itemsize, start + begin)
            array = array.reshape(shape)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {name} {about!r}; expected a tensor of floats") from error
        if about["dtype"] == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32, copy=False)

    def get(self, name: str) -> Array | None:
        """Return a tensor; None if it is missing."""
        return None if name not in self._tensors else self[name]

    def _open(self, path: Path, prefix: str) -> None:
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, path.stat().st_size)))
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            header.pop("__metadata__", None)
            for name, about in header.items():
                for old, new in OLD_ENDINGS.items():
                    if name.endswith(old):
                        name = name.removesuffix(old) + new
                self._tensors[name.removeprefix(prefix)] = (path, data, 8 + size, about)
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path}: {error}; expected safetensors") from error


def weight_files(folder: Path) -> list[Path]:
    """Files of a folder's weights: one, or several that each hold some of the tensors."""
    single = folder / SINGLE
    return [single] if single.exists() else sorted(folder.glob("*.safetensors"))


def head_width(columns: int, head: Sequence[Dense | Normalize]) -> int:
    """Dimensions of vectors (batch, columns) after the head.

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            columns = len(dense(part, columns)[0])
    return columns


def dense(part: Dense, columns: int) -> tuple[Array, Array | None]:
    """Read weight (out, columns) and bias (out,), if any, of a Dense.

    Raises `InputError` if they are malformed or do not fit.
    """
    try:
        weights = Weights([part.weights])
    except ValueError as error:
        raise InputError(str(error)) from error
    weight = weights.get("linear.weight")
    if weight is None or weight.ndim != 2 or weight.shape[1] != columns:
        shape = None if weight is None else weight.shape
        raise InputError(f"{part.weights}: linear.weight {shape}; expected (any, {columns})")
    bias = weights.get("linear.bias")
    if bias is not None and bias.shape != (len(weight),):
        raise InputError(f"{part.weights}: bias {bias.shape}; expected ({len(weight)},)")
    return weight, bias
