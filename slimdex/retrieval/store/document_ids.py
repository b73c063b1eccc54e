"""DocumentIds and DocumentOrigins: rows by id, and where each document came from.

An origin is a digest of the place (32 characters), "/", and a stamp that changes with the file, or
none if unknown. `files.input_files` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.suggestions import did_you_mean

from ..sql import identifier
from .database import COLUMNS_AT_ONCE, Database
from .draft import draft_of
from .metadata_columns import MetadataColumns
from .passages_table import PassagesTable
from .schema import OWN

IDS_AT_ONCE = 65_536
COMPARED, COMPARED_CHARACTERS = 100_000, 100
"""Most rows whose ids are compared with an unknown one, which takes some milliseconds; its most
characters."""
PLACE = "left(slimdex_origin, 32)"
"""The digest of an origin's place. (DuckDB 2.0.0 fails on `split_part` of an all-NULL column.)"""


@dataclass(frozen=True)
class Looked:
    """Ids that were looked up in the rows 0 .. stop of an epoch, and the rows of those found."""

    ids: frozenset[str] = frozenset()
    rows: Mapping[str, int] = field(default_factory=dict)
    stop: int = 0
    epoch: int = 0


@dataclass
class LastLooked:
    """The ids and rows of the last lookup, in any commit."""

    value: Looked = Looked()


