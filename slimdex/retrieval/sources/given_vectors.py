"""Given vectors: embeddings supplied by the user, one row per document, instead of encoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import LARGEST, SMALLEST, Matrix, Rows, array_of, as_matrix, batches
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal, one_file
from slimdex.system.index_names import no_file
from slimdex.system.json_text import parse_json

from .files.input_files import FileFormat, ending_of, open_file, temporary
from .tabular.table_files import READERS

ARRAY = ".npy"
ARCHIVE = ".npz"
"""Endings of numpy's files: one array, and several by name."""
IDS = "ids"
VECTORS = "vectors"
"""Names of the arrays in an archive: the documents' ids (optional) and vectors."""
CHUNK = 16_384
"""Rows of a Parquet column per read."""


class DocumentVectors:
    """Vectors in the order of the documents: an array (n, dim), which may be memory-mapped.

    `ids` (n,) are those of the rows' documents, if known, and `chosen` the rows that count; by
    default all. Raises `InputError` if the shape is different or the values are not numeric.
    """

    def __init__(
        self,
        array: NDArray[Any],
        name: str = "vectors",
        ids: NDArray[np.str_] | None = None,
        chosen: Rows | None = None,
    ) -> None:
        if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
            raise InputError(
                f"{name}: {array.dtype} of shape {array.shape}; expected numbers (documents, dim)"
            )
        self.name = name
        self.dim = int(array.shape[1])
        self._array = array
        self._ids = ids
        self._chosen = np.arange(len(array)) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def rows(self, start: int, stop: int) -> Matrix:
        """Read rows from `start` to `stop` (exclusive), float32 (n, dim)."""
        return np.ascontiguousarray(self._array[self._chosen[start:stop]], dtype=np.float32)

    def take(self, rows: Rows) -> DocumentVectors:
        """The vectors of some rows."""
        return DocumentVectors(self._array, self.name, self._ids, self._chosen[rows])

    def check_id(self, row: int, id: str) -> None:
        """Raise `InputError` if a row is known to belong to another document."""
        if self._ids is not None and row < len(self._ids) and str(self._ids[row]) != id:
            raise InputError(
                f"{self.name}: row {row + 1} has id {str(self._ids[row])!r}, document {row + 1} "
                f"has id {id!r}; expected rows in the order of the documents"
            )


def _column_vectors(paths: Sequence[Path], column: str) -> DocumentVectors:
    """Copy vectors in a column of tables, which are lists of numbers, to an array on disk.

    Raises `InputError` if a file lacks the column, or its lists differ in length.
    """
    name = f"column {column!r}"
    quoted = identifier(column)
    files = [open_file(str(path), path) for path in paths]
    lists = [f"SELECT {quoted}::FLOAT[] AS v FROM {READERS[f.ending](f, {})}" for f in files]
    packed = temporary()
    try:
        # Parquet, of which any rows can be read directly.
        connection = connect()
        connection.execute(
            f"COPY ({' UNION ALL '.join(lists)}) TO {literal(str(packed))} (FORMAT parquet)"
        )
        table = f"read_parquet({one_file(str(packed))})"
        sql = f"SELECT count(*), count(v), min(list_count(v)), max(len(v)) FROM {table}"
        ((rows, present, least, most),) = connection.execute(sql).fetchall()
        if not rows or present != rows or least != most:
            raise InputError(
                f"{name}: {rows - present} of {rows} rows empty, lists of {least} to {most} "
                "numbers; expected lists of equal length in every row"
            )
        with TemporaryFile(dir=temporary_parent()) as file:
            array = np.memmap(file, np.float32, "w+", shape=(rows, most))
        for part in batches(rows, CHUNK):
            sql = f"SELECT v FROM {table} LIMIT {CHUNK} OFFSET {part.start}"
            values = connection.execute(f"SELECT unnest(v) AS x FROM ({sql})").fetchnumpy()["x"]
            array[part] = values.reshape(-1, most)
        return DocumentVectors(array, name)
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:1])
        raise InputError(f"{name}: {reason}; expected lists of numbers") from error
    finally:
        packed.unlink()


