"""DocumentStore: the catalog of an index, one DuckDB file, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import CorruptError, InputError

from ..duckdb_library import duckdb
from ..sql import identifier
from ..user_cache import FileFact
from .database import COLUMNS_AT_ONCE, Database
from .document_ids import DocumentIds, DocumentOrigins
from .documents_table import DocumentsTable
from .duckdb_connection import SIDE_FILES
from .metadata_columns import MetadataColumns
from .passages_table import PassagesTable, ReadingsTable
from .schema import OWN, SCHEMA, TABLES, check_plain, check_schema
from .state import FORMAT, State

INSERT_STATE = 'INSERT INTO state(format, "rows", epoch, version, body) VALUES (?, ?, ?, ?, ?)'
NUMBERED = f"""(
    SELECT "row" AS old, count, (sum(count) OVER (ORDER BY "row") - count)::BIGINT AS new FROM (
        SELECT "row", coalesce(len(starts), 1) AS count
        FROM {OWN} LEFT JOIN passages USING ("row") WHERE NOT deleted
    )
)"""
"""The live documents as `compact` renumbers them: old first row, number of rows, new first row."""
Blocks = Sequence[tuple[int, str]]
"""Blocks of a file: number and SHA-256."""
NO_BLOCK = (1 << 62) - 1
"""Larger than any number of a block."""


class BlocksTable:
    """Checksums of blocks of append-only files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, file: str) -> dict[int, str]:
        """Checksum of each block of a file."""
        return dict(self._database.fetch("SELECT block, sha256 FROM blocks WHERE file = ?", [file]))

    def add(self, file: str, blocks: Blocks, table: str = "blocks") -> None:
        """Insert checksums of new blocks, into this table or another one like it."""
        self._database.execute(
            f"INSERT INTO {table} SELECT ?, unnest(?::BIGINT[]), unnest(?::VARCHAR[])",
            [file, [block for block, _ in blocks], [digest for _, digest in blocks]],
        )

    def replace(self, file: str, block: int, sha256: str) -> None:
        """Replace the checksum of one block of a file."""
        self._database.execute("DELETE FROM blocks WHERE file = ? AND block = ?", [file, block])
        self.add(file, [(block, sha256)])

    def replace_from(self, tails: Mapping[str, tuple[int, Blocks]], files: set[str]) -> None:
        """Replace the checksums of files' last blocks: file -> the first of these, and all.

        Delete those of files that are not among `files`.
        """
        kept = dict.fromkeys(files, NO_BLOCK) | {file: first for file, (first, _) in tails.items()}
        self._database.execute(
            "DELETE FROM blocks WHERE block >= coalesce(map(?::VARCHAR[], ?::BIGINT[])[file], 0)",
            [list(kept), list(kept.values())],
        )
        if not tails:
            return
        rows = [(file, *block) for file, (_, blocks) in tails.items() for block in blocks]
        self._database.execute(
            "INSERT INTO blocks SELECT unnest(?::VARCHAR[]), unnest(?::BIGINT[]), "
            "unnest(?::VARCHAR[])",
            [[row[column] for row in rows] for column in range(3)],
        )


