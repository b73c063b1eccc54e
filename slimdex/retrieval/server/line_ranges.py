"""Lines of documents, as agents read them: by the numbers of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from slimdex.errors import InputError

from ..commands import id_of
from ..documents import Document, Lines, visible_values
from ..index import Index
from ..store.snapshot import Snapshot


def read_lines(
    index: Index, ranges: Sequence[tuple[str, int, int | None]], longest: int
) -> list[dict[str, Any]]:
    """Read ranges of lines, at most `longest` characters of each, as JSON values.

    A range is a document, named by its id or path, and the numbers of its first and last line, from
    1; None is the document's end. They are lines of its file, or of its text if these are not
    known. Of a range with more than `longest` characters, the first lines are returned; or, if the
    first line is longer, its beginning.

    Raises `InputError` if there are no such lines.
    """
    documents = index.read(Snapshot.of_ids, [id_of(index, id) for id, _, _ in ranges])
    return [
        _lines(document, first, last, longest)
        for document, (_, first, last) in zip(documents, ranges, strict=True)
    ]


def _lines(document: Document, first: int, last: int | None, longest: int) -> dict[str, Any]:
    """Return the lines `first` to `last` of a document, and where they are in its text."""
    starts = line_starts(document.text, document.lines)
    total = starts[-1][1]  # the last line's number in the file
    last = total if last is None else last
    if not 1 <= first <= min(last, total):
        shown = f"lines {first}-{last} of {document.id!r}"
        raise InputError(f"{shown}; expected FIRST-LAST, within its lines 1-{total}")

    # Find where each line begins and ends; the text may have none of them, as of front matter.
    ends = [offset - 1 for offset, _ in starts[1:]] + [len(document.text)]
    lines = [
        (offset, end, number)
        for (offset, number), end in zip(starts, ends, strict=True)
        if first <= number <= last
    ] or [(0, 0, first)]

    # Keep as many whole lines as fit, or the beginning of the first one.
    start = lines[0][0]
    while len(lines) > 1 and lines[-1][1] - start > longest:
        lines.pop()
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text[start : min(lines[-1][1], start + longest)],
        "line": lines[0][2],
        "last_line": lines[-1][2],
        "lines": total,
        "start": start,
        "metadata": visible_values(document.metadata),
    }


def line_starts(text: str, lines: Lines) -> list[tuple[int, int]]:
    r"""Return the offset at which each line of a text begins, and its number in the file.

    >>> line_starts("Tea\n\nBoil water. Wait.", [(0, 4), (17, 7)])
    [(0, 4), (4, 5), (5, 6), (17, 7)]
    """
    after_breaks = {match.end() for match in re.finditer("\n", text)}
    known = dict(lines)
    starts = list[tuple[int, int]]()
    line = 0
    for offset in sorted({0, *after_breaks, *known}):
        line = known.get(offset, line + 1)  # if unknown, the next number
        starts.append((offset, line))
    return starts
