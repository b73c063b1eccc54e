"""Given vectors: embeddings supplied by the user, one row per document, instead of encoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import LARGEST, SMALLEST, Matrix, Rows, array_of, as_matrix, batches
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal, one_file
from slimdex.system.index_names import no_file
from slimdex.system.json_text import parse_json

from .files.input_files import FileFormat, InputFile, ending_of, open_file, remove_later, temporary
from .tabular.table_files import READERS

ARRAY = ".npy"
ARCHIVE = ".npz"
"""Endings of numpy's files: one array, and several by name."""
IDS = "ids"
VECTORS = "vectors"
"""Names of the arrays in an archive: the documents' ids (optional) and vectors."""
CHUNK = 16_384
"""Rows of a Parquet column per read."""


class DocumentVectors(Protocol):
    """Vectors in the order of the documents."""

    @property
    def name(self) -> str:
        """Origin, for messages."""

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""

    def __len__(self) -> int: ...

    def rows(self, start: int, stop: int) -> Matrix:
        """Read rows from `start` to `stop` (exclusive), float32 (n, dim)."""


class ArrayVectors:
    """Vectors in an array (n, dim), which may be memory-mapped.

    `ids` (n,) are those of the rows' documents, if known. Raises `InputError` if the shape is
    different or the values are not numeric.
    """

    def __init__(
        self,
        array: NDArray[Any],
        name: str = "vectors",
        ids: NDArray[np.str_] | None = None,
    ) -> None:
        if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
            raise InputError(
                f"{name}: {array.dtype} of shape {array.shape}; expected numbers (documents, dim)"
            )
        self.name = name
        self._array = array
        self._ids = ids
        self.dim = int(array.shape[1])

    def __len__(self) -> int:
        return len(self._array)

    def rows(self, start: int, stop: int) -> Matrix:
        """Read rows from `start` to `stop` (exclusive), float32 (n, dim)."""
        return np.ascontiguousarray(self._array[start:stop], dtype=np.float32)

    def check_id(self, row: int, id: str) -> None:
        """Raise `InputError` if a row is known to belong to another document."""
        if self._ids is not None and row < len(self._ids) and str(self._ids[row]) != id:
            raise InputError(
                f"{self.name}: row {row + 1} has id {str(self._ids[row])!r}, document {row + 1} "
                f"has id {id!r}; expected rows in the order of the documents"
            )


