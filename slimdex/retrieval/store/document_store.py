"""DocumentStore: the documents of one commit, as DuckDB reads them from its segments.

An origin is where a document came from: a digest of the place (32 characters), "/", and a stamp
that changes with the file, or none if unknown. `sources.origins` writes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError, UnreadableError, shorten
from slimdex.indexes.arrays import Rows, batches, union, without
from slimdex.system.duckdb_library import duckdb, identifier, literal
from slimdex.system.once import Once, cached_property

from ..column_types import restore_values
from ..documents import BUILT_IN_COLUMNS, Document, content
from .engine import Engine, Session, disk_error, disk_errors, is_damage, one_line, statement_error
from .lines import DICTIONARY, LONGEST_LINE, LONGEST_TRAILING, DocumentFile
from .manifest import Manifest
from .passages import DocumentPassages, DocumentRows, passages_of
from .readings import ReadingFile, Readings
from .segments import (
    BARE_DOCUMENTS,
    CHANGED,
    GONE,
    TABLES,
    TRAILING,
    Origins,
    Values,
    check_type,
    read_origins,
    table_values,
    unnest_query,
    views_of,
)
from .state import CANT_REBUILD
from .where.conditions import TEXT_COLUMNS
from .where.validation import SlowConditionError, check, limiting, reads_clock, refusal

COLUMNS_AT_ONCE = 500
"""Columns per query: DuckDB holds 2,048 values of each in memory, several times."""
IDS_AT_ONCE = 65_536
MOST_RECENT = 4096
RECENT_SHARE = 64
"""Most recent hashes kept unsorted: this many, or a share of the sorted ones if that is more."""
MOST_FROM_LINES = 4096
MOST_BYTES = 1 << 26
"""Most documents that a change reads from the lines, and their bytes there: a query of more takes
less time, and need not read their texts."""
SAMPLES = 3
SAMPLE_CHARACTERS = 40
"""Values of a column that the error for a condition shows, and the characters of each."""
BEGINNING = 300
"""Characters of the beginning of a text."""
COMPARED = 100_000
COMPARED_CHARACTERS = 100
"""An unknown id is compared with others only if it has at most `COMPARED_CHARACTERS` characters and
the index has at most `COMPARED` rows, which takes some milliseconds."""
Hashed = NDArray[np.int64]
"""Hashes of the ids of documents, and their rows (2, n)."""
Tables = list[tuple[str, Mapping[str, str]]]
"""Tables of documents, and the user's columns in each: name -> DuckDB type."""
BETWEEN = '"row" >= ? AND "row" < ?'
AMONG = '"row" IN (SELECT unnest(?::BIGINT[]))'
"""Conditions on rows: from one to before another, and a list."""
PLACE = "left(slimdex_origin, 32)"
"""The digest of an origin's place. (DuckDB 2.0.0 fails on `split_part` of an all-NULL column.)"""


@dataclass(frozen=True)
class _LookedUp:
    """Ids that were looked up in the rows before `stop`, and the rows of those that existed.

    The rows are valid in one `State.epoch`; in the next, they may have other numbers.
    """

    ids: frozenset[str] = frozenset()
    rows: Mapping[str, int] = field(default_factory=dict)
    stop: int = 0
    epoch: int = 0


