"""Draft: the documents that a change adds, in a file that becomes a segment."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..atomic_files import file_name
from ..column_types import by_lower_name, type_of, types_of
from ..documents import OWN_COLUMNS, Document, Part, check_columns, content
from ..duckdb_library import duckdb, identifier
from ..passages import Passage
from .column_fit import BITS, MisfitError, as_stored, misfit, shown
from .columns import TEXTS, check_digits, has_lists, has_values, is_replaceable, wider
from .document_store import (
    AMONG,
    BETWEEN,
    COLUMNS_AT_ONCE,
    IDS_AT_ONCE,
    PLACE,
    DocumentStore,
)
from .engine import disk_errors, one_line
from .lines import (
    LONGEST_TRAILING,
    NONE_COMPRESSED,
    Compressed,
    DocumentFile,
    UnwritableError,
    line_of,
)
from .passages import Cut, DocumentRows, parts_written
from .segments import (
    CHANGED,
    FEW_ROWS,
    GONE,
    OWN,
    TABLES,
    Origins,
    attaching,
    published,
    unnested,
    views_of,
)
from .state import MOST_TRAILING, Segment

PLAIN = " USING COMPRESSION uncompressed"
"""Of columns of few documents: choosing a compression takes three quarters of a checkpoint."""
COLUMNS_FOR_NEW_TABLE = 100
"""Number of new columns from which a new table is cheaper: adding one costs as much as all before
it."""


@dataclass(frozen=True)
class Ready:
    """Few documents of an addition as they are stored, found out before its turn.

    Attributes
    ----------
    columns : the user's: name -> DuckDB type.
    values : id -> id, title, text and the columns' values of a document that its line restores.
    lines : these lines, compressed.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    lines: Compressed = NONE_COMPRESSED

    def has_values_of(self, columns: Mapping[str, str]) -> bool:
        """True if the values are those of these columns."""
        return bool(self.values) and [*self.columns.items()] == [*columns.items()]


