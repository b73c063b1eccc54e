"""Merging: segments that are written from others, in order or compacted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from slimdex.system.duckdb_library import duckdb, identifier

from .document_store import DocumentStore
from .engine import disk_error, disk_errors
from .segments import BARE_DOCUMENTS, attaching, publish_segment
from .state import Segment

ALIKE = 8
"""Segments of about the same size that become one: so a million rows added by thousands are copied
three times each, and are in at most 22 segments."""
NUMBERED = f"""(
    SELECT "row" AS old, count, (sum(count) OVER (ORDER BY "row") - count)::BIGINT AS new FROM (
        SELECT "row", coalesce(len(starts), 1) AS count
        FROM {BARE_DOCUMENTS} LEFT JOIN passages USING ("row")
        WHERE "row" IN (SELECT "row" FROM live)
    )
)"""
"""The live documents as `compact` renumbers them: old first row, number of rows, new first row."""


def to_merge(segments: Sequence[Segment]) -> int:
    """Position from which all segments should be merged; the number of segments if none should.

    From there on, at least `ALIKE` segments have over an eighth of the rows of the first one.

    >>> to_merge([Segment("a", 1, "", 0, 9)] + 7 * [Segment("b", 1, "", 9, 10)])
    8
    >>> to_merge([Segment("a", 1, "", 0, 7)] + 7 * [Segment("b", 1, "", 7, 8)])
    0
    """
    for position, first in enumerate(segments):
        of_similar_size = sum(ALIKE * len(each) > len(first) for each in segments[position:])
        if of_similar_size >= ALIKE:
            return position
    return len(segments)


def write_copy(store: DocumentStore, path: Path, first: int, stop: int) -> Segment:
    """Write the rows from `first` to before `stop`, including deleted ones, to one segment."""
    inside = f'WHERE "row" >= {first} AND "row" < {stop}'
    return _write(
        store,
        path,
        (first, stop),
        f"SELECT * FROM documents {inside}",
        f"SELECT * FROM passages {inside}",
    )


def write_live(store: DocumentStore, path: Path, stop: int) -> Segment:
    """Write the live documents, renumbered from row 0 to before `stop` in order, to a segment."""
    live = f"""live AS {store.live('"row"')}"""
    numbered = f"numbered AS {NUMBERED}"
    built_in = ["documents.id", "documents.title", "documents.text", "origins.slimdex_origin"]
    users = [f"documents.{identifier(column)}" for column in store.columns]
    selected = ", ".join(built_in + users)
    return _write(
        store,
        path,
        (0, stop),
        f"""WITH {live}, {numbered} SELECT numbered.new AS "row", {selected} FROM documents
        JOIN numbered ON documents."row" = numbered.old
        JOIN origins ON origins."row" = numbered.old""",
        f"""WITH {live}, {numbered} SELECT numbered.new AS "row", passages.* EXCLUDE ("row")
        FROM passages JOIN numbered ON passages."row" = numbered.old""",
    )


def is_numbered(store: DocumentStore, stop: int) -> bool:
    """True if each row before `stop` belongs to one document, and no document has other rows."""
    # Passages without a document, or whose starts, ends and contexts differ in number.
    ((strays,),) = store.fetch(
        f"""SELECT count(*) FROM passages LEFT JOIN {BARE_DOCUMENTS} USING ("row")
        WHERE id IS NULL OR len(starts) <> len(ends) OR len(starts) <> len(contexts)"""
    )

    # Each document begins where the one before ends: a row, or one for each passage.
    ((first, gaps, last),) = store.fetch(
        f"""SELECT coalesce(min("row"), 0), count(*) FILTER ("row" + count <> next),
            coalesce(max("row" + count), 0)
        FROM (
            SELECT "row", count, lead("row", 1, "row" + count) OVER (ORDER BY "row") AS next
            FROM (
                SELECT "row", coalesce(len(starts), 1) AS count
                FROM {BARE_DOCUMENTS} LEFT JOIN passages USING ("row")
            )
        )"""
    )
    return bool((strays, first, gaps, last) == (0, 0, 0, stop))


def _write(
    store: DocumentStore, path: Path, rows: tuple[int, int], documents: str, passages: str
) -> Segment:
    """Write a segment from its first row, the row after its last, and the queries of its tables.

    Raises `OSError` if the disk fails.
    """
    new = path.with_name(path.name + ".tmp")
    name = f"written_{token_hex(4)}"
    new.unlink(missing_ok=True)
    try:
        with store.reading() as connection:
            connection.execute(attaching(new, name, rows[1] - rows[0]))
            try:
                connection.execute(f"CREATE TABLE {name}.documents AS {documents}")
                connection.execute(f"CREATE TABLE {name}.passages AS {passages}")
                connection.execute(f"CHECKPOINT {name}")
            finally:
                with suppress(duckdb.Error):
                    connection.execute(f"DETACH {name}")
    except BaseException as error:
        # Remove the file and DuckDB's log beside it.
        for left in path.parent.glob(f"{new.name}*"):
            with suppress(OSError):
                left.unlink()
        if isinstance(error, disk_errors()):
            raise disk_error(new, error) from error
        raise
    return publish_segment(new, path, *rows)
