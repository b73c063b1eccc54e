"""State: the committed state, without its sets of rows, stored as JSON in the manifest.

Certificate: the proved agreement of an index with exact search, for given queries.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.options import TABLE
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32, LARGEST_CENTER, STORED, Blocks, center_of
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.atomic_files import (
    ENDINGS,
    OUR_FILES,
    STORED_ENDINGS,
    FileRecord,
    file_name,
    vector_format,
)
from slimdex.system.json_text import READABLE, parse_json

from ..encoders.base import check_spec
from ..lexical.fusion import AUTO, OFF

FORMAT = 6
"""Version of the state and the folder's layout: see docs/file-format.md."""

MOST_DIM = 1 << 20
"""Largest accepted dimension of a vector."""
MOST_TRAILING = 256
"""Most rows after the files of columns: a small addition writes none. They are few, since each
query reads their records."""
LONGEST_TRAILING = 1 << 14
"""Longest record of such a row, in bytes."""
MOST_LATE = 64
"""Most last rows that the lexical index may lack: readers add their words in memory."""
CANT_REBUILD = "it can't be rebuilt: restore it from a copy"
_TYPES: dict[str, Any] = {"int": int, "float": int | float, "str": str, "bool": bool}
LARGEST = (1 << 62) - 1
"""Of all numbers of a state."""


@dataclass(frozen=True)
class ColumnFile(FileRecord):
    """An immutable Parquet file of the documents of the rows from `first` to before `stop`."""

    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True)
class LogFiles:
    """The two files of the log: see `Log`.

    Attributes
    ----------
    documents : name of the file of records.
    offsets : name of the file that says where each block of records is.
    bytes : committed size of the records.
    blocks : number of blocks of records.
    """

    documents: str = file_name("documents", 1)
    offsets: str = file_name("offsets", 1)
    bytes: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class Fit:
    """The last fit of reducer and codes: its settings, and the rows at that time.

    Attributes
    ----------
    documents : rows that it was fitted on: documents, or passages if texts are cut.
    rows : all rows at that time, also deleted ones; these are the ones before this number.
    is_provisional : whether it is to be made again, of other rows or by the requested settings.
    variance_kept, code_error : figures of `indexes.reducers.drift`, which some reducers and codes
        lack.
    """

    settings: Settings
    documents: int
    rows: int
    is_provisional: bool = False
    variance_kept: float | None = None
    code_error: float | None = None


@dataclass(frozen=True)
class Before:
    """The state before the last change, as far as undoing restores it.

    Attributes
    ----------
    version : of the commit before it.
    rows, deletions : its rows, and entries of the file of deletions.
    reducer : file of its reducer; None before the first fit.
    requested, hybrid : as in its state.
    lexical : whether words were indexed.
    """

    version: int
    rows: int
    deletions: int
    reducer: str | None
    requested: Settings
    hybrid: str | None
    lexical: bool


@dataclass(frozen=True)
class Replacement:
    """Vectors by another encoder, which replace the others once all documents have them.

    Row i of their file, which has `rows` so far, is the vector of row i.
    """

    encoder: dict[str, Any]
    dim: int
    vectors: str
    rows: int = 0
    center: str = ""


@dataclass(frozen=True)
class Certificate:
    """A lower bound of the mean agreement@10 with exact search in the index's own metric.

    Agreement is the share of the ten nearest that a search finds, so it measures the loss by
    compression. Recall of relevant documents is another matter and requires labels.

    Attributes
    ----------
    estimate : mean over the queries, 0 to 1.
    bound : lower bound of the mean over all such queries, wrong with probability `error`.
    error : 0 to 1.
    pool : description of the queries.
    queries : their number.
    rows : documents or passages that could be found when it was measured.
    target : the requested agreement, None if none was requested.
    """

    estimate: float
    bound: float
    error: float
    pool: str
    queries: int
    rows: int
    target: float | None = None

    @property
    def promised(self) -> float:
        """The requested agreement or, if none was requested, the proved bound."""
        return self.bound if self.target is None else self.target