class DocumentIds:
    """Ids in the table of documents.

    Looking up ids reads those of all documents. An addition therefore looks up its ids before its
    turn, and in its turn only rows that were added since: see `look_up`.
    """

    def __init__(
        self,
        database: Database,
        columns: MetadataColumns,
        passages: PassagesTable,
        last: LastLooked,
    ) -> None:
        self._database, self._columns, self._passages = database, columns, passages
        self._last = last

    def by_row(self, stop: int) -> list[str]:
        """Id of the document of each row 0 .. stop, including deleted documents."""
        rows = self._database.fetch(
            f"""SELECT id, len(starts) FROM {OWN} LEFT JOIN passages USING ("row")
            WHERE "row" < ? ORDER BY "row" """,
            [stop],
        )
        return [id for id, count in rows for _ in range(count or 1)]

    def of(self, rows: Rows) -> list[str]:
        """Ids of documents, given their rows (n,) in ascending order."""
        ids = self._database.fetch(
            f"""SELECT id FROM {OWN} WHERE "row" BETWEEN ? AND ?
            AND "row" IN (SELECT unnest(?::BIGINT[])) ORDER BY "row" """,
            [int(rows[0]), int(rows[-1]), rows.tolist()],
        )
        return [id for (id,) in ids]

    def between(self, start: int, stop: int) -> tuple[str, str]:
        """Ids of the first and the last document with rows in start .. stop."""
        rows = [self._passages.first_row(start), self._passages.first_row(stop - 1)]
        ids = self._database.fetch(
            f"""SELECT id FROM {OWN} WHERE "row" IN (?, ?) ORDER BY "row" """, rows
        )
        return ids[0][0], ids[-1][0]

    def rows(self, ids: Sequence[str]) -> Rows:
        """Live rows of the given ids, in order; raises `InputError` for an unknown id."""
        return np.array(sorted(self.row_by_id(ids).values()), dtype=np.int64)

    def row_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """Map ids to their live rows; raises `InputError` if an id is unknown."""
        known = dict(self._live(ids))
        if unknown := [id for id in ids if id not in known]:
            raise InputError(
                f"unknown id {shortened(unknown[0])}; expected the id of a document"
                f"{self._meant(unknown[0])}"
            )
        return known

    def _meant(self, id: str) -> str:
        """A question whether another live id is meant; "" if none is alike, or there are too many.

        That is the id of a file of this name in some folder, or else the one that differs least.
        """
        if self._database.contents.rows > COMPARED or len(id) > COMPARED_CHARACTERS:
            return ""
        live, name = self._database.live("id"), f"/{id.lower()}"
        if found := self._database.fetch(
            f"""SELECT id FROM {live} WHERE suffix(lower(id), ?) OR contains('/' || lower(id), ?)
            ORDER BY len(id), id LIMIT 1""",
            [name, f"{name}."],
        ):
            return f"; did you mean {shortened(found[0][0])}?"
        found = self._database.fetch(
            f"""SELECT id FROM {live} WHERE abs(len(id) - ?) <= 2
            ORDER BY levenshtein(lower(id), lower(?)), id LIMIT 1""",
            [len(id), id],
        )
        return did_you_mean(id, [near for (near,) in found])

    def known(self, ids: Sequence[str]) -> dict[str, int]:
        """Map those ids that exist to their live rows."""
        return dict(self._live(ids))

    def look_up(self, ids: Sequence[str]) -> dict[str, int]:
        """Map those ids that exist to their live rows, and remember that."""
        contents, rows = self._database.contents, dict(self._live_from(0, ids))
        self._last.value = Looked(frozenset(ids), rows, contents.rows, contents.epoch)
        return rows

    def _live(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Rows (id, row) of the live documents with these ids."""
        looked, contents = self._last.value, self._database.contents
        is_current = looked.epoch == contents.epoch and looked.stop <= contents.rows
        if not (is_current and looked.ids and looked.ids.issuperset(ids)):
            return self._live_from(0, ids)
        known = [(id, looked.rows[id]) for id in ids if id in looked.rows]
        live = contents.live([row for _, row in known])
        still = {id: row for id, row in known if row in live}
        return [*(still | dict(self._live_from(looked.stop, ids))).items()]

    def _live_from(self, start: int, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Rows (id, row) from `start` on of the live documents with these ids."""
        contents = self._database.contents
        if start >= contents.rows:
            return []
        # A join with the new rows would read every text; a list of ids does not.
        sql = f"""SELECT id, "row" FROM {OWN}
            WHERE "row" >= ? AND "row" < ? AND id IN (SELECT unnest(?::VARCHAR[]))"""
        found = list[tuple[str, int]]()
        for part in batches(len(ids), IDS_AT_ONCE):
            found += self._database.fetch(sql, [start, contents.rows, list(ids[part])])
        live = contents.live([row for _, row in found])
        return [(id, row) for id, row in found if row in live]

    def made_up(self, prefix: str) -> dict[str, int]:
        """Map generated ids (prefix, colon, number) of live documents to their rows."""
        rows = self._database.fetch(
            f'SELECT id, "row" FROM {self._database.live()} WHERE starts_with(id, ?)',
            [f"{prefix}:"],
        )
        return {id: row for id, row in rows if id[len(prefix) + 1 :].isdecimal()}

    def replaced(self, first_row: int) -> Rows:
        """Live rows whose id occurs again from first_row on."""
        again = self._database.fetch(f'SELECT id FROM {OWN} WHERE "row" >= ?', [first_row])
        rows = [row for _, row in self._live([id for (id,) in again])]
        return np.array(sorted(rows), dtype=np.int64)

    def duplicate(self, first_row: int) -> tuple[str, int, int] | None:
        """An id that occurs twice from first_row on, with two of its rows; None if none does."""
        rows = self._database.fetch(
            f"""SELECT id, min("row") AS one, max("row") FROM {OWN} WHERE "row" >= ?
            GROUP BY id HAVING count(*) > 1 ORDER BY one LIMIT 1""",
            [first_row],
        )
        return rows[0] if rows else None

    def unchanged(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Rows of the documents start .. stop that equal the live document of the same id in every
        column, and the rows of these live documents.
        """
        columns = ["title", "text", *self._columns.types]
        candidates = []
        for part in batches(stop, IDS_AT_ONCE, start):
            new = self._database.fetch(
                f'SELECT id FROM {OWN} WHERE "row" >= ? AND "row" < ?', [part.start, part.stop]
            )
            alike: list[Any] = self._live([id for (id,) in new])
            for few in batches(len(columns), COLUMNS_AT_ONCE):
                alike = self._alike([row for *_, row in alike], part, columns[few])
            candidates += [rows for _, *rows in alike]
        parts = self._passages.parts_text([row for pair in candidates for row in pair])
        candidates = [(new, old) for new, old in candidates if parts.get(new) == parts.get(old)]
        pairs: Rows = np.array(candidates, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _alike(self, live: Sequence[int], rows: slice, columns: Sequence[str]) -> list[Any]:
        """Rows (id, row, live row) of documents equal to one of some live rows in these columns."""
        selected = ", ".join(["id", '"row"', *map(identifier, columns)])
        names = ", ".join(["id", '"row"', *(f"c{i}" for i in range(len(columns)))])
        same = " AND ".join(f"new.c{i} IS NOT DISTINCT FROM old.c{i}" for i in range(len(columns)))
        # A join with the whole table would read every text; one with known rows does not.
        return self._database.fetch(
            f"""WITH old({names}) AS MATERIALIZED (
                SELECT {selected} FROM documents WHERE "row" IN (SELECT unnest(?::BIGINT[]))
            ), new({names}) AS (SELECT {selected} FROM documents WHERE "row" >= ? AND "row" < ?)
            SELECT id, new."row", old."row" FROM new JOIN old USING (id)
            WHERE {same} ORDER BY new."row" """,
            [live, rows.start, rows.stop],
        )


class DocumentOrigins:
    """Origins of documents: a column of the segments, and changes since these were written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _live(self) -> str:
        return self._database.live(table="origins")

    def _change(self, origins: list[tuple[int, str | None]]) -> None:
        draft_of(self._database).change_origins(dict(origins))

    def known(self, place: str) -> set[str]:
        """Origins of the live documents of a place."""
        rows = self._database.fetch(
            f"SELECT DISTINCT slimdex_origin FROM {self._live()} WHERE {PLACE} = ?", [place]
        )
        return {origin for (origin,) in rows}

    def count(self, place: str) -> int:
        """Number of live documents of a place."""
        ((count,),) = self._database.fetch(
            f"SELECT count(*) FROM {self._live()} WHERE {PLACE} = ?", [place]
        )
        return int(count)

    def is_of_others(self, id: str, place: str) -> bool:
        """True if a live document has the id and is known to come from another place."""
        rows = self._database.fetch(
            f"SELECT 1 FROM {self._live()} WHERE id = ? AND {PLACE} <> ?", [id, place]
        )
        return bool(rows)

    def missing(
        self, places: Sequence[str], current: Sequence[str], first_row: int
    ) -> list[tuple[int, str, str]]:
        """Row, id and place of the live documents of `places` that have none of the `current`
        origins, and whose id does not recur from `first_row` on.
        """
        return self._database.fetch(
            f"""SELECT "row", id, {PLACE} FROM {self._live()}
            WHERE {PLACE} IN (SELECT unnest(?::VARCHAR[]))
            AND slimdex_origin NOT IN (SELECT unnest(?::VARCHAR[]))
            AND id NOT IN (SELECT id FROM {OWN} WHERE "row" >= ?) ORDER BY "row" """,
            [[*places], [*current], first_row],
        )

    def adopt(self, new: Rows, old: Rows) -> None:
        """Give the `old` documents the origins of the identical `new` ones that have one."""
        self._change(
            self._database.fetch(
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
        self._change(
            self._database.fetch(
                f"""SELECT "row", {PLACE} || '/' FROM origins WHERE {PLACE} IN (
                    SELECT {PLACE} FROM origins WHERE "row" IN (SELECT unnest(?::BIGINT[]))
                )""",
                [rows.tolist()],
            )
        )

    def moved(self, first_row: int, gone: Rows) -> int:
        """Number of the documents to delete whose content recurs from `first_row` on under another
        id."""
        ((count,),) = self._database.fetch(
            f"""WITH old AS (
                SELECT md5(title || chr(10) || text) AS hash, count(*) AS count FROM {OWN}
                WHERE "row" IN (SELECT unnest(?::BIGINT[])) GROUP BY 1
            ), new AS (
                SELECT md5(title || chr(10) || text) AS hash, count(*) AS count FROM {OWN}
                WHERE "row" >= ? AND id NOT IN (FROM {self._database.live("id")}) GROUP BY 1
            )
            SELECT coalesce(sum(least(old.count, new.count)), 0) FROM old JOIN new USING (hash)""",
            [gone.tolist(), first_row],
        )
        return int(count)
