"""PassagesTable: where documents are cut, and the parts that their texts are known to have.

A document that is one row, and whose text has no parts, is not in it: most are not. One that is
being added has its parts there first, with no passages yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.errors import CorruptError
from slimdex.indexes.json_text import parsed

from ..documents import Document, Part
from ..passages import Passage
from .database import Database
from .document_rows import DocumentRows

PASSAGES = """
    CREATE TABLE passages(
        "row" BIGINT, starts BIGINT[], ends BIGINT[], contexts VARCHAR[], parts VARCHAR
    );
"""
"""A line for a document, by its first row; its other rows come after that one."""


@dataclass(frozen=True)
class Cut:
    """How a document is cut: its passages, of which each has a row, and its text's parts."""

    passages: Sequence[Passage] = ()
    parts: Sequence[Part] = ()

    def of(self, document: Document) -> Document:
        """A document with what is known of its text."""
        return Document(
            document.id,
            document.text,
            document.title,
            document.metadata,
            self.parts,
            tuple((passage.start, passage.end) for passage in self.passages),
        )

    def contents(self, text: str) -> list[str]:
        """What is encoded of each passage."""
        return [passage.content(text) for passage in self.passages]


class PassagesTable:
    """The table of passages in a catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, stop: int) -> DocumentRows:
        """Which documents of the rows 0 .. stop have several."""
        found = self._database.fetch_columns(
            """SELECT "row", len(starts) AS count FROM passages
            WHERE len(starts) > 1 AND "row" < ? ORDER BY "row" """,
            [stop],
        )
        return DocumentRows(found["row"].astype(np.int64), found["count"].astype(np.int64))

    def has_any(self) -> bool:
        """Whether there are documents with passages or parts."""
        return bool(self._database.fetch("SELECT 1 FROM passages LIMIT 1"))

    def between(self, start: int, stop: int) -> dict[int, Cut]:
        """Row -> how it is cut, of the documents whose first row is one of start .. stop."""
        return self._read('"row" >= ? AND "row" < ?', [start, stop])

    def of(self, rows: Sequence[int], epoch: int | None = None) -> dict[int, Cut]:
        """Row -> how it is cut, of some documents by their first row."""
        return self._read('"row" IN (SELECT unnest(?::BIGINT[]))', [[*map(int, rows)]], epoch)

    def parts_text(self, rows: Sequence[int]) -> dict[int, str]:
        """Row -> the parts of its text as they are written, for those that have some."""
        return dict(
            self._database.fetch(
                """SELECT "row", parts FROM passages
                WHERE parts IS NOT NULL AND "row" IN (SELECT unnest(?::BIGINT[]))""",
                [[*map(int, rows)]],
            )
        )

    def insert(self, cuts: Mapping[int, Cut]) -> None:
        """How documents are cut, by their first row; or, without passages, only their parts."""
        columns = [
            [*cuts],
            [[p.start for p in cut.passages] or None for cut in cuts.values()],
            [[p.end for p in cut.passages] or None for cut in cuts.values()],
            [[p.context for p in cut.passages] or None for cut in cuts.values()],
            [parts_written(cut.parts) for cut in cuts.values()],
        ]
        if cuts:
            self._database.execute(
                """INSERT INTO passages SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[][]),
                unnest(?::BIGINT[][]), unnest(?::VARCHAR[][]), unnest(?::VARCHAR[])""",
                columns,
            )

    def uncut(self, start: int, stop: int) -> dict[int, Sequence[Part]]:
        """Row -> parts of the text, of the documents start .. stop that have no passages yet."""
        found = self._read('"row" >= ? AND "row" < ? AND starts IS NULL', [start, stop])
        return {row: cut.parts for row, cut in found.items()}

    def drop_uncut(self, first: int) -> None:
        """Forget what has no passages, among the rows from `first` on."""
        self._database.execute('DELETE FROM passages WHERE "row" >= ? AND starts IS NULL', [first])

    def _read(self, where: str, values: list[Any], epoch: int | None = None) -> dict[int, Cut]:
        found = self._database.fetch(
            f'SELECT "row", starts, ends, contexts, parts FROM passages WHERE {where}',
            values,
            epoch,
        )
        try:
            return {row: _cut(*values) for row, *values in found}
        except (TypeError, ValueError) as error:  # none that we have written
            raise CorruptError(f"{self._database.path}: passages ({error})") from error


def parts_written(parts: Iterable[Part]) -> str | None:
    """Parts as the catalog keeps them, None for none.

    >>> parts_written([Part(0, ["A"], 1)])
    '[[0,["A"],1,""]]'
    """
    values = [[part.start, [*part.headings], part.page, part.anchor] for part in parts]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else None


def parts_read(values: Iterable[Any]) -> tuple[Part, ...]:
    """Parts from what `parts_written` has written, as JSON gives it.

    Raises
    ------
    ValueError
        If it is something else.
    """
    parts = list[Part]()
    for start, headings, page, anchor in values:
        found = Part(start, tuple(headings), page, anchor)
        if why := part_fault(found):
            raise ValueError(why)
        parts.append(found)
    return tuple(parts)


def part_fault(part: Any) -> str | None:
    """What of a part is not as it should be; None if all is."""
    if not isinstance(part, Part) or type(part.start) is not int or part.start < 0:
        return f"{part!r}; expected a Part whose start is a whole number, 0 or more"
    headings = part.headings
    is_list = isinstance(headings, Sequence) and not isinstance(headings, str)
    if not is_list or not all(isinstance(each, str) for each in headings):
        return f"headings={part.headings!r}; expected texts"
    if part.page is not None and type(part.page) is not int:
        return f"page={part.page!r}; expected a whole number or None"
    if not isinstance(part.anchor, str):
        return f"anchor={part.anchor!r}; expected a str"
    return None


def _cut(
    starts: list[int] | None, ends: list[int] | None, contexts: list[str] | None, parts: str | None
) -> Cut:
    passages = [
        Passage(*each) for each in zip(starts or (), ends or (), contexts or (), strict=True)
    ]
    return Cut(passages, parts_read(parsed(parts)) if parts else ())
