"""FAISS: codes behind the reducer, as plain FAISS reads them, with the ids beside them."""

from __future__ import annotations

from pathlib import Path

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import written
from slimdex.indexes.kinds import FLAT
from slimdex.indexes.layers import Dense, layers_of
from slimdex.indexes.linear import Linear
from slimdex.indexes.progress import progress
from slimdex.indexes.vector_index import FaissIndex

from .selection import FULL, Selection

INDEX, IDS = "index.faiss", "ids.jsonl"


def write(selection: Selection, folder: Path) -> list[str]:
    """Fill a folder with `index.faiss`, and `ids.jsonl`, which has a line for each of its numbers.

    The index takes vectors as the encoder gives them and maps them itself. It answers by the codes
    alone, as ``search(candidates=0)`` does; full vectors it keeps as float32 of unit length. It is
    in memory while it is written. Returns no notes.

    Raises
    ------
    InputError
        For a reducer that is not linear, and reduced vectors.
    """
    is_full = selection.vectors == FULL
    front = None if is_full else _front(selection)
    index = _flat(selection) if is_full else _coded(selection)
    weight, bias = (None, None) if front is None else (front.weight, front.bias)
    index.behind(weight, bias).save(folder / INDEX)
    _write_ids(selection, folder / IDS)
    return []


def _front(selection: Selection) -> Dense | None:
    """The linear map before the codes; None where vectors are only brought to unit length."""
    reducer = selection.snapshot.index.reducer
    if not isinstance(reducer, Linear):
        raise InputError(
            f"to='faiss', reducer {reducer.name!r}: FAISS maps vectors linearly; expected a "
            "linear reducer, or vectors='full'"
        )
    first = layers_of(reducer)[0]
    return first if isinstance(first, Dense) else None


def _coded(selection: Selection) -> FaissIndex:
    """The codes of the selected rows, numbered from 0; a graph of some rows is made anew."""
    index = selection.snapshot.index.index
    assert isinstance(index, FaissIndex)
    if len(selection) == len(index):
        return index.copy()
    return _filled(index.copy(empty=True), selection)


def _flat(selection: Selection) -> FaissIndex:
    return _filled(FaissIndex(FLAT, selection.dim, len(selection)), selection)


def _filled(index: FaissIndex, selection: Selection) -> FaissIndex:
    for rows in selection.parts():
        X: Matrix = selection.take(rows)
        index.add(normalize_rows(X) if selection.vectors == FULL else X)
        progress("exporting", len(index), len(selection))
    return index


def _write_ids(selection: Selection, path: Path) -> None:
    """A line of JSON a row: the document's id, and where texts are cut the passage's place."""
    with path.open("w", encoding="utf-8") as file:
        for rows in selection.parts():
            if not selection.is_cut:
                file.writelines(written({"id": id}) + "\n" for id in selection.ids(rows))
                continue
            numbers = (rows - selection.firsts(rows)).tolist()
            for hit, number in zip(selection.hits(rows), numbers, strict=True):
                line = {"id": hit.id, "passage": number, "start": hit.start, "end": hit.end}
                file.write(written(line) + "\n")