@dataclass(frozen=True)
class IdHashes:
    """Python's hash of the id of each document in the rows before `stop`, and its row.

    Most added documents are new, and a few replace others. The hashes show this without a query,
    which would attach every segment. The rows are valid in one `State.epoch`.
    """

    older: Hashed  # sorted
    stop: int
    epoch: int
    recent: Hashed = field(default_factory=lambda: _hash_ids((), ()))

    def with_later(self, rows: Sequence[int], ids: Sequence[str], stop: int) -> IdHashes:
        """Return these hashes and those of later documents, which are in rows before `stop`."""
        # An insertion copies all older hashes, so it waits until there are many recent ones.
        recent = np.append(self.recent, _hash_ids(ids, rows), axis=1)
        if recent.shape[1] <= max(MOST_RECENT, self.older.shape[1] // RECENT_SHARE):
            return replace(self, stop=stop, recent=recent)
        recent = _in_order(recent)
        positions = np.searchsorted(self.older[0], recent[0])
        return IdHashes(np.insert(self.older, positions, recent, axis=1), stop, self.epoch)

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """Return the rows of all documents, including deleted ones, that may have one of these ids.

        They are in order. A few may have other ids with equal hashes.
        """
        # Equal hashes are neighbours in `older`, so each hash has a span there, empty for most.
        hashes = np.unique(_hashes(ids))
        older_hashes, older_rows = self.older
        starts = np.searchsorted(older_hashes, hashes, "left")
        stops = np.searchsorted(older_hashes, hashes, "right")
        spans = np.stack([starts, stops], axis=1)[starts < stops].tolist()
        matches = [older_rows[start:stop] for start, stop in spans]

        # The recent hashes are not sorted, but few.
        recent_hashes, recent_rows = self.recent
        matches.append(recent_rows[np.isin(recent_hashes, hashes)])
        return np.sort(np.concatenate(matches))


@dataclass
class _IdCache:
    """Ids that this process knows.

    Attributes
    ----------
    looked_up : the last lookup of ids, in any commit.
    hashes : hashes of all ids; None before the second lookup.
    """

    looked_up: _LookedUp = field(default_factory=_LookedUp)
    hashes: IdHashes | None = None


def _hash_ids(ids: Sequence[str], rows: Sequence[int] | Rows) -> Hashed:
    """Return the hashes of ids, and the rows of their documents, in one array (2, n)."""
    return np.stack([_hashes(ids), np.array(rows, dtype=np.int64)])


def _hashes(ids: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _in_order(hashed: Hashed) -> Hashed:
    """Sort hashes and their rows by the hashes."""
    return hashed[:, np.argsort(hashed[0], kind="stable")]


class DocumentStore:
    """The documents of one commit, which never change; any thread may read.

    A document is identified by its first row. Queries read the views `documents` and `passages`,
    which have all rows, also deleted ones. `origins` has the row, id and origin of each document.

    Attributes
    ----------
    columns : the user's: name -> DuckDB type.
    rows : documents before this row are visible.
    changed_origins : the content of the file of origins.
    id_cache : ids that this process knows, shared by the stores of all commits.
    """

    def __init__(
        self, engine: Engine, manifest: Manifest, before: DocumentStore | None = None
    ) -> None:
        # Contents of the commit.
        state = manifest.state
        self.engine = engine
        self.manifest = manifest
        self.segments = state.segments
        self.rows = state.rows
        self.epoch = state.epoch
        self.columns: Mapping[str, str] = manifest.columns
        self.origins_file = state.files.get("origins")
        file = None
        if state.readings is not None:
            file = ReadingFile(engine.folder / state.readings, state.readings_count)

        # Read when needed, unless the store of an earlier commit has it already.
        self.changed_origins = Once[Origins]()
        self.readings = Readings(file)
        self.id_cache = _IdCache()
        if before is not None:
            self.id_cache = before.id_cache
            self.readings = before.readings.at_commit(file)
            if before.origins_file == self.origins_file:
                self.changed_origins = before.changed_origins
        self._made: tuple[Session, str] | None = None  # where the views are: see `_schema`
        self._has_gone = False  # whether the table `gone` is there: see `_make_gone`

    def at_commit(self, manifest: Manifest) -> DocumentStore:
        """Return the documents of a later commit, sharing what is known about ids and origins.

        This is the same store if the commit has the same documents: its files stay open.
        """
        store = DocumentStore(self.engine, manifest, self)
        return self if self._has_documents_of(store) else store

    def with_columns(self, columns: Mapping[str, str]) -> DocumentStore:
        """Return these documents as if their columns had these types; there may be more columns."""
        return DocumentStore(self.engine, replace(self.manifest, columns=dict(columns)), self)

    def _has_documents_of(self, other: DocumentStore) -> bool:
        """True if both stores have the same documents, columns and files."""
        return (
            (self.segments, self.rows, self.epoch, self.origins_file, self.readings.file)
            == (other.segments, other.rows, other.epoch, other.origins_file, other.readings.file)
            and self.manifest.state.lines == other.manifest.state.lines
            and dict(self.columns) == dict(other.columns)
            and np.array_equal(self.manifest.deleted, other.manifest.deleted)
        )

    @property
    def path(self) -> Path:
        """Folder of the index."""
        return self.engine.folder

    @property
    def origins(self) -> Origins:
        """The origins that differ from those in the segments."""
        return self.changed_origins.get(lambda: read_origins(self.path, self.origins_file))

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for this thread, to which the segments and views are attached.

        Raises `CorruptError` if damaged data were read, or a segment is missing, `UnreadableError`
        if the disk or memory failed, and `StatementError` if DuckDB refused a statement.
        """
        session = None
        try:
            # One thread at a time attaches segments, but several may query.
            with self.session() as session:
                schema = self._schema(session)
                cursor = session.take(schema)
            try:
                yield cursor
            finally:
                session.give_back(cursor, schema)
        except duckdb.Error as error:
            # After a fatal error, DuckDB refuses everything.
            if isinstance(error, duckdb.FatalException) and session is not None:
                session.has_failed = True
                self.engine.restart()
            raise self._read_error(error) from error

    def open(self) -> None:
        """Open the segments: they stay readable after they are removed from the folder."""
        with self.reading():
            pass

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The session in which the segments are or will be attached, for one thread at a time.

        It stays the same when others start a new one, except after a failure.
        """
        with self.engine.working() as current:
            session = None if self._made is None else self._made[0]
            yield current if session is None or session.has_failed else session

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a connection to which the segments need not be attached."""
        with self.session() as session:
            cursor = session.cursor()
        try:
            yield cursor
        finally:
            with suppress(duckdb.Error):
                cursor.close()

    def _schema(self, session: Session) -> str:
        """Return the schema of this commit's views in a session, created on first use."""
        if self._made is not None and self._made[0] is session:
            return self._made[1]

        # Create a schema. Its segments stay attached as long as this store exists.
        trailing = self._trailing_tables()
        origins = self.origins_file if self.origins else None
        names = [file.name for file in (*self.segments, origins) if file is not None]
        schema = session.schema(names)
        finalize(self, session.end, schema, names)

        # Create its tables and views.
        tables = self._tables(session, schema)
        changed = None
        if origins is not None:  # shared by all commits, as there may be many
            values = [[*self.origins], [*self.origins.values()]]
            changed = session.shared_table(origins.name, f"FROM {CHANGED}", values)
        try:
            session.fill(schema, trailing, views_of(tables, self.columns, changed))
        except duckdb.Error as error:
            if not trailing or isinstance(error, disk_errors()):
                raise
            why = f"rows after the segments ({one_line(error)})"  # not written by slimdex
            raise CorruptError(f"{self.path}: {why}") from error

        # Segments of earlier commits may be unused by now.
        session.detach_unused()
        self._made = (session, schema)
        self._has_gone = False
        return schema

    def _tables(self, session: Session, schema: str) -> Tables:
        """The tables of documents: of the segments and, if rows follow these, in memory."""
        tables: Tables = []
        for segment, columns in zip(self.segments, session.columns(self.segments), strict=True):
            tables.append((f"{identifier(segment.name)}.main.documents", columns))
        state = self.manifest.state
        if state.lines is not None and state.segment_rows < self.rows:
            tables.append((f"memory.{schema}.{TRAILING}documents", state.lines.columns))
        return tables

    def _trailing_tables(self) -> dict[str, tuple[str, list[Any]]]:
        """The queries, with their parameters, of tables of the rows after the segments, if any."""
        trailing = self.trailing()
        if trailing is None:
            return {}
        documents, passages = TABLES
        document_values, passage_values = trailing
        return {
            f"{TRAILING}{documents}": unnest_query(document_values),
            f"{TRAILING}{passages}": unnest_query(passage_values),
        }

    def trailing(self) -> tuple[Values, Values] | None:
        """Values in both tables of the rows after the segments; None if there are no such rows.

        Raises `CorruptError` if a line is damaged, or too long for a document after the segments.
        """
        start = self.manifest.state.segment_rows
        if start == self.rows:
            return None
        try:
            return self.values_in_lines(start, self.rows, LONGEST_TRAILING)
        except CorruptError as error:
            # A repair can restore the dictionary, but not the lines of these rows.
            if self.damaged_in_dictionary():
                raise
            raise CorruptError(f"{str(error).partition(';')[0]}; {CANT_REBUILD}") from error

    def values_in_lines(
        self, start: int, stop: int, longest: int = LONGEST_LINE
    ) -> tuple[Values, Values]:
        """Read the values in both tables of a segment from the lines of its documents.

        The documents begin at the rows from `start` to before `stop`. Raises `CorruptError` if a
        line is missing, damaged or longer than `longest` bytes.
        """
        lines = self.manifest.state.lines
        if lines is None:
            raise CorruptError(f"{self.path}: no lines of documents; {CANT_REBUILD}")
        firsts = self.manifest.document_rows.first_rows(np.arange(start, stop)).tolist()
        records = [*DocumentFile(self.path, lines, self.rows).records(firsts, longest).values()]

        # The records' values by column.
        columns = list[tuple[str, str, Sequence[Any]]]()
        values_by_column = zip(*(record.values for record in records), strict=True)
        for (name, type_), values in zip(lines.columns.items(), values_by_column, strict=True):
            columns.append((name, check_type(type_), values))
        documents = [record.document for record in records]
        return table_values(firsts, documents, [record.cut for record in records], columns)

    def damaged_in_dictionary(self) -> list[int]:
        """Return the documents whose damaged lines make the rows after the segments unreadable.

        These rows are only in lines, which are compressed with a dictionary: the first lines of the
        file. Damaged lines of the dictionary can be restored, as their documents are also in
        segments. Returns no documents if no line depends on the dictionary, or the file is too
        short.
        """
        state = self.manifest.state
        if state.lines is None or state.segment_rows == self.rows:
            return []
        if state.lines.bytes <= DICTIONARY:  # nothing is compressed yet
            return []
        first_rows = self.manifest.document_rows.first_rows(np.arange(state.segment_rows))
        try:
            file = DocumentFile(self.path, state.lines, self.rows)
            return file.damaged_in_dictionary(first_rows)
        except (CorruptError, OSError):  # truncated: documents after the segments are lost
            return []

    def live(self, columns: str = "*", table: str = "documents") -> str:
        """Return the SQL of a subquery of the live documents in a table.

        It may name the table `gone` of the present session, so use it only for the next query.
        """
        stop = self.rows
        if not len(self.manifest.deleted):
            return f'(SELECT {columns} FROM {table} WHERE "row" < {stop})'
        self._make_gone()
        return f'(SELECT {columns} FROM {table} ANTI JOIN gone USING ("row") WHERE "row" < {stop})'

    def _make_gone(self) -> None:
        """Make a table `gone` of the first rows of deleted documents, once in each session."""
        with self.session() as session:
            schema = self._schema(session)
            if not self._has_gone:
                deleted = self.manifest.deleted
                documents = deleted[self.manifest.document_rows.documents(deleted) == deleted]
                gone = f"FROM {GONE}", [documents.tolist()]
                session.fill(schema, {"gone": gone}, {})
                self._has_gone = True

    def fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query; DuckDB verifies checksums as it reads."""
        with self.reading() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def _read_error(self, error: duckdb.Error) -> Exception:
        """Convert DuckDB's error to the one that `reading` raises."""
        if isinstance(error, disk_errors()):
            return UnreadableError(str(disk_error(self.path, error)))
        return statement_error(self.path, error)

    def _still_live(self, rows: Sequence[int] | Rows) -> set[int]:
        """Return those of these documents that this commit has, except deleted ones."""
        sorted_rows = union(np.array(rows, dtype=np.int64))
        committed = sorted_rows[sorted_rows < self.rows]
        return set(without(committed, self.manifest.deleted).tolist())

    @cached_property
    def document_file(self) -> DocumentFile | None:
        """The documents by row; None if only the segments have them in their current form."""
        lines = self.manifest.state.lines
        if lines is None or not lines.fit(self.columns):
            return None
        return DocumentFile(self.path, lines, self.rows).open()

    def in_lines(self, rows: Collection[int]) -> dict[int, Document] | None:
        """Documents with the values that the segments have, such as JSON as text.

        None if they have to be read by a query: they are many or long, or their lines can't be
        read.
        """
        if not rows:  # as of new ids: the files stay closed
            return {}
        if len(rows) <= MOST_FROM_LINES:
            with suppress(CorruptError, OSError):  # others may have removed the files
                file = self.document_file
                if file is not None and file.size(rows) <= MOST_BYTES:
                    untyped = dict.fromkeys(self.columns, "")  # without JSON, no value is parsed
                    return file.documents(sorted(rows), untyped)
        return None

    def is_in_lines(self, rows: Collection[int]) -> bool:
        """True if `contents_of` needs no query for these documents."""
        return self._contents_in_lines(rows) is not None

    def _contents_in_lines(self, rows: Collection[int]) -> list[str] | None:
        """Texts to encode of documents; None if that requires a query.

        A query is also required if a document is cut or has parts: the text of a passage depends on
        its context, which a `Document` lacks.
        """
        read = self.in_lines(rows)
        if read is None or any(each.passages or each.parts for each in read.values()):
            return None
        return [each.content for each in read.values()]

    def read(self, rows: Sequence[int]) -> dict[int, Document]:
        """Read documents by their rows.

        Raises `CorruptError` if a JSON column holds invalid JSON, or two documents have the same
        row.
        """
        documents = {}
        try:
            for row, document in self._in_segments(rows).items():
                metadata = restore_values(self.columns, [*document.metadata.values()])
                documents[row] = replace(document, metadata=metadata)
        except InputError as error:  # not written by slimdex
            raise CorruptError(f"{self.path}: {error}") from error
        return documents

    def read_stored(self, rows: Sequence[int]) -> dict[int, Document]:
        """Read documents with the values that the segments have, such as JSON as text."""
        in_lines = self.in_lines(rows)
        return self._in_segments(rows) if in_lines is None else in_lines

    def _in_segments(self, rows: Sequence[int]) -> dict[int, Document]:
        """Map first rows to their documents, read by queries."""
        if not len(rows):
            return {}
        values_of = self._values(["id", "title", "text", *self.columns], rows)
        cuts = self.cuts_of(rows)
        documents = {}
        for row, (id, title, text, *values) in values_of.items():
            metadata = dict(zip(self.columns, values, strict=True))
            document = Document(id, text, title, metadata)
            documents[row] = cuts[row].of(document) if row in cuts else document
        return documents

    def _values(self, columns: Sequence[str], rows: Sequence[int]) -> dict[int, list[Any]]:
        """Map documents, given by their first rows, to their values in these columns."""
        numbers = [*map(int, rows)]
        values_of = defaultdict[int, list[Any]](list)
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            selected = ", ".join(map(identifier, columns[few]))
            sql = f'SELECT "row", {selected} FROM documents WHERE {AMONG}'
            for row, *values in self.fetch(sql, [numbers]):
                values_of[row] += values
        if any(len(values) != len(columns) for values in values_of.values()):
            raise CorruptError(f"{self.path}: several documents have the same row")
        return values_of

    def values(self, start: int, stop: int, *, live: bool = False) -> list[Sequence[Any]]:
        """Row, id, title, text, origin and the user's columns of documents, in order.

        These are the documents that begin at the rows from `start` to before `stop`; if `live`,
        without deleted ones.
        """
        table = self.live() if live else "documents"
        with self.reading() as cursor:
            return self._in_order(cursor, table, start, stop)

    def _in_order(
        self, cursor: duckdb.DuckDBPyConnection, table: str, start: int, stop: int
    ) -> list[Sequence[Any]]:
        """Read what `values` returns from a table of documents, some columns at a time."""
        columns = ["row", "id", "title", "text", "slimdex_origin", *self.columns]
        parts = list[list[Any]]()
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            selected = ", ".join(map(identifier, columns[few]))
            sql = f'SELECT {selected} FROM {table} WHERE {BETWEEN} ORDER BY "row"'
            parts.append(cursor.execute(sql, [start, stop]).fetchall())
        if len(parts) == 1:
            return parts[0]
        return [[*chain.from_iterable(row)] for row in zip(*parts, strict=True)]

    def contents(self, start: int, stop: int) -> list[str]:
        """Texts to encode of the rows from `start` to before `stop`."""
        # Only the first document may begin before `start`, and only the last end after `stop`.
        first = self._first_row(start)
        texts = list[str]()
        cuts = self.cuts_between(first, stop)
        for row, _, passages in self._contents(BARE_DOCUMENTS, BETWEEN, [first, stop], cuts):
            texts += passages[max(start - row, 0) : stop - row]
        return texts

    def ids_and_contents(
        self, start: int, stop: int, *, live: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row of the documents that begin before row `stop`.

        They begin at row `start` or later. If `live`, deleted documents are omitted.
        """
        table = self.live('"row", id, title, text') if live else BARE_DOCUMENTS
        cuts = self.cuts_between(start, stop)
        for _, id, passages in self._contents(table, BETWEEN, [start, stop], cuts):
            yield from ((id, each) for each in passages)

    def contents_of(self, documents: Rows) -> list[str]:
        """Texts to encode of each row of documents, given in order."""
        if not len(documents):
            return []
        rows = documents.tolist()
        contents = self._contents_in_lines(rows)
        if contents is not None:
            return contents
        texts = list[str]()
        for _, _, passages in self._contents(BARE_DOCUMENTS, AMONG, [rows], self.cuts_of(rows)):
            texts += passages
        return texts

    def _contents(
        self, table: str, where: str, values: list[Any], cuts: Mapping[int, DocumentPassages]
    ) -> Iterator[tuple[int, str, list[str]]]:
        """Row, id and texts to encode of documents, in order."""
        sql = f'SELECT "row", id, title, text FROM {table} WHERE {where} ORDER BY "row"'
        for row, id, title, text in self.fetch(sql, values):
            yield row, id, cuts[row].contents(text) if row in cuts else [content(title, text)]

    def reads_clock(self, where: str) -> bool:
        """True if a condition may hold for other documents a moment later."""
        return reads_clock(where, self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        """Columns that a condition may name."""
        return (*BUILT_IN_COLUMNS[1:4], *self.columns)

    def rows_where(self, where: str, stop: int, start: int = 0) -> Rows:
        """First rows of the documents that satisfy a DuckDB expression, in order.

        Documents begin at the rows from `start` to before `stop`; deleted ones are included.

        Only an expression over the columns is allowed: see `where.validation.check`.
        """
        names = self._names
        where = check(where, names)
        with self.reading() as cursor:
            try:
                inside = f'"row" >= {int(start)} AND "row" < {int(stop)}'
                committed = f"(SELECT * FROM documents WHERE {inside})"
                with limiting(cursor):
                    # The condition may end with a comment, which the line break ends.
                    sql = f'SELECT "row" FROM {committed} WHERE ({where}\n)'
                    columns = cursor.execute(sql).fetchnumpy()
                return np.sort(columns["row"].astype(np.int64), kind="stable")  # fast if in order
            except SlowConditionError as error:
                raise SlowConditionError(str(refusal(where, str(error), names))) from error
            except duckdb.Error as error:
                if isinstance(error, disk_errors()) or is_damage(error):
                    raise
                held = "".join(map(self._contents_of, self._columns_in(where)))
                raise refusal(where, one_line(error) + held, names) from error

    def rows_after(self, id: str) -> Rows:
        """First rows of the documents with later ids, in the order of ids, with deleted ones."""
        sql = f'SELECT "row" FROM {BARE_DOCUMENTS} WHERE id > ? ORDER BY id'
        with self.reading() as cursor:
            return cursor.execute(sql, [id]).fetchnumpy()["row"].astype(np.int64)

    def _columns_in(self, where: str) -> list[str]:
        """Columns that a condition names, at most `SAMPLES`."""
        words = re.findall(r"\w+", where.lower())
        return [name for name in self._names if name.lower() in words][:SAMPLES]

    def _contents_of(self, column: str) -> str:
        """Type and some values of a column, for a condition that does not suit them."""
        name = identifier(column)
        text = f"left({name}::VARCHAR, {SAMPLE_CHARACTERS})"
        sql = f"SELECT {text} FROM documents WHERE {name} IS NOT NULL LIMIT {SAMPLES}"
        values = ", ".join(literal(value) for (value,) in self.fetch(sql))
        type_ = (TEXT_COLUMNS | dict(self.columns))[column]
        return f"; {column} is {type_}" + (f", such as {values}" if values else "")

    def document_rows(self, stop: int, start: int = 0) -> DocumentRows:
        """Documents with several rows that begin at the rows from `start` to before `stop`."""
        sql = f'SELECT "row", len(starts) AS count FROM passages WHERE count > 1 AND {BETWEEN}'
        with self.reading() as cursor:
            table = cursor.execute(f'{sql} ORDER BY "row"', [start, stop]).fetchnumpy()
        return DocumentRows(table["row"].astype(np.int64), table["count"].astype(np.int64))

    def _first_row(self, row: int) -> int:
        """First row of the document of a row."""
        # The last document before it that has several rows may include it.
        documents = self.fetch(
            'SELECT "row", len(starts) FROM passages WHERE "row" < ? AND len(starts) > 1 '
            'ORDER BY "row" DESC LIMIT 1',
            [row],
        )
        for first, count in documents:
            if row < first + count:
                return int(first)
        return row

    def cuts_between(self, start: int, stop: int) -> dict[int, DocumentPassages]:
        """Map the documents that begin at the rows from `start` to before `stop` to their cuts.

        Documents of one passage without parts are omitted.
        """
        return self._cuts(BETWEEN, [start, stop])

    def cuts_of(self, rows: Sequence[int]) -> dict[int, DocumentPassages]:
        """Map documents, given by their first rows, to their cuts.

        Documents of one passage without parts are omitted.
        """
        return self._cuts(AMONG, [[*map(int, rows)]])

    def _cuts(self, where: str, values: list[Any]) -> dict[int, DocumentPassages]:
        """Map documents to their cuts; `where` is a condition on rows with these parameters."""
        rows = self.fetch(
            f'SELECT "row", starts, ends, contexts, parts FROM passages WHERE {where}',
            values,
        )
        try:
            return {row: passages_of(*cut) for row, *cut in rows}
        except (TypeError, ValueError) as error:  # not written by slimdex
            raise CorruptError(f"{self.path}: passages ({error})") from error

    def ids_by_row(self, stop: int) -> list[str]:
        """Id of the document of each row below `stop`, including deleted documents.

        A document has a row for each of its passages, or one.
        """
        rows = self.fetch(
            f"""SELECT id, len(starts) FROM {BARE_DOCUMENTS} LEFT JOIN passages USING ("row")
            WHERE "row" < ? ORDER BY "row" """,
            [stop],
        )
        ids = list[str]()
        for id, count in rows:
            ids += [id] * (count or 1)
        return ids

    def ids_of(self, rows: Rows) -> list[str]:
        """Ids of documents, given their rows (n,) in ascending order."""
        return [id for (id,) in self._values_of(rows, "id")]

    def beginnings(self, rows: Rows) -> list[tuple[str, str]]:
        """Ids of documents, and how their texts begin; rows as of `ids_of`."""
        return self._values_of(rows, f"id, left(text, {BEGINNING})")

    def _values_of(self, rows: Rows, values: str) -> list[tuple[Any, ...]]:
        """Select SQL expressions of documents, given their rows as in `ids_of`."""
        return self.fetch(
            f"""SELECT {values} FROM {BARE_DOCUMENTS} WHERE "row" BETWEEN ? AND ?
            AND "row" IN (SELECT unnest(?::BIGINT[])) ORDER BY "row" """,
            [int(rows[0]), int(rows[-1]), rows.tolist()],
        )

    def live_rows(self, ids: Sequence[str]) -> Rows:
        """Live rows of the given ids, in order; raises `InputError` for an unknown id."""
        return np.array(sorted(self.row_by_id(ids).values()), dtype=np.int64)

    def row_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """Map ids to their live rows; raises `InputError` if an id is unknown."""
        known = dict(self._live(ids))
        for id in ids:
            if id not in known:
                raise InputError(
                    f"unknown id {shorten(id)}; expected the id of a document{self._meant(id)}"
                )
        return known

    def _meant(self, id: str) -> str:
        """Suggest a file of this name in any folder; "" without one, or if that would take long."""
        if self.rows > COMPARED or len(id) > COMPARED_CHARACTERS:
            return ""

        # A path that ends with the id, with or without a file extension.
        live = self.live("id")
        name = f"/{id.lower()}"
        paths = self.fetch(
            f"""SELECT id FROM {live} WHERE suffix(lower(id), ?) OR contains('/' || lower(id), ?)
            ORDER BY len(id), id LIMIT 1""",
            [name, f"{name}."],
        )
        return f"; did you mean {shorten(paths[0][0])}?" if paths else ""

    def rows_of_ids(self, ids: Sequence[str]) -> dict[str, int]:
        """Map those ids that exist to their live rows."""
        return dict(self._live(ids))

    def look_up(self, ids: Sequence[str]) -> dict[str, int]:
        """Map existing ids to their live rows, and remember the result.

        The second lookup of a process hashes all ids, which speeds up this one and all later ones.
        """
        known = self.id_cache
        is_second = bool(known.looked_up.ids)
        if is_second and known.hashes is None:
            known.hashes = self._hash_all()
        rows = dict(self.live_from(0, ids))
        known.looked_up = _LookedUp(frozenset(ids), rows, self.rows, self.epoch)
        return rows

    def _live(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Pairs (id, row) of the live documents with these ids."""
        # The last lookup answers this only if it included all of these ids.
        lookup = self.id_cache.looked_up
        is_current = lookup.epoch == self.epoch and lookup.stop <= self.rows
        if not (is_current and lookup.ids and lookup.ids.issuperset(ids)):
            return self.live_from(0, ids)

        # Some of its documents may be deleted by now, and later ones may have been added.
        known = {id: lookup.rows[id] for id in ids if id in lookup.rows}
        live = self._still_live([*known.values()])
        row_by_id = {id: row for id, row in known.items() if row in live}
        row_by_id |= self.live_from(lookup.stop, ids)
        return [*row_by_id.items()]

    def remember(self, rows: Sequence[int], ids: Sequence[str], stop: int) -> None:
        """Add the ids of documents in later rows, which end before `stop`, to the known hashes."""
        known = self.id_cache.hashes
        if known is None:
            return
        if (known.stop, known.epoch) == (self.rows, self.epoch):  # no rows in between are missing
            self.id_cache.hashes = known.with_later(rows, ids, stop)

    def live_from(self, start: int, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Pairs (id, row) of the live documents with these ids, in the rows from `start` on."""
        if start >= self.rows:
            return []

        # By hashes, which few ids share.
        hashes = self._hashes_of_ids()
        if hashes is not None:
            rows = hashes.rows_of(ids)
            candidates = self._still_live(rows[rows >= start])
            if not candidates:
                return []
            read = self.in_lines(candidates)
            if read is not None:
                wanted = set(ids)
                return [(each.id, row) for row, each in read.items() if each.id in wanted]

        # By queries. A join with the new rows would read every text; a list of ids does not.
        sql = f"""SELECT id, "row" FROM {BARE_DOCUMENTS}
            WHERE "row" >= ? AND "row" < ? AND id IN (SELECT unnest(?::VARCHAR[]))"""
        matches = list[tuple[str, int]]()
        for part in batches(len(ids), IDS_AT_ONCE):
            matches += self.fetch(sql, [start, self.rows, list(ids[part])])
        live = self._still_live([row for _, row in matches])
        return [(id, row) for id, row in matches if row in live]

    def _hashes_of_ids(self) -> IdHashes | None:
        """The hashes of all ids; None until the second addition of this process."""
        known = self.id_cache.hashes
        if known is None:
            return None
        if known.epoch != self.epoch:
            known = self._hash_all()
        elif known.stop < self.rows:
            known = self._hash_later(known)
        self.id_cache.hashes = known
        return known

    def _hash_all(self) -> IdHashes:
        """Hash the ids of all documents, including deleted ones."""
        sql = f'SELECT id, "row" FROM {BARE_DOCUMENTS} WHERE {BETWEEN}'
        parts = [_hash_ids((), ())]
        for part in batches(self.rows, IDS_AT_ONCE):
            with self.reading() as cursor:  # arrays take a quarter of the time of tuples
                read = cursor.execute(sql, [part.start, part.stop]).fetchnumpy()
            parts.append(_hash_ids(read["id"].tolist(), read["row"]))
        return IdHashes(_in_order(np.concatenate(parts, axis=1)), self.rows, self.epoch)

    def _hash_later(self, known: IdHashes) -> IdHashes:
        """Return the known hashes and those of the rows of later commits.

        The ids of a few rows are read from the lines; if there are more, all ids are hashed again.
        """
        rows = self.manifest.document_rows.first_rows(np.arange(known.stop, self.rows))
        read = self.in_lines(rows.tolist())
        if read is None:
            return self._hash_all()
        return known.with_later([*read], [each.id for each in read.values()], self.rows)

    def generated_ids(self, prefix: str) -> dict[str, int]:
        """Map generated ids (prefix, colon, number) of live documents to their rows."""
        rows = self.fetch(
            f'SELECT id, "row" FROM {self.live()} WHERE starts_with(id, ?)',
            [f"{prefix}:"],
        )
        return {id: row for id, row in rows if id[len(prefix) + 1 :].isdecimal()}

    def new_columns(self, columns: Mapping[str, str]) -> dict[str, str]:
        """The given columns that don't exist yet."""
        existing = self._by_lower_name
        return {name: type_ for name, type_ in columns.items() if name.lower() not in existing}

    @property
    def _by_lower_name(self) -> dict[str, str]:
        """Map lower-case names to the names of columns."""
        return {name.lower(): name for name in self.columns}

    def origins_of_place(self, place: str) -> set[str]:
        """Origins of the live documents of a place."""
        live = self.live(table="origins")
        rows = self.fetch(f"SELECT DISTINCT slimdex_origin FROM {live} WHERE {PLACE} = ?", [place])
        return {origin for (origin,) in rows}

    def count_of_place(self, place: str) -> int:
        """Number of live documents of a place."""
        live = self.live(table="origins")
        ((count,),) = self.fetch(f"SELECT count(*) FROM {live} WHERE {PLACE} = ?", [place])
        return int(count)

    def is_of_others(self, id: str, place: str) -> bool:
        """True if a live document has the id and is known to come from another place."""
        live = self.live(table="origins")
        return bool(self.fetch(f"SELECT 1 FROM {live} WHERE id = ? AND {PLACE} <> ?", [id, place]))

    def gone_from(
        self, places: Sequence[str], current: Sequence[str]
    ) -> list[tuple[int, str, str]]:
        """Row, id and place of live documents of `places` with an origin that is not `current`."""
        live = self.live(table="origins")
        return self.fetch(
            f"""SELECT "row", id, {PLACE} FROM {live}
            WHERE {PLACE} IN (SELECT unnest(?::VARCHAR[]))
            AND slimdex_origin NOT IN (SELECT unnest(?::VARCHAR[])) ORDER BY "row" """,
            [[*places], [*current]],
        )

    def origins_of(self, rows: Sequence[int]) -> Origins:
        """Map documents, given by their first rows, to their origins."""
        sql = f'SELECT "row", slimdex_origin FROM origins WHERE {AMONG}'
        return dict(self.fetch(sql, [[*rows]]))

    def rows_of_place(self, place: str) -> list[int]:
        """First rows of all documents of a place, including deleted ones."""
        rows = self.fetch(f'SELECT "row" FROM origins WHERE {PLACE} = ?', [place])
        return [row for (row,) in rows]

    def without_stamps(self, rows: Rows) -> Origins:
        """Return origins without stamps for all documents from the places of some rows.

        An undo brings these rows back or removes them, but leaves their files as they are. Without
        stamps, the next sync reads all files of these places again.
        """
        return dict(
            self.fetch(
                f"""SELECT "row", {PLACE} || '/' FROM origins WHERE {PLACE} IN (
                    SELECT {PLACE} FROM origins WHERE "row" IN (SELECT unnest(?::BIGINT[]))
                )""",
                [rows.tolist()],
            )
        )

    def content_digests(self, rows: Rows) -> list[str]:
        """MD5 of the title, a line break and the text of documents, by their first rows."""
        sql = f"SELECT md5(title || chr(10) || text) FROM {BARE_DOCUMENTS} WHERE {AMONG}"
        return [digest for (digest,) in self.fetch(sql, [rows.tolist()])]

    def rows_of_new_ids(self, start: int) -> Rows:
        """Documents from row `start` on whose ids no earlier live document has."""
        earlier = f"""SELECT id FROM {self.live('id, "row"')} WHERE "row" < ?"""
        sql = f'SELECT "row" FROM {BARE_DOCUMENTS} WHERE "row" >= ? AND id NOT IN ({earlier})'
        return np.array([row for (row,) in self.fetch(sql, [start, start])], dtype=np.int64)
