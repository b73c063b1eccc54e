"""DocumentStore: the documents of one commit, and in a change also the new ones."""

from __future__ import annotations

from pathlib import Path

from slimdex.indexes.arrays import Rows, batches

from ..sql import identifier
from .database import COLUMNS_AT_ONCE, Database
from .document_ids import DocumentIds, DocumentOrigins, LastLooked
from .documents_table import DocumentsTable
from .draft import Draft, draft_of
from .metadata_columns import MetadataColumns
from .passages_table import PassagesTable
from .readings import Readings
from .schema import OWN, TABLES
from .segments import written
from .state import Segment

NUMBERED = f"""(
    SELECT "row" AS old, count, (sum(count) OVER (ORDER BY "row") - count)::BIGINT AS new FROM (
        SELECT "row", coalesce(len(starts), 1) AS count
        FROM {OWN} LEFT JOIN passages USING ("row") WHERE "row" IN (SELECT "row" FROM live)
    )
)"""
"""The live documents as `compact` renumbers them: old first row, number of rows, new first row."""


class DocumentStore:
    """Documents, identified by their first row. Any thread may read."""

    def __init__(self, database: Database, readings: Readings, looked: LastLooked) -> None:
        self.database, self.readings, self.looked = database, readings, looked
        self.columns = MetadataColumns(database)
        self.passages = PassagesTable(database)
        self.documents = DocumentsTable(database, self.columns, self.passages)
        self.ids = DocumentIds(database, self.columns, self.passages, looked)
        self.origins = DocumentOrigins(database)

    def draft(self, folder: Path) -> DocumentStore:
        """A store for the next commit, whose new documents are written to a file in a folder."""
        return DocumentStore(
            Draft(self.database, folder), Readings(self.readings.file), self.looked
        )

    def drop_rows(self, rows: Rows, first: int) -> None:
        """Delete some of the new documents, not cut yet; close the gaps from `first` on."""
        draft = draft_of(self.database)
        for table in (draft.documents, draft.passages):
            draft.execute(
                f'DELETE FROM {table} WHERE "row" IN (SELECT unnest(?::BIGINT[]))', [rows.tolist()]
            )
        for table in (draft.passages, draft.documents):
            draft.execute(
                f"""UPDATE {table} AS renumbered SET "row" = numbered.new FROM (
                    SELECT "row" AS old, ? + row_number() OVER (ORDER BY "row") - 1 AS new
                    FROM (SELECT "row" FROM {draft.documents})
                ) numbered
                WHERE renumbered."row" = numbered.old AND numbered.old <> numbered.new""",
                [first],
            )

    def copied(self, path: Path, first: int, stop: int) -> Segment:
        """Write the rows first .. stop, deleted ones included, to one segment."""
        inside = f'WHERE "row" >= {first} AND "row" < {stop}'
        return written(
            self.database,
            path,
            (first, stop),
            f"SELECT * FROM documents {inside}",
            f"SELECT * FROM passages {inside}",
        )

    def compacted(self, path: Path, stop: int) -> Segment:
        """Write the live documents, renumbered in order as rows 0 .. stop, to a segment."""
        live, numbered = f"""live AS {self.database.live('"row"')}""", f"numbered AS {NUMBERED}"
        own = ["documents.id", "documents.title", "documents.text", "origins.slimdex_origin"]
        users = [f"documents.{identifier(column)}" for column in self.columns.types]
        selected = ", ".join(own + users)
        return written(
            self.database,
            path,
            (0, stop),
            f"""WITH {live}, {numbered} SELECT numbered.new AS "row", {selected} FROM documents
            JOIN numbered ON documents."row" = numbered.old
            JOIN origins ON origins."row" = numbered.old""",
            f"""WITH {live}, {numbered} SELECT numbered.new AS "row", passages.* EXCLUDE ("row")
            FROM passages JOIN numbered ON passages."row" = numbered.old""",
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
