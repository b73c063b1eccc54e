"""DocumentOrigins: where each document came from, a column of the table of documents.

An origin is a digest of the place, 32 characters, a "/", and a stamp that changes when the file
does; no stamp where that can't be known. See `sources.origins`, which writes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.indexes.arrays import Rows

from .database import Database

LIVE = """(
    SELECT * FROM documents WHERE NOT deleted AND "row" < (SELECT "rows" FROM state)
)"""
"""Documents that readers see."""
PLACE = "left(slimdex_origin, 32)"
"""Digests of places have so many characters. (DuckDB 2.0.0 fails on `split_part` of a column in
which all is NULL.)"""


class DocumentOrigins:
    """What a catalog knows of its documents' origins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, place: str) -> set[str]:
        """The origins of the live documents of a place."""
        found = self._database.fetch(
            f"SELECT DISTINCT slimdex_origin FROM {LIVE} WHERE {PLACE} = ?", [place]
        )
        return {origin for (origin,) in found}

    def count(self, place: str) -> int:
        """How many live documents are of a place."""
        ((count,),) = self._database.fetch(
            f"SELECT count(*) FROM {LIVE} WHERE {PLACE} = ?", [place]
        )
        return int(count)

    def is_of_others(self, id: str, place: str) -> bool:
        """Whether a live document has an id, and is known to come from another place."""
        found = self._database.fetch(
            f"SELECT 1 FROM {LIVE} WHERE id = ? AND {PLACE} <> ?", [id, place]
        )
        return bool(found)

    def pending_places(self, first_row: int) -> set[str]:
        """Of the documents from `first_row` on; "" where one has no origin."""
        found = self._database.fetch(
            f"SELECT DISTINCT coalesce({PLACE}, '') FROM documents WHERE \"row\" >= ?", [first_row]
        )
        return {place for (place,) in found}

    def missing(
        self, places: Sequence[str], current: Sequence[str], first_row: int
    ) -> list[tuple[int, str, str]]:
        """Row, id and place of the live documents of some places that have none of the `current`
        origins, and whose id no document from `first_row` on has."""
        return self._database.fetch(
            f"""SELECT "row", id, {PLACE} FROM {LIVE}
            WHERE {PLACE} IN (SELECT unnest(?::VARCHAR[]))
            AND slimdex_origin NOT IN (SELECT unnest(?::VARCHAR[]))
            AND id NOT IN (SELECT id FROM documents WHERE "row" >= ?) ORDER BY "row" """,
            [[*places], [*current], first_row],
        )

    def adopt(self, new: Rows, old: Rows) -> None:
        """Documents take the origins of others that are the same, where these have one."""
        self._database.execute(
            """UPDATE documents SET slimdex_origin = fresh.slimdex_origin FROM (
                SELECT old, slimdex_origin
                FROM (SELECT unnest(?::BIGINT[]) AS new, unnest(?::BIGINT[]) AS old)
                JOIN documents ON "row" = new
            ) fresh WHERE documents."row" = fresh.old AND fresh.slimdex_origin IS NOT NULL
            AND documents.slimdex_origin IS DISTINCT FROM fresh.slimdex_origin""",
            [new.tolist(), old.tolist()],
        )

    def forget_stamps(self, first_row: int) -> None:
        """Of the documents before `first_row` that are of the same files as one from there on.

        Those are to be dropped: the files have to be read again.
        """
        self._database.execute(
            f"""UPDATE documents SET slimdex_origin = {PLACE} || '/' WHERE "row" < ?
            AND slimdex_origin IN (SELECT slimdex_origin FROM documents WHERE "row" >= ?)""",
            [first_row, first_row],
        )

    def moved(self, first_row: int, gone: Rows) -> int:
        """How many of the documents that go come again from `first_row` on, under another id."""
        ((count,),) = self._database.fetch(
            f"""WITH old AS (
                SELECT md5(title || chr(10) || text) AS said, count(*) AS count FROM documents
                WHERE "row" IN (SELECT unnest(?::BIGINT[])) GROUP BY 1
            ), new AS (
                SELECT md5(title || chr(10) || text) AS said, count(*) AS count FROM documents
                WHERE "row" >= ? AND id NOT IN (SELECT id FROM {LIVE}) GROUP BY 1
            )
            SELECT coalesce(sum(least(old.count, new.count)), 0) FROM old JOIN new USING (said)""",
            [gone.tolist(), first_row],
        )
        return int(count)
