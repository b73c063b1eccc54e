"""Export to FAISS: an index that reduces and encodes, and the ids of its rows."""

from __future__ import annotations

from pathlib import Path

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.reducers.layers import Dense, layers_of
from slimdex.indexes.reducers.linear import Linear
from slimdex.system.json_text import dump_json
from slimdex.system.progress import progress

from .selection import FULL, Selection

INDEX = "index.faiss"
IDS = "ids.jsonl"


def write(selection: Selection, folder: Path) -> None:
    """Write `index.faiss`, and `ids.jsonl` with a line for each of its rows.

    The index takes the encoder's vectors and reduces them itself. It ranks by codes alone, as
    ``search(candidates=0)`` does; full vectors are stored as float32 of unit length. The index is
    built in memory.

    Raises `InputError` for reduced vectors of a reducer that is not linear.
    """
    linear_map: Dense | None = None
    if selection.vectors == FULL:
        index = _fill(FaissIndex(FLAT, selection.dim, len(selection)), selection)
    else:
        linear_map = _front(selection)
        codes = selection.snapshot.index.index
        assert isinstance(codes, FaissIndex)
        # A subset is encoded again: a graph of all rows would lead through missing ones.
        is_all = len(selection) == len(codes)
        index = codes.copy() if is_all else _fill(codes.copy(empty=True), selection)
    weight = None if linear_map is None else linear_map.weight
    bias = None if linear_map is None else linear_map.bias
    index.with_transform(weight, bias).save(folder / INDEX)
    _write_ids(selection, folder / IDS)


def _front(selection: Selection) -> Dense | None:
    """Return the linear map from the encoder's vectors to the input of the codes.

    None if vectors are only normalised. Raises `InputError` for a reducer that is not linear.
    """
    reducer = selection.snapshot.index.reducer
    if not isinstance(reducer, Linear):
        raise InputError(
            f"to='faiss', reducer {reducer.name!r}: FAISS supports linear maps only; "
            "expected a linear reducer, or vectors='full'"
        )
    first = layers_of(reducer)[0]
    return first if isinstance(first, Dense) else None


def _fill(index: FaissIndex, selection: Selection) -> FaissIndex:
    """Add the vectors of the selected rows to an empty index, and return it."""
    for rows in selection.parts():
        X: Matrix = selection.take(rows)
        index.add(normalize_rows(X) if selection.vectors == FULL else X)
        progress("exporting", len(index), len(selection))
    return index


def _write_ids(selection: Selection, path: Path) -> None:
    """Write a JSON line per row: the document's id, and the passage's position."""
    with path.open("w", encoding="utf-8") as file:
        for rows in selection.parts():
            numbers = (rows - selection.firsts(rows)).tolist()
            for hit, number in zip(selection.hits(rows), numbers, strict=True):
                line = {"id": hit.id, "passage": number, "start": hit.start, "end": hit.end}
                file.write(dump_json(line) + "\n")