@dataclass(frozen=True)
class State:
    """Committed state of an index.

    Attributes
    ----------
    encoder : the encoder's spec.
    dim : dimensions of its vectors.
    requested : the requested settings.
    fit : the current one; None before the first vectors.
    rows : rows of the documents visible to readers, including deleted ones.
    encoded : rows before this one have vectors; the others wait for theirs.
    log : the documents.
    flags, deletions : names of the files of `row_flags`.
    deletion_count : entries of the file of deletions.
    id_rows : rows before this one are in the file of ids.
    column_files : files of their columns, in the order of rows; the last rows may be in none.
    generation : incremented by every commit, and part of the names of its files.
    version : incremented by every commit.
    epoch : incremented when rows are renumbered or come back, or all vectors are replaced.
    vectors : name of the vector file, whose ending states its format.
    center : subtracted from vectors of int8 or int4 before they are stored: float16 in base64; ""
        for none.
    code_rows : rows before this one are in the file of codes.
    norms : name of the file of norms, None without rescoring.
    files : role (moments, reducer, rescorer, table, codes, ids, origins) -> file; origins if some
        differ from those in the log.
    moments_rows, moments_deletions : the file of moments counts the rows before this one that were
        live when there were so many deletions.
    before : the state before the last change; None if that can't be undone.
    origins : prefix of made-up ids, or of paths in a folder (these end with "/", or are empty) ->
        digest of the place of the file or folder.
    certificate : what was proved about the current settings; None without proof.
    passages : tokens of a passage; longer texts are cut. None: no text is cut.
    replacement : vectors by another encoder, until all documents have one.
    words : the folder of the lexical index, None without one.
    words_rows : rows whose words are in that folder; None for all.
    hybrid : the fusion that labels chose: "off", "auto", "rrf" or a weight; None without labels.
    building : whether the build that made the index has not entered all documents yet.
    """

    encoder: dict[str, Any]
    dim: int
    requested: Settings
    fit: Fit | None = None
    rows: int = 0
    encoded: int = 0
    log: LogFiles = LogFiles()
    flags: str = file_name("flags", 1)
    deletions: str = file_name("deletions", 1)
    deletion_count: int = 0
    id_rows: int = 0
    column_files: list[ColumnFile] = field(default_factory=list)
    generation: int = 1
    version: int = 1
    epoch: int = 0
    vectors: str = file_name("vectors", 1)
    center: str = ""
    code_rows: int = 0
    norms: str | None = None
    files: dict[str, FileRecord] = field(default_factory=dict)
    moments_rows: int = 0
    moments_deletions: int = 0
    before: Before | None = None
    origins: dict[str, str] = field(default_factory=dict)
    certificate: Certificate | None = None
    passages: int | None = None
    replacement: Replacement | None = None
    words: str | None = None
    words_rows: int | None = None
    hybrid: str | None = None
    building: bool = False

    @property
    def fusion(self) -> str:
        """Fusion that `hybrid="auto"` selects for this index.

        It is "off" without a lexical index; otherwise the fusion that labels chose or, without
        labels, "auto", which follows a rule.
        """
        if self.words is None:
            return OFF
        return self.hybrid or AUTO

    @property
    def column_rows(self) -> int:
        """Rows that are in files of columns."""
        return self.column_files[-1].stop if self.column_files else 0

    @property
    def settings(self) -> Settings | None:
        """The settings of the fit; None before the first one."""
        return self.fit.settings if self.fit else None

    @property
    def reducer(self) -> str | None:
        """Name of the reducer's file, another one after each fit; None before the first."""
        record = self.files.get("reducer")
        return record.name if record else None

    @property
    def is_provisional(self) -> bool:
        """Whether the fit is of the first rows only, and is to be made again of all."""
        return self.fit is not None and self.fit.is_provisional

    @property
    def waits(self) -> bool:
        """Whether rows wait for their vectors."""
        return self.encoded < self.rows

    @property
    def lexical_rows(self) -> int:
        """Rows whose words are in the folder of the lexical index."""
        return self.rows if self.words_rows is None else self.words_rows

    @property
    def fit_rows(self) -> int:
        """Rows that the reducer was fitted on."""
        return self.fit.documents if self.fit else 0

    @property
    def file_names(self) -> set[str]:
        """All files beside the manifest that belong to the index."""
        names = {name for _, name in self._roles()}
        if not self.rows:
            names -= {self.log.documents, self.log.offsets, self.flags}
        if not self.deletion_count:
            names.remove(self.deletions)
        if not self.encoded and self.fit is None:
            names.remove(self.vectors)
        return names

    @property
    def stored(self) -> str:
        """Format of the vectors, a name of `row_formats.STORED`."""
        return vector_format(self.vectors)

    def vector_file(self, folder: Path, rows: int | None = None) -> VectorFile:
        """The encoder's vectors, or the first `rows` of them, in the index's folder."""
        center = center_from(self.center, self.dim)
        rows = self.encoded if rows is None else rows
        return VectorFile(folder / self.vectors, self.dim, rows, STORED[self.stored], center)

    def target(self, replaces: bool) -> State | None:
        """This state or, if `replaces`, `replaced`."""
        return self.replaced() if replaces else self

    def replaced(self) -> State | None:
        """The state with the vectors by another encoder, not fitted yet; None without them."""
        new = self.replacement
        if new is None:
            return None
        return replace(
            self,
            encoder=new.encoder,
            dim=new.dim,
            vectors=new.vectors,
            center=new.center,
            encoded=new.rows,
            epoch=self.epoch + 1,
            replacement=None,
        )

    def norm_file(self, folder: Path) -> VectorFile | None:
        """The lengths of all rows in the rescoring metric; None without rescoring or rows."""
        if not self.norms or not self.encoded:
            return None
        return VectorFile(folder / self.norms, 1, self.encoded, FLOAT32)

    def new_name(self, held: str) -> str:
        """Name of a file that this commit writes, given its role."""
        ending = STORED_ENDINGS[self.stored] if held == "vectors" else None
        return file_name(held, self.generation, ending)

    def to_json(self) -> str:
        """Serialise for the manifest."""
        return json.dumps(vars(self), default=vars)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse; raises `CorruptError` if a field is missing, unknown or invalid."""
        with _refusing():  # the text is untrusted
            values = parse_json(text, READABLE)
            values["column_files"] = [ColumnFile(**file) for file in values["column_files"]]
            values["files"] = {role: FileRecord(**f) for role, f in values["files"].items()}
            for name, part in _PARTS.items():
                values[name] = _with_settings(part, values[name])
            state: Self = _with_settings(cls, values)
            state.check()
        return state

    def check(self) -> None:
        """Raise `CorruptError` for values that no state has, before one is committed or used.

        Files of these names are opened and removed: in an untrusted manifest they could lead
        elsewhere.
        """
        with _refusing():
            parts: list[Any] = [getattr(self, name) for name in _PARTS]
            for part in (self, *self.column_files, *self.files.values(), *filter(None, parts)):
                _check_types(part)
            for role, name in self._roles():
                match = OUR_FILES.fullmatch(name)
                if match is None or match[1] != role or match[2] not in ENDINGS[role] or match[3]:
                    raise ValueError(f"file {name!r}; expected {role}-000001 or a later one")
            self._check_numbers()

            # Encoders, and the files that other values require.
            for state in filter(None, (self, self.replaced())):
                check_spec(state.encoder)
                center_from(state.center, state.dim)
            if not all(isinstance(digest, str) for digest in self.origins.values()):
                raise TypeError("origins; expected texts")
            required = {"ids"} if self.id_rows else set()
            if self.fit is not None:
                required |= {"moments", "reducer", "codes"}
                if self.fit.settings.query_encoder == TABLE:
                    required.add("table")
            if self.norms is not None:
                required.add("rescorer")
            missing = required - self.files.keys()
            if missing:
                raise ValueError(f"no file of {min(missing)}")

    def _check_numbers(self) -> None:
        """Raise `ValueError` for numbers that do not suit each other."""
        rows = self.rows
        before = self.before
        least_words = rows - MOST_LATE if self.words else 0
        _check_number("moments_rows", self.moments_rows, 0, self.encoded)
        _check_number("code_rows", self.code_rows, 0, self.encoded)
        _check_number("moments_deletions", self.moments_deletions, 0, self.deletion_count)
        _check_number("words_rows", self.lexical_rows, least_words, rows)
        _check_number("blocks of documents", self.log.blocks, min(rows, 1), LARGEST)
        _check_number("rows of columns", self.column_rows, rows - MOST_TRAILING, rows)
        if before is not None:
            _check_number("rows before", before.rows, 0, rows)
            _check_number("deletions before", before.deletions, 0, self.deletion_count)
        for state in filter(None, (self, self.replaced())):
            _check_number("dim", state.dim, 1, MOST_DIM)
            _check_number("rows with vectors", state.encoded, 0, rows)

        # What else suits the vectors is checked by fitting.
        settings_before = before.requested if before else None
        for settings in (self.requested, self.settings, settings_before):
            if settings is not None and settings.k is not None:
                _check_number("k", settings.k, 1, self.dim)

        first = 0
        for file in self.column_files:
            if file.first != first or file.stop <= first:
                raise ValueError(f"{file.name}: row {file.first}; expected {first}")
            first = file.stop

    def _roles(self) -> list[tuple[str, str]]:
        """Role and name of each file, even if it has no rows yet."""
        new = self.replacement
        roles = [
            ("vectors", self.vectors),
            ("vectors", new.vectors if new else None),
            ("documents", self.log.documents),
            ("offsets", self.log.offsets),
            ("flags", self.flags),
            ("deletions", self.deletions),
            ("norms", self.norms),
            ("words", self.words),
            *(("columns", file.name) for file in self.column_files),
            *((role, record.name) for role, record in self.files.items()),
        ]
        return [(role, name) for role, name in roles if name is not None]


def center_text(file: str, vectors: Matrix) -> str:
    """Return the center of a file of int8 or int4 from its first vectors (n, dim); else "".

    Rows without a vector have zeros, and do not count.
    """
    vectors = vectors[vectors.any(axis=1)]
    if not isinstance(STORED[vector_format(file)], Blocks) or not len(vectors):
        return ""
    return b64encode(center_of(vectors).astype("<f2").tobytes()).decode()


def center_from(text: str, dim: int) -> NDArray[np.float32] | None:
    """Read a center (dim,) from base64; None for ""; raises `ValueError` if it is invalid."""
    if text == "":
        return None
    center = np.frombuffer(b64decode(text, validate=True), dtype="<f2").astype(np.float32)
    if len(center) != dim or not (np.abs(center) <= LARGEST_CENTER).all():
        raise ValueError(f"a center of {len(center)} numbers; expected {dim}")
    return center


_PARTS: dict[str, Any] = {
    "log": LogFiles,
    "fit": Fit,
    "before": Before,
    "replacement": Replacement,
    "certificate": Certificate,
}
"""Attributes of a state -> their classes; all but the log may be None."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Convert what invalid values raise to `CorruptError`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CorruptError(f"state in the manifest: {reason}") from error


def _with_settings(part: Any, values: Any) -> Any:
    """Parse a state, or a part of one, from JSON; null becomes None."""
    if values is None:
        return None
    for name in {"requested", "settings"} & values.keys():
        values[name] = Settings(**values[name])
    return part(**values)


def _check_number(name: str, value: int, least: int, most: int) -> None:
    """Raise `ValueError` if a number is beyond its limits."""
    if not least <= value <= most:
        raise ValueError(f"{name}={value}; expected {least} to {most}")


def _check_types(part: Any) -> None:
    """Raise `TypeError` unless the texts and whole numbers of a part of a state are such."""
    for each in fields(part):
        value = getattr(part, each.name)
        type_, _, optional = each.type.partition(" | ")
        if type_ not in _TYPES or (optional and value is None):
            continue
        if not isinstance(value, _TYPES[type_]) or (value is True and type_ != "bool"):
            raise TypeError(f"{each.name}={value!r}; expected {type_}")
        if type_ in ("int", "float"):
            _check_number(each.name, value, 0, LARGEST)