class ColumnVectors:
    """Vectors in a column of tables, as lists of numbers; in CSV as JSON.

    Raises `InputError` if a file lacks the column, or its lists differ in length.
    """

    def __init__(self, paths: Sequence[Path], column: str) -> None:
        # Convert all tables to Parquet, since any of its rows can be read directly.
        self.name = f"column {column!r}"
        self._column = identifier(column)
        self._connection = connect()
        self._files = [self._as_parquet(open_file(str(path), path)) for path in paths]
        files = ", ".join(one_file(str(file.path)) for file in self._files)
        self._table = f"read_parquet([{files}])"

        # Check that all vectors have the same length.
        rows, present, least, most = self._fetch(
            f"SELECT count(*), count({self._column}), min(len({self._column})), "
            f"max(len({self._column})) FROM {self._table}"
        ).fetchall()[0]
        if not rows or present != rows or least != most:
            raise InputError(
                f"{self.name}: {rows - present} of {rows} rows empty, lists of {least} to {most} "
                "numbers; expected lists of equal length in every row"
            )
        self._length = int(rows)
        self.dim = int(most)

        # The rows read last: most reads begin in these.
        self._chunk: Matrix = np.empty((0, self.dim), dtype=np.float32)
        self._start = 0

    def __len__(self) -> int:
        return self._length

    def rows(self, start: int, stop: int) -> Matrix:
        """Read rows from `start` to `stop` (exclusive), float32 (n, dim); fastest in order."""
        parts = []
        while start < stop:
            # Read more rows, unless those read last contain the next one wanted.
            if not self._start <= start < self._start + len(self._chunk):
                self._chunk = self._read(start)
                self._start = start
            offset = start - self._start
            part = self._chunk[offset : offset + stop - start]
            parts.append(part)
            start += len(part)
        return np.concatenate(parts) if parts else self._chunk[:0]

    def _as_parquet(self, file: InputFile) -> InputFile:
        """Return a Parquet file for random access; other kinds are copied to one."""
        if file.ending == ".parquet":
            return file
        copy = replace(file, path=temporary())
        remove_later(copy)
        lists = f"SELECT {self._column}::FLOAT[] AS {self._column} FROM "
        lists += READERS[file.ending](file, {})
        self._fetch(f"COPY ({lists}) TO {literal(str(copy.path))} (FORMAT parquet)")
        return copy

    def _read(self, start: int) -> Matrix:
        """Read up to `CHUNK` rows, beginning with row `start`."""
        values = self._fetch(
            f"SELECT unnest({self._column}::FLOAT[]) AS x FROM "
            f"(SELECT {self._column} FROM {self._table} LIMIT {CHUNK} OFFSET {start})"
        ).fetchnumpy()["x"]
        if np.ma.isMaskedArray(values) and values.mask.any():
            raise InputError(f"{self.name}: an empty value in a list; expected numbers")
        return np.asarray(values, dtype=np.float32).reshape(-1, self.dim)

    def _fetch(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Run a statement; raise `InputError` with the first line of DuckDB's error."""
        try:
            return self._connection.execute(sql)
        except duckdb.Error as error:
            reason = " ".join(str(error).split("\n\n")[0].splitlines()[:1])
            raise InputError(f"{self.name}: {reason}; expected lists of numbers") from error


class ChosenVectors:
    """Some rows of given vectors, by their ascending numbers (n,)."""

    def __init__(self, vectors: DocumentVectors, chosen: Rows) -> None:
        self.name = vectors.name
        self.dim = vectors.dim
        self._vectors = vectors
        self._chosen = chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def rows(self, start: int, stop: int) -> Matrix:
        """Read rows from `start` to `stop` (exclusive), float32 (n, dim).

        At most `CHUNK` rows of all vectors are read at a time.
        """
        wanted = self._chosen[start:stop]
        out: Matrix = np.empty((len(wanted), self.dim), dtype=np.float32)
        chunks = wanted // CHUNK
        for chunk in np.unique(chunks).tolist():
            positions = np.flatnonzero(chunks == chunk)
            numbers = wanted[positions]
            first = int(numbers[0])
            last = int(numbers[-1])
            out[positions] = self._vectors.rows(first, last + 1)[numbers - first]
        return out


def as_vectors(vectors: Any) -> DocumentVectors:
    """Wrap a matrix as given vectors; return existing `DocumentVectors` unchanged.

    Raises `InputError` if it is not a numeric matrix.
    """
    if hasattr(vectors, "rows"):
        wrapped: DocumentVectors = vectors
        return wrapped
    try:
        return ArrayVectors(array_of(vectors))
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
        return ColumnVectors(paths, spec)

    # A NumPy file.
    path = Path(spec)
    if spec.endswith(ARCHIVE):
        return ArrayVectors(load_array(path, VECTORS), str(path), ids_in(path))
    return ArrayVectors(load_array(path), str(path))


def load_array(path: Path, member: str | None = None) -> NDArray[Any]:
    """Load a .npy file, memory-mapped, or an array of a .npz file.

    Raises `InputError` if the file or array does not exist or is malformed.
    """
    expected = f"a .npz file with {member!r}" if member else "a .npy file of numbers"
    try:
        if member is None:
            return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return np.asarray(archive[member])
    except FileNotFoundError as error:
        raise InputError(no_file(path)) from error
    except Exception as error:  # numpy parses the header as Python, which may raise anything
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: {reason}; expected {expected}") from error


def ids_in(path: Path) -> NDArray[np.str_] | None:
    """Load the ids in a .npz file, if any."""
    with np.load(path, allow_pickle=False) as archive:
        if IDS not in archive:
            return None
    ids = load_array(path, IDS)
    if ids.ndim != 1 or ids.dtype.kind != "U":
        raise InputError(f"{path}: {IDS!r} is {ids.dtype} {ids.shape}; expected strings (n,)")
    return ids


def read_query_vectors(spec: str) -> Matrix:
    """Read query vectors (q, dim) from a .npy file, or one vector from a JSON array.

    Raises `InputError` if the input is neither.

    >>> read_query_vectors("[3, 4.5]").tolist()
    [[3.0, 4.5]]
    """
    if spec.endswith(".npy"):
        return as_matrix(np.atleast_2d(load_array(Path(spec))), name=spec)
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
