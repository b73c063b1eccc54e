"""Export to NPZ: vectors and ids for numpy, written in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import DTypeLike, NDArray

from slimdex.indexes.execution.progress import progress

from ..sources.given_vectors import IDS, VECTORS
from .selection import Selection

PLACES = ("passages", "starts", "ends")
"""Further arrays if texts are cut: each passage's number and position in the text."""


def write(selection: Selection, path: Path) -> list[str]:
    """Write `vectors` (n, dim) float32 and `ids` (n,), uncompressed for memory-mapping.

    If texts are cut, also write `passages`, `starts` and `ends` (n,) int64. Returns no notes.
    """
    n = len(selection)
    with path.open("wb") as file, ZipFile(file, "w", ZIP_STORED) as archive:
        shape = (n, selection.dim)
        _write_array(archive, VECTORS, np.float32, shape, _vectors(selection))
        longest = max(len(id) for part in selection.parts() for id in selection.ids(part))
        width = np.dtype((np.str_, longest))
        _write_array(archive, IDS, width, (n,), _ids(selection, width))
        if selection.is_cut:
            places = np.concatenate([_places(selection, part) for part in selection.parts()])
            for name, column in zip(PLACES, places.T, strict=True):
                _write_array(archive, name, np.int64, (n,), [column])
    return []


def _vectors(selection: Selection) -> Iterator[NDArray[Any]]:
    done = 0
    for part in selection.parts():
        yield selection.take(part)
        done += len(part)
        progress("exporting", done, len(selection))


def _ids(selection: Selection, width: DTypeLike) -> Iterator[NDArray[Any]]:
    for part in selection.parts():
        yield np.array(selection.ids(part), dtype=width)


def _places(selection: Selection, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number, start and end (n, 3) of the rows' passages."""
    spans = [(hit.start, hit.end) for hit in selection.hits(rows)]
    return np.column_stack([rows - selection.firsts(rows), np.array(spans, dtype=np.int64)])


def _write_array(
    archive: ZipFile,
    name: str,
    dtype: DTypeLike,
    shape: tuple[int, ...],
    parts: Iterable[NDArray[Any]],
) -> None:
    """Write an array of known shape, part by part."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype=dtype).tobytes())