class Draft(DocumentStore):
    """Documents of a commit, and those that the next one adds; for one thread.

    The file is made in `folder`, with the first columns or documents. Its tables in SQL are
    `documents` and `passages`. A few documents that lines restore exactly stay in memory, unless a
    query needs them before the commit; very few small ones trail.

    Attributes
    ----------
    ready : few documents as they were to be stored before the turn.
    """

    ready: Ready

    def __init__(self, base: DocumentStore, folder: Path) -> None:
        super().__init__(base.engine, base.manifest, base)
        self.readings = base.readings.begun()
        self._base, self._process = base, os.getpid()
        self._name = f"draft_{token_hex(4)}"  # others may be made at the same time
        self._documents, self._passages = (f"{self._name}.{table}" for table in TABLES)
        # A name of its own: DuckDB may have the file of a change that failed open for a while.
        self._file = folder / f"{file_name('segment', randbelow(10**12))}.tmp"
        self.columns: dict[str, str] = dict(base.columns)  # of all documents
        self._filled = set[str]()  # columns that are known to have values
        self._file_columns = dict[str, str]()
        self.new_origins: Origins | None = None  # all that differ from the segments'
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._expected = FEW_ROWS  # documents, or more
        self.ready = Ready()
        self._few: list[Document] | None = []  # the new documents, while these are few
        self._unwritten = list[list[Any]]()  # values of these, while no file has them
        self._has_cuts = False
        self._is_plain = False  # the file, which is compressed when it is merged
        self._is_shown = False  # by views of all columns and origins

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, which sees the changes."""
        self._write()
        if self._cursor is None and self.new_origins is None:
            with self._base.reading() as cursor:
                yield cursor
            return
        try:
            cursor = self._open()
            if not self._is_shown:
                self._show(cursor)
            yield cursor
        except duckdb.Error as error:
            raise self._read_error(error) from error

    def _make_gone(self) -> None:
        if self._cursor is None:
            self._base.live()

    @property
    def origins(self) -> Origins:
        """The origins that differ from those in the segments."""
        return super().origins if self.new_origins is None else self.new_origins

    def _open(self, columns: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
        """Return the connection; the first call creates the file, with these user's columns."""
        if self._cursor is None:
            if self.manifest.state.covered < self.rows:
                self._base.open()  # the transaction sees no tables that are made later
            with self._base.session() as session:
                self._cursor = session.cursor()
            self._cursor.execute(attaching(self._file, self._name, self._expected))
            self._cursor.execute("BEGIN TRANSACTION")
            for table, own in TABLES.items():
                if self._is_plain:
                    own = own.replace(",", f"{PLAIN},") + PLAIN
                all_columns = ", ".join([own, *(columns if table == "documents" else ())])
                self._cursor.execute(f"CREATE TABLE {self._name}.{table}({all_columns})")
        return self._cursor

    def _show(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make the tables and views that this connection sees."""
        changed, gone = [[*self.origins], [*self.origins.values()]], [self.deleted.tolist()]
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE changed AS FROM {CHANGED}", changed)
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE gone AS FROM {GONE}", gone)
        tables = [*self._base.tables(), (self._documents, self._file_columns)]
        views = views_of(tables, self.columns, "changed")
        for view, sql in views.items():
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {sql}")
        self._is_shown = True

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a change of the file's tables."""
        self._write()
        self._open().execute(sql, list(values))

    def finished(self, path: Path, first: int, stop: int, *, may_trail: bool) -> Segment | None:
        """Make the documents of the rows first .. stop a durable file; None if there are none, or
        they may trail and were not written.

        No query and no change may follow.
        """
        is_few = may_trail and stop - first <= MOST_TRAILING
        if first == stop or (is_few and (stop == self.rows or self._can_trail())):
            return None
        self._write()
        if self.manifest.state.covered < self.rows:
            *_, (name, columns) = self._base.tables()
            self._use({column.lower() for column in columns})
            self._execute(f"INSERT INTO {self._documents} BY NAME FROM {name}")
        # After an error, this query fails; `COMMIT` alone would roll back without an error.
        self._open().execute(f"SELECT count(*) FROM {self._documents}").fetchall()
        assert self._cursor is not None
        self._cursor.execute("COMMIT")
        self._cursor.execute(f"CHECKPOINT {self._name}")
        self._cursor.execute(f"DETACH {self._name}")
        self._cursor.close()
        self._cursor = None
        return published(self._file, path, first, stop)

    def remember(self, stop: int) -> None:
        """Add the ids of new documents, now committed up to row `stop`, to the known ones."""
        known, documents = self.hashes[0] if self.hashes else None, self._known(self.rows)
        if known and documents and (known.stop, known.epoch) == (self.rows, self.epoch):
            rows, ids = range(self.rows, stop), [each.id for each in documents]
            self.hashes[:] = [known.with_later(rows, ids, stop)]

    def discard(self) -> None:
        """Drop the documents; in a forked process, leave them to the other."""
        if os.getpid() != self._process:
            return
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            for sql in ("ROLLBACK", f"DETACH {self._name}"):
                with suppress(duckdb.Error):
                    cursor.execute(sql)
            with suppress(duckdb.Error):
                cursor.close()
        for left in self._file.parent.glob(f"{self._file.name}*"):
            with suppress(OSError):
                left.unlink()

    def insert(self, first_row: int, documents: Sequence[Document]) -> None:
        """Insert documents as rows first_row, first_row + 1, ...

        Metadata become columns, new ones typed by their values. A value that does not fit its
        column widens the column if that loses nothing.
        """
        restored = self._restored(documents)
        if restored is None:
            self._write()
            self._insert(first_row, documents)
        else:
            self._unwritten += restored
        self._keep(documents)

    def _restored(self, documents: Sequence[Document]) -> list[list[Any]] | None:
        """Values of documents that stay in memory, as lines restore them; None if these can't."""
        lines, count = self.manifest.state.lines, len(self._unwritten) + len(documents)
        is_known = self.ready.has_values_of(self.columns)
        if (
            self._cursor is not None
            or lines is None
            or not lines.fit(self.columns)
            or count > (FEW_ROWS if is_known else MOST_TRAILING)
        ):
            return None
        known = self.ready.values if is_known else {}
        try:
            return [known.get(each.id) or restorable(each, self.columns)[0] for each in documents]
        except (MisfitError, InputError, UnwritableError):
            return None

    def _can_trail(self) -> bool:
        """True if no file has the documents, and none has an origin or a long line."""
        return (
            self._cursor is None
            and not self._has_origins()
            and all(len(line_of(values)) <= LONGEST_TRAILING for values in self._unwritten)
        )

    def _has_origins(self) -> bool:
        """True if documents in memory have origins."""
        return any(document.origin for document in self._few or ())

    def _write(self) -> None:
        """Write the documents in memory to the file."""
        documents, unwritten, self._unwritten = self._few, self._unwritten, []
        if unwritten:
            assert documents is not None
            self._is_plain = True
            self._insert(self.rows, documents)

    def _insert(self, first_row: int, documents: Sequence[Document]) -> None:
        """Insert documents into the file."""
        self._expected = len(documents)
        metadata = [by_lower_name(document) for document in documents]
        self._ensure(types_of(metadata, self._settled))
        self._use({name for values in metadata for name in values})
        values: list[tuple[str, str, list[Any]]] = [
            ("row", "BIGINT", list(range(first_row, first_row + len(documents)))),
            ("id", "VARCHAR", [d.id for d in documents]),
            ("title", "VARCHAR", [d.title for d in documents]),
            ("text", "VARCHAR", [d.text for d in documents]),
            ("slimdex_origin", "VARCHAR", [d.origin or None for d in documents]),
        ]
        for column in list(self._file_columns):
            given = [m.get(column.lower(), ("", None))[1] for m in metadata]
            values.append((column, *self._stored(column, given, documents)))
        sql, columns = unnested(values)
        parts = {first_row + i: Cut(parts=d.parts) for i, d in enumerate(documents) if d.parts}
        try:
            self._execute(f"INSERT INTO {self._documents} BY NAME {sql}", columns)
            self.insert_cuts(parts)
        except disk_errors():
            raise
        except (duckdb.Error, TypeError, OverflowError) as error:
            raise InputError(
                f"{misfit(documents, values[5:])}a column's value does not fit its type: "
                f"{one_line(error)}"
            ) from error

    def _keep(self, documents: Sequence[Document]) -> None:
        """Keep new documents in memory, while they are few."""
        if self._few is not None:
            self._few += documents
            if len(self._few) > FEW_ROWS:
                self._few = None

    def _known(self, start: int, stop: int | None = None) -> Sequence[Document] | None:
        """New documents of the rows start .. stop; None unless they are in memory and uncut."""
        if self._few is None or self._has_cuts or start < self.rows:
            return None
        return self._few[start - self.rows : None if stop is None else stop - self.rows]

    def _stored(
        self, column: str, values: Sequence[Any], documents: Sequence[Document]
    ) -> tuple[str, list[Any]]:
        """Return a column's type, possibly widened, and its values converted for DuckDB."""
        stored, type_ = list[Any](), self.columns[column]
        for document, value in zip(documents, values, strict=True):
            try:
                stored.append(as_stored(value, type_))
            except MisfitError as error:
                if self._widen(column, type_of(value)):
                    return self._stored(column, values, documents)
                raise InputError(
                    f"document {shortened(document.id)}: {shown(value)} in column {column!r}; "
                    f"expected {type_}"
                ) from error
            except InputError as error:
                raise InputError(
                    f"document {shortened(document.id)}, column {column!r}: {error}"
                ) from error
        return type_, stored

    def make_room(self, cut: DocumentRows) -> None:
        """Renumber the new documents, so far one row each, for their passages.

        `cut` contains the documents that will have several rows, by their new rows.
        """
        more = np.cumsum(cut.counts - 1)
        after = cut.firsts - np.concatenate([[0], more[:-1]])
        self._execute(
            f"""UPDATE {self._documents} SET "row" = numbered.new FROM (
                SELECT "row" AS old, "row" + more AS new FROM (SELECT "row" FROM {self._documents})
                ASOF JOIN (SELECT unnest(?::BIGINT[]) AS after, unnest(?::BIGINT[]) AS more)
                ON "row" > after
            ) numbered WHERE documents."row" = numbered.old""",
            [after.tolist(), more.tolist()],
        )

    def declare(self, columns: Mapping[str, str]) -> None:
        """Create columns of the given DuckDB types; this change's values don't change the
        types.

        Any column can be converted to text.
        """
        self._ensure(columns)
        existing = self._by_lower_name
        for name, type_ in columns.items():
            if type_ == "VARCHAR" and self.columns[existing[name.lower()]] != "JSON":
                self._retype(existing[name.lower()], type_)
            self._filled.add(existing[name.lower()])

    def _ensure(self, columns: Mapping[str, str]) -> None:
        """Create missing columns of the given DuckDB types; widen others if that loses nothing."""
        existing, new = self._by_lower_name, dict[str, str]()
        for name, type_ in columns.items():
            if name.lower() not in existing:
                existing[name.lower()] = name
                new[name] = type_
        check_columns(len(existing), "the index with these documents")
        self.columns |= new
        self._add_columns(new)
        for name, type_ in columns.items():
            self._widen(existing[name.lower()], type_)
        self._use({name.lower() for name in columns})

    def _use(self, names: Set[str]) -> None:
        """Give the new documents those columns whose lower-case names these are."""
        used = {name: type_ for name, type_ in self.columns.items() if name.lower() in names}
        self._add_columns(used)

    def _widen(self, column: str, type_: str) -> bool:
        """Widen a column for values of a DuckDB type; return True if its type changed."""
        widened = self._wider(column, type_)
        if widened == self.columns[column]:
            return False
        self._retype(column, widened)
        return True

    @property
    def _settled(self) -> set[str]:
        """Lower-case names of columns with a known type, not guessed for lack of values."""
        guessed = {n for n, t in self.columns.items() if t in ("JSON", "VARCHAR[]")} - self._filled
        return {name.lower() for name in self.columns if name not in guessed}

    def _wider(self, column: str, type_: str) -> str:
        """The type for a column's values and those of another type; its own type if none fits."""
        current = self.columns[column]
        if type_ == current or self._is_without_values(column, type_):
            return type_
        common = current if current in TEXTS else wider(current, type_)
        return current if common in TEXTS else common

    def _is_without_values(self, column: str, type_: str) -> bool:
        """True if another type loses nothing: the column has no values, or only empty lists."""
        if column in self._filled or not is_replaceable(self.columns[column]):
            return False
        if has_values(self, column):
            self._filled.add(column)
            return False
        return type_.endswith("[]") or not has_lists(self, column)

    def _retype(self, column: str, type_: str) -> None:
        """Give a column another type, in which no value is lost."""
        if type_ == self.columns[column]:
            return
        check_digits(self, column, type_)
        self.columns[column] = type_
        if column in self._file_columns:
            name = identifier(column)
            self._execute(f"ALTER TABLE {self._documents} ALTER COLUMN {name} TYPE {type_}")
            self._read_types()
        self._is_shown = False

    def _add_columns(self, columns: Mapping[str, str]) -> None:
        """Give the file's documents those of some columns that they lack."""
        new = {name: type_ for name, type_ in columns.items() if name not in self._file_columns}
        if not new:
            return
        named = {identifier(name): type_ for name, type_ in new.items()}
        if self._cursor is None:
            self._open([f"{name} {type_}" for name, type_ in named.items()])
        elif len(named) < COLUMNS_FOR_NEW_TABLE:
            for name, type_ in named.items():
                self._cursor.execute(f"ALTER TABLE {self._documents} ADD COLUMN {name} {type_}")
        else:
            empty = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in named.items())
            copied = f"SELECT *, {empty} FROM {self._documents}"
            self._cursor.execute(f"CREATE OR REPLACE TABLE {self._documents} AS {copied}")
        self._read_types()

    def _read_types(self) -> None:
        """Take over the names that DuckDB gives to the types of the file's columns."""
        self._file_columns = {
            name: type_
            for name, type_, *_ in self._open().execute(f"DESCRIBE {self._documents}").fetchall()
            if name not in OWN_COLUMNS
        }
        self.columns |= self._file_columns
        self._is_shown = False

    def replaced_rows(self, first_row: int) -> Rows:
        """Live rows whose id occurs again from first_row on."""
        again = self._new_ids(first_row, sys.maxsize)
        return np.array(sorted(row for _, row in self._live(again)), dtype=np.int64)

    def live_from(self, start: int, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Rows (id, row) from `start` on of the live documents with these ids: no new ones."""
        return self._base.live_from(start, ids)

    def _new_ids(self, start: int, stop: int) -> list[str]:
        """Ids of the documents start .. stop."""
        if (known := self._known(start, stop)) is not None:
            return [each.id for each in known]
        ids = self.fetch(f"SELECT id FROM {OWN} WHERE {BETWEEN}", [start, stop])
        return [id for (id,) in ids]

    def duplicate_id(self, first_row: int) -> tuple[str, int, int] | None:
        """An id that occurs twice from first_row on, with two of its rows; None if none does."""
        rows = self.fetch(
            f"""SELECT id, min("row") AS one, max("row") FROM {OWN} WHERE "row" >= ?
            GROUP BY id HAVING count(*) > 1 ORDER BY one LIMIT 1""",
            [first_row],
        )
        return rows[0] if rows else None

    def unchanged_rows(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Rows of the documents start .. stop that equal the live document of the same id in every
        column, and the rows of these live documents.
        """
        if (compared := self._unchanged_in_lines()) is not None:
            return compared
        columns = ["title", "text", *self.columns]
        candidates = []
        for part in batches(stop, IDS_AT_ONCE, start):
            alike: list[Any] = self._live(self._new_ids(part.start, part.stop))
            for few in batches(len(columns), COLUMNS_AT_ONCE):
                if alike:
                    alike = self._alike([row for *_, row in alike], part, columns[few])
            candidates += [rows for _, *rows in alike]
        if not candidates:
            return NO_ROWS, NO_ROWS
        parts = self._parts_text([row for pair in candidates for row in pair])
        candidates = [(new, old) for new, old in candidates if parts.get(new) == parts.get(old)]
        pairs: Rows = np.array(candidates, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _unchanged_in_lines(self) -> tuple[Rows, Rows] | None:
        """The result of `unchanged_rows`, if the documents are in memory; None without lines."""
        if not self._unwritten:
            return None
        live = dict(self._live([id for id, *_ in self._unwritten]))
        if (old := self.in_lines(live.values())) is None:
            return None
        pairs = [
            (row, live[id])
            for row, (id, *values) in enumerate(self._unwritten, self.rows)
            if id in live and _are_values_of(old[live[id]], values)
        ]
        new, old_rows = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return new, old_rows

    def in_lines(self, rows: Collection[int]) -> dict[int, Document] | None:
        """Committed documents with the values that the segments have: see `DocumentStore`."""
        return self._base.in_lines(rows)

    def _alike(self, live: Sequence[int], rows: slice, columns: Sequence[str]) -> list[Any]:
        """Rows (id, row, live row) of documents equal to one of some live rows in these columns."""
        selected = ", ".join(["id", '"row"', *map(identifier, columns)])
        names = ", ".join(["id", '"row"', *(f"c{i}" for i in range(len(columns)))])
        same = " AND ".join(f"new.c{i} IS NOT DISTINCT FROM old.c{i}" for i in range(len(columns)))
        # A join with the whole table would read every text; one with known rows does not.
        return self.fetch(
            f"""WITH old({names}) AS MATERIALIZED (
                SELECT {selected} FROM documents WHERE {AMONG}
            ), new({names}) AS (SELECT {selected} FROM documents WHERE {BETWEEN})
            SELECT id, new."row", old."row" FROM new JOIN old USING (id)
            WHERE {same} ORDER BY new."row" """,
            [live, rows.start, rows.stop],
        )

    def drop_rows(self, rows: Rows, first: int) -> None:
        """Delete some of the new documents, not cut yet; close the gaps from `first` on."""
        if self._unwritten and self._few is not None:
            gone = {*rows.tolist()}
            kept = [row not in gone for row in range(first, first + len(self._unwritten))]
            self._unwritten = [*compress(self._unwritten, kept)]
            self._few = [*compress(self._few, kept)]
            return
        for table in (self._documents, self._passages):
            self._execute(f"DELETE FROM {table} WHERE {AMONG}", [rows.tolist()])
        self._few = None
        for table in (self._passages, self._documents):
            self._execute(
                f"""UPDATE {table} AS renumbered SET "row" = numbered.new FROM (
                    SELECT "row" AS old, ? + row_number() OVER (ORDER BY "row") - 1 AS new
                    FROM (SELECT "row" FROM {self._documents})
                ) numbered
                WHERE renumbered."row" = numbered.old AND numbered.old <> numbered.new""",
                [first],
            )

    def whole_passages(self, rows: Sequence[int]) -> dict[int, Passage]:
        """Map documents to the single passage that each consists of."""
        passages = self.fetch(
            f'SELECT "row", title, length(text) FROM {OWN} WHERE {AMONG}', [[*rows]]
        )
        return {row: Passage(0, length, title) for row, title, length in passages}

    def longer_texts(self, start: int, stop: int, bytes: int) -> list[tuple[int, str, str]]:
        """Row, title and text of the documents start .. stop longer than `bytes`, in order."""
        known = self._known(start, stop)
        if known is not None and not any(
            len(each.title.encode()) + len(each.text.encode()) > bytes for each in known
        ):
            return []
        return self.fetch(
            f"""SELECT "row", title, text FROM {OWN}
            WHERE {BETWEEN} AND strlen(title) + strlen(text) > ? ORDER BY "row" """,
            [start, stop, bytes],
        )

    def has_text(self, first_row: int) -> bool:
        """True if a document from first_row on has a text or a title."""
        rows = self.fetch(
            f"""SELECT 1 FROM {OWN}
            WHERE "row" >= ? AND regexp_matches(title || text, '\\S') LIMIT 1""",
            [first_row],
        )
        return bool(rows)

    def count_characters(self, start: int, stop: int, most: int) -> int:
        """Number of characters of the rows start .. stop, counting at most `most` per row.

        For a document that is cut, the whole text counts, and overlaps of passages count once.
        """
        ((total,),) = self.fetch(
            f"""SELECT coalesce(sum(least(
                length(title) + length(text), ?::HUGEINT * coalesce(len(starts), 1)
            )), 0)
            FROM {OWN} LEFT JOIN passages USING ("row") WHERE "row" >= ? AND "row" < ?""",
            [most, start, stop],
        )
        return int(total)

    def insert_cuts(self, cuts: Mapping[int, Cut]) -> None:
        """Insert cuts by their documents' first rows; those without passages store only parts."""
        columns = [
            [*cuts],
            [[p.start for p in cut.passages] or None for cut in cuts.values()],
            [[p.end for p in cut.passages] or None for cut in cuts.values()],
            [[p.context for p in cut.passages] or None for cut in cuts.values()],
            [parts_written(cut.parts) for cut in cuts.values()],
        ]
        if cuts:
            self._has_cuts = True
            self._execute(
                f"""INSERT INTO {self._passages} SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[][]),
                unnest(?::BIGINT[][]), unnest(?::VARCHAR[][]), unnest(?::VARCHAR[])""",
                columns,
            )

    def uncut(self, start: int, stop: int) -> dict[int, Sequence[Part]]:
        """Map the rows start .. stop of documents without passages to the parts of their texts."""
        if not self._may_be_cut(start):
            return {}
        cuts = self._cuts(f"{BETWEEN} AND starts IS NULL", [start, stop])
        return {row: cut.parts for row, cut in cuts.items()}

    def _may_be_cut(self, start: int) -> bool:
        return self._has_cuts or start < self.rows

    def contents(self, start: int, stop: int) -> list[str]:
        """Texts to encode of the rows start .. stop."""
        if (known := self._known(start, stop)) is not None:
            return [content(each.title, each.text) for each in known]
        return super().contents(start, stop)

    def named_contents(
        self, start: int, stop: int, *, live: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row of the documents that begin in start .. stop."""
        first = max(start, self.rows)
        known = self._known(first, max(stop, first))
        if known is None or live:
            return super().named_contents(start, stop, live=live)
        new = ((each.id, content(each.title, each.text)) for each in known)
        if first == start:
            return new
        return chain(self._base.named_contents(start, min(stop, first)), new)

    def values(self, start: int, stop: int, *, live: bool = False) -> list[Sequence[Any]]:
        """Row, id, title, text and the user's columns of the documents start .. stop, in order.

        New documents are read from their file alone, or from memory.
        """
        if self._unwritten and start >= self.rows:
            unwritten = self._unwritten[start - self.rows : stop - self.rows]
            return [[row, *each] for row, each in enumerate(unwritten, start)]
        if start < self.rows or live or self._cursor is None:
            return super().values(start, stop, live=live)
        own = [(self._documents, self._file_columns)]
        views = views_of(own, self.columns)
        try:
            return self._in_order(self._cursor, f"({views['documents']})", start, stop)
        except duckdb.Error as error:
            raise self._read_error(error) from error

    def drop_uncut(self) -> None:
        """Delete the new entries without passages."""
        self._execute(f"DELETE FROM {self._passages} WHERE starts IS NULL")

    def adopt_origins(self, new: Rows, old: Rows) -> None:
        """Give the `old` documents the origins of the identical `new` ones that have one."""
        if self._unwritten and not self._has_origins():
            return
        self._change_origins(
            self.fetch(
                """SELECT old, fresh.slimdex_origin
                FROM (SELECT unnest(?::BIGINT[]) AS new, unnest(?::BIGINT[]) AS old)
                JOIN origins fresh ON fresh."row" = new JOIN origins known ON known."row" = old
                WHERE fresh.slimdex_origin IS NOT NULL
                AND known.slimdex_origin IS DISTINCT FROM fresh.slimdex_origin""",
                [new.tolist(), old.tolist()],
            )
        )

    def forget_places(self, rows: Rows) -> None:
        """Remove the stamps of all documents from the places of some rows.

        These come back or go without their files, so all files of their places must be read again.
        """
        self._change_origins(
            self.fetch(
                f"""SELECT "row", {PLACE} || '/' FROM origins WHERE {PLACE} IN (
                    SELECT {PLACE} FROM origins WHERE "row" IN (SELECT unnest(?::BIGINT[]))
                )""",
                [rows.tolist()],
            )
        )

    def move_place(self, before: str, now: str) -> None:
        """Give all documents of a place another one, without stamps."""
        self._change_origins(
            self.fetch(f"""SELECT "row", ? || '/' FROM origins WHERE {PLACE} = ?""", [now, before])
        )

    def count_moved(self, first_row: int, gone: Rows) -> int:
        """Number of the documents to delete whose content recurs from `first_row` on under another
        id."""
        if not len(gone):
            return 0
        earlier = f"""SELECT id FROM {self.live('id, "row"')} WHERE "row" < ?"""
        ((count,),) = self.fetch(
            f"""WITH old AS (
                SELECT md5(title || chr(10) || text) AS hash, count(*) AS count FROM {OWN}
                WHERE "row" IN (SELECT unnest(?::BIGINT[])) GROUP BY 1
            ), new AS (
                SELECT md5(title || chr(10) || text) AS hash, count(*) AS count FROM {OWN}
                WHERE "row" >= ? AND id NOT IN ({earlier}) GROUP BY 1
            )
            SELECT coalesce(sum(least(old.count, new.count)), 0) FROM old JOIN new USING (hash)""",
            [gone.tolist(), first_row, first_row],
        )
        return int(count)

    def _change_origins(self, origins: Sequence[tuple[int, str | None]]) -> None:
        """Give documents other origins."""
        if origins:
            self.new_origins = {**self.origins, **dict(origins)}
            self._is_shown = False


def made_ready(
    documents: Sequence[Document], columns: Mapping[str, str], file: DocumentFile | None
) -> Ready:
    """Few documents as they are stored in these columns and in a file of lines, if there is one."""
    values, lines = dict[str, list[Any]](), list[bytes]()
    for document in documents:
        with suppress(MisfitError, InputError, UnwritableError):
            values[document.id], line = restorable(document, columns)
            lines.append(line)
    return Ready(columns, values, NONE_COMPRESSED if file is None else file.compressed(lines))


def restorable(document: Document, columns: Mapping[str, str]) -> tuple[list[Any], bytes]:
    """Id, title, text and the columns' values of a document, as DuckDB would return them; the line.

    Raises `MisfitError`, `InputError` or `UnwritableError` if a line can't restore them, or if the
    document has parts.
    """
    metadata = by_lower_name(document)
    given = {name: value for name, (_, value) in metadata.items() if value is not None}
    values: list[Any] = [document.id, document.title, document.text]
    for name, type_ in columns.items():
        value = given.pop(name.lower(), None)
        if value is not None and type_ == "VARCHAR[]" != type_of(value):
            raise MisfitError  # the type may have been guessed for lack of values
        stored = None if value is None else as_stored(value, type_)
        is_number = BITS.get(type_.lower().removeprefix("u"), 128) < 128
        if value is not None and type_of(stored) != ("BIGINT" if is_number else type_):
            raise MisfitError
        values.append(stored)
    if given or document.parts:
        raise MisfitError
    return values, line_of(values)


def _are_values_of(document: Document, values: Sequence[Any]) -> bool:
    """True if title, text and the columns' values of a document equal those of a new one."""
    old = [document.title, document.text, *document.metadata.values()]
    return not document.parts and line_of(old) == line_of(values)