def as_vectors(vectors: Any) -> DocumentVectors:
    """Wrap a matrix as given vectors; return existing `DocumentVectors` unchanged.

    Raises `InputError` if it is not a numeric matrix.
    """
    if isinstance(vectors, DocumentVectors):
        return vectors
    try:
        return DocumentVectors(array_of(vectors))
    except (TypeError, ValueError) as error:
        raise InputError(f"vectors: {error}; expected numbers (documents, dim)") from error


def open_vectors(spec: str, sources: Sequence[str]) -> DocumentVectors:
    """Open vectors named on the command line: a file, or a column of the sources.

    Raises `InputError` if the file or column does not exist, or is not a numeric matrix.
    """
    # A column that all sources have.
    if not spec.endswith((ARRAY, ARCHIVE)):
        paths = [*map(Path, sources)]
        for path in paths:
            if not path.is_file() or ending_of(path, FileFormat()) not in READERS:
                raise InputError(
                    f"vectors={spec!r}, source {str(path)!r}; expected a .npy or .npz file, or "
                    "a column of Parquet, JSONL or CSV sources"
                )
        return _column_vectors(paths, spec)

    # A NumPy file.
    arrays = load_arrays(Path(spec))
    ids = arrays.get(IDS)
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind != "U"):
        raise InputError(f"{spec}: {IDS!r} is {ids.dtype} {ids.shape}; expected strings (n,)")
    return DocumentVectors(arrays[VECTORS], spec, ids)


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Load a .npy file, memory-mapped, as `VECTORS`, or these and the `IDS` of a .npz file.

    Raises `InputError` if the file or array does not exist or is malformed.
    """
    try:
        if path.suffix != ARCHIVE:
            return {VECTORS: np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))}
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in (VECTORS, *({IDS} & {*archive}))}
    except FileNotFoundError as error:
        raise InputError(no_file(path)) from error
    except Exception as error:  # numpy parses the header as Python, which may raise anything
        reason = " ".join(str(error).split())[:200]
        expected = f"a .npz file with {VECTORS!r}, or a .npy file of numbers"
        raise InputError(f"{path}: {reason}; expected {expected}") from error


def read_query_vectors(spec: str) -> Matrix:
    """Read query vectors (q, dim) from a .npy file, or one vector from a JSON array.

    Raises `InputError` if the input is neither.

    >>> read_query_vectors("[3, 4.5]").tolist()
    [[3.0, 4.5]]
    """
    if spec.endswith(".npy"):
        return as_matrix(np.atleast_2d(load_arrays(Path(spec))[VECTORS]), name=spec)
    name = f"vector {shorten(spec)}"
    try:
        values = parse_json(spec)
    except ValueError:
        values = None
    if not isinstance(values, list) or not values:
        raise InputError(f"{name}; expected a .npy file or a JSON array")
    return as_matrix(values if isinstance(values[0], list) else [values], name=name)


def check_vectors(vectors: DocumentVectors) -> None:
    """Check every value before any is stored.

    Raises `InputError` for NaN, infinity, or a value outside the range of half precision, the
    storage format.
    """
    for part in batches(len(vectors)):
        X = vectors.rows(part.start, part.stop)
        wrong = ~(np.abs(X) <= LARGEST)  # NaN compares as false
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(
                f"{vectors.name}: row {part.start + row + 1}, value {column + 1} is "
                f"{X[row, column]:g}; expected finite numbers up to {LARGEST:g} (counted from 1)"
            )

        # Refuse rows that would be stored as zeros.
        largest = np.abs(X).max(axis=1)
        faint = (largest > 0) & (largest < SMALLEST)
        if faint.any():
            row = int(np.argmax(faint))
            raise InputError(
                f"{vectors.name}: row {part.start + row + 1} has no value above "
                f"{largest[row]:g}; expected some of at least {SMALLEST:g}, the least of half "
                "precision (scaling a row changes no cosine)"
            )