class DocumentStore:
    """The catalog of an index. Any thread may read, one at a time may write.

    Documents are identified by their first row.

    Attributes
    ----------
    database : the file.
    columns : the user's columns.
    passages : passages of documents, and their rows.
    readings : how much of the texts was read.
    documents : their titles, texts and metadata.
    ids : rows by id.
    origins : where documents came from.
    blocks : checksums of the index's other files.
    """

    def __init__(self, path: Path) -> None:
        self.database = database = Database(path, partial(_check, path))
        self.columns = MetadataColumns(database)
        self.passages = PassagesTable(database)
        self.readings = ReadingsTable(database)
        self.documents = DocumentsTable(database, self.columns, self.passages)
        self.ids = DocumentIds(database, self.columns, self.passages)
        self.origins = DocumentOrigins(database)
        self.blocks = BlocksTable(database)

    @classmethod
    def create(cls, path: Path, state: State) -> DocumentStore:
        """Create a catalog without documents."""
        new = Database(path, creates=True)
        with new.writing(), new.transaction():
            new.execute(SCHEMA)
            new.execute(INSERT_STATE, _values(state))
        new.close()
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> DocumentStore:
        """Open an existing catalog, with its columns.

        Raises `InputError` if the catalog is of a newer format, and `CorruptError` if it is
        damaged or not a slimdex catalog.
        """
        store = cls(path)
        store.columns.read_again()
        return store

    @contextmanager
    def transaction(self, committed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Commit atomically and durably at the end; then `committed` is called."""

        def follow() -> None:
            self.columns.committed = self.columns.types
            committed()

        with self.columns.following(), self.database.transaction(follow):
            yield

    def state(self) -> State:
        """The committed state or, within a transaction, the one to be committed."""
        ((body,),) = self.database.fetch("SELECT body FROM state")
        return State.from_json(body)

    def set_state(self, state: State) -> None:
        """Replace the state."""
        self.database.execute(
            'UPDATE state SET format = ?, "rows" = ?, epoch = ?, version = ?, body = ?',
            _values(state),
        )

    def version(self) -> int:
        """Version of the committed state."""
        ((committed,),) = self.database.fetch("SELECT version FROM state")
        return int(committed)

    def discard_from(self, row: int) -> None:
        """Delete the documents from `row` on, whose files have to be read again."""
        self.origins.forget_stamps(row)
        for table in ("documents", "partly_read", "passages"):
            self.database.execute(f'DELETE FROM {table} WHERE "row" >= ?', [row])

    def drop_rows(self, rows: Rows, first: int) -> None:
        """Delete some of the documents from `first` on, which are not cut yet; close the gaps."""
        for table in ("documents", "passages"):
            self.database.execute(
                f'DELETE FROM {table} WHERE "row" IN (SELECT unnest(?::BIGINT[]))', [rows.tolist()]
            )
        for table in ("passages", "documents"):
            self.database.execute(
                f"""UPDATE {table} SET "row" = numbered.new FROM (
                    SELECT "row" AS old, ? + row_number() OVER (ORDER BY "row") - 1 AS new
                    FROM {OWN} WHERE "row" >= ?
                ) numbered WHERE {table}."row" = numbered.old AND numbered.old <> numbered.new""",
                [first, first],
            )

    def compact(self, state: State, blocks: Mapping[str, Blocks]) -> None:
        """Replace this catalog with a new one without deleted documents: the commit of `compact`.

        Documents are renumbered in the same order. `blocks` are the checksums of the index's files.
        """
        with self.database.writing(), self.database.attached("fresh") as new:
            for table, columns in TABLES.items():
                if table != "documents":
                    self.database.execute(f"CREATE TABLE fresh.{table}({columns})")
            self._copy_live(self.passages.rows(state.staged).is_one_each)
            self.database.execute(INSERT_STATE.replace("INTO ", "INTO fresh."), _values(state))
            for file, checksums in blocks.items():
                self.blocks.add(file, checksums, "fresh.blocks")
        with self.database.writing():
            self.database.replace_with(new)

    def _copy_live(self, is_one_each: bool) -> None:
        """Copy the data of documents that are not deleted, with their new rows."""
        self.database.execute(
            """CREATE TABLE fresh.documents AS
            SELECT (row_number() OVER (ORDER BY "row") - 1)::BIGINT AS "row",
                * EXCLUDE ("row") FROM documents WHERE NOT deleted ORDER BY "row" """
            if is_one_each
            else f"""CREATE TABLE fresh.documents AS
            SELECT numbered.new AS "row", documents.* EXCLUDE ("row") FROM documents
            JOIN {NUMBERED} numbered ON documents."row" = numbered.old ORDER BY 1"""
        )
        self.database.execute(
            f"""INSERT INTO fresh.partly_read SELECT new + "row" - old, tokens, read
            FROM partly_read ASOF JOIN {NUMBERED} ON "row" >= old
            WHERE "row" < old + count ORDER BY 1"""
        )
        self.database.execute(
            f"""INSERT INTO fresh.passages SELECT new, passages.* EXCLUDE ("row")
            FROM passages JOIN {NUMBERED} ON "row" = old ORDER BY 1"""
        )

    def read_all(self) -> None:
        """Read every value, so that DuckDB verifies checksums; raise `CorruptError` on damage."""
        for table in TABLES:
            names = [name for name, *_ in self.database.fetch(f"DESCRIBE {table}")]
            for few in batches(len(names), COLUMNS_AT_ONCE):
                values = ", ".join(map(identifier, names[few]))
                self.database.fetch(f"SELECT bit_xor(hash({values})) FROM {table}")

    def is_numbered(self, stop: int) -> bool:
        """True if the rows 0 .. stop belong to one document each, and no document has others."""
        ((strays,),) = self.database.fetch(
            f"""SELECT count(*) FROM passages LEFT JOIN {OWN} USING ("row")
            WHERE id IS NULL OR len(starts) <> len(ends) OR len(starts) <> len(contexts)"""
        )
        ((first, gaps, last),) = self.database.fetch(
            f"""SELECT coalesce(min("row"), 0), count(*) FILTER ("row" + count <> next),
                coalesce(max("row" + count), 0)
            FROM (
                SELECT "row", count, lead("row", 1, "row" + count) OVER (ORDER BY "row") AS next
                FROM (
                    SELECT "row", coalesce(len(starts), 1) AS count
                    FROM {OWN} LEFT JOIN passages USING ("row")
                )
            )"""
        )
        return bool((strays, first, gaps, last) == (0, 0, 0, stop))


def _values(state: State) -> list[Any]:
    """The row of the table of the state."""
    return [FORMAT, state.rows, state.epoch, state.version, state.to_json()]


def _check(path: Path, cursor: duckdb.DuckDBPyConnection) -> None:
    """Raise `CorruptError` for a catalog not made by slimdex, `InputError` for a newer format.

    A file that passed is not checked again until it changes: DuckDB takes a tenth of a second to
    list its functions. A migration from an older format will run between the two checks of the
    tables.
    """
    sides = [path.with_name(path.name + end) for end in SIDE_FILES]
    checked = FileFact(f"catalog-{FORMAT}-{duckdb.__version__}", *sides)
    is_known = checked.known() is True
    try:
        if not is_known:
            check_plain(cursor)
        rows = cursor.execute("SELECT format FROM state").fetchall()
        _check_format(path, [format_ for (format_,) in rows])
        if not is_known:
            check_schema(cursor)
            checked.learn(True)
    except CorruptError as error:
        raise CorruptError(f"{path}: not a slimdex catalog: {error}") from error


def _check_format(path: Path, formats: Sequence[int | None]) -> None:
    if len(formats) != 1:
        raise CorruptError(f"its table 'state' has {len(formats)} rows; expected one")
    if formats[0] is None or formats[0] < 1:
        raise CorruptError(f"format {formats[0]}; expected 1 or more")
    if formats[0] > FORMAT:
        raise InputError(
            f"{path}: format {formats[0]}; expected {FORMAT} (made by a newer slimdex)"
        )
