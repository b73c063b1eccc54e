"""Lines of documents, as agents read them: by the numbers of their files."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
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
    parts = []
    for document, (_, first, last) in zip(documents, ranges, strict=True):
        parts.append(_lines(document, first, last, longest))
    return parts


def _lines(document: Document, first: int, last: int | None, longest: int) -> dict[str, Any]:
    """Return the lines `first` to `last` of a document, and where they are in its text.

    See `read_lines`.
    """
    starts = line_starts(document.text, document.lines)
    total = starts[-1][1]  # the last line's number in the file
    if not 1 <= first <= total or (last is not None and last < first):
        shown = f"lines {first}-{'' if last is None else last} of {document.id!r}"
        raise InputError(f"{shown}; expected FIRST-LAST, within its lines 1-{total}")

    # Take the text of these lines, without the line break after the last one.
    begin, stop = _items_of_lines(starts, first, last)
    start = starts[begin][0]
    end = starts[stop][0] - 1 if stop < len(starts) else len(document.text)
    text = document.text[start : max(start, end)]

    # Keep as many whole lines as fit, or the beginning of the first one.
    if len(text) > longest:
        line_break = text.rfind("\n", 0, longest + 1)
        text = text[: longest if line_break < 0 else line_break]
        stop = bisect_right(starts, start + len(text), key=lambda pair: pair[0])
    return {
        "id": document.id,
        "title": document.title,
        "text": text,
        "line": starts[begin][1] if begin < stop else first,
        "last_line": starts[stop - 1][1] if begin < stop else first,
        "lines": total,
        "start": start,
        "metadata": visible_values(document.metadata),
    }


def _items_of_lines(starts: Lines, first: int, last: int | None) -> tuple[int, int]:
    """Return the range (begin, stop) in `starts` of the file's lines `first` to `last`.

    `starts` has pairs: the offset of a line in the text, and its number in the file. The range is
    empty (stop <= begin) if the text has none of these lines, for instance front matter.
    """
    begin = bisect_left(starts, first, key=lambda pair: pair[1])
    # An extracted text may have empty lines between blocks that the file lacks. Such a line has
    # the same number as the line after it, so begin at the last line with this number.
    while begin + 1 < len(starts) and starts[begin + 1][1] == starts[begin][1]:
        begin += 1
    if last is None:
        return begin, len(starts)
    return begin, bisect_right(starts, last, key=lambda pair: pair[1])


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
