"""Document, with its parts, and Hit: the input and output of an index, also as JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any
from uuid import UUID

from slimdex.errors import InputError, shorten
from slimdex.system.unicode_text import check_unicode

if TYPE_CHECKING:
    from slimdex.indexes.arrays import Matrix

Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]

BUILT_IN_COLUMNS = ("row", "id", "title", "text", "deleted", "slimdex_origin")
"""Columns of the documents table that are not the user's, whose names are reserved."""

RECORD = "slimdex_metadata"
"""Column of a dict of the values of frameworks' metadata that do not suit their columns. No user
has to know of it: commands and services show the values under their names."""

MOST_COLUMNS = 5_000
"""Columns of an index: DuckDB takes megabytes and milliseconds for each hundred of them."""
SHOWN = 60
"""Characters of the text in a hit's repr."""
WITHOUT_LINES = frozenset(
    ["docx", "drawing", "epub", "html", "mail", "notebook", "odp", "odt", "pdf", "pptx", "xml"]
)
"""Kinds of files whose lines are not known, since their text is extracted."""

Lines = Sequence[tuple[int, int]]
"""Offsets in a text, in characters, and the lines of its file that begin there, in order: those
that do not follow from the lines before, one for each line break."""


def id_text(id: Any) -> str:
    """Convert an id to text; whole numbers and UUIDs are accepted everywhere.

    Raises `InputError` if it has another type, or is not Unicode.

    >>> id_text("7"), id_text(7)
    ('7', '7')
    """
    if isinstance(id, str):
        check_unicode(id, "id")
        return id
    if isinstance(id, bool) or not isinstance(id, Integral | UUID):
        raise InputError(f"id {repr(id)[:60]}; expected a text or a whole number")
    return str(id)


def id_texts(ids: Any) -> list[str]:
    """The texts of one id, or of several."""
    return [id_text(id) for id in (ids if is_several(ids) else [ids])]


def check_columns(count: int, what: str) -> None:
    """Raise `InputError` if there are more columns than an index can have.

    >>> check_columns(5_001, "document 'a'")
    Traceback (most recent call last):
    slimdex.errors.InputError: document 'a': 5,001 columns; expected 5,000 or fewer (one \
column of JSON holds any number of keys)
    """
    if count > MOST_COLUMNS:
        raise InputError(
            f"{what}: {count:,} columns; expected {MOST_COLUMNS:,} or fewer (one column of JSON "
            "holds any number of keys)"
        )


def is_several(ids: Any) -> bool:
    """True if these are ids, not one id."""
    return isinstance(ids, Iterable) and not isinstance(ids, str | bytes)


def ids_to_delete(ids: Any, where: str | None) -> list[str] | None:
    """The texts of one id, or of several; None with a condition.

    Raises `InputError` if neither is given, or both.
    """
    if (ids is None) == (where is None):
        raise InputError("delete: expected either ids or a condition")
    return None if ids is None else id_texts(ids)


def page_start(ids: Any, where: str | None, limit: int | None, after: Id) -> str:
    """The id after which a page begins, as text; "" for the first page, or with ids.

    Raises `InputError` for an invalid id or limit, if nothing is given, or ids with others.

    >>> page_start(None, None, 10, 7)
    '7'
    """
    is_page = (where, limit, after) != (None, None, "")
    if is_page == (ids is not None):
        raise InputError("get: expected either ids, or where, limit or after")
    if limit is not None and (not isinstance(limit, Integral) or limit < 0):
        raise InputError(f"limit={limit!r}; expected 0 or more")
    return "" if after == "" else id_text(after)


@dataclass(frozen=True)
class Part:
    """A section or page of a text, up to the next part.

    Attributes
    ----------
    start
        offset in the text, in characters.
    headings
        headings above it, outermost first.
    page
        page number from 1, if the text has pages.
    anchor
        fragment of a link to it, after ``#``.
    lines
        (offset in the text, line of the file) where lines of the file begin that do not follow from
        the lines before, as in Markdown, whose text has no front matter.
    """

    start: int
    headings: Sequence[str] = ()
    page: int | None = None
    anchor: str = ""
    lines: Lines = ()


def part_from_json(values: Mapping[str, Any]) -> Part:
    """Convert a part back from JSON, which has lists for tuples.

    >>> part_from_json({"start": 3, "headings": ["Tea"], "lines": [[3, 4]]})
    Part(start=3, headings=('Tea',), page=None, anchor='', lines=((3, 4),))
    """
    lines = tuple(map(tuple, values["lines"]))
    return Part(**{**values, "headings": tuple(values["headings"]), "lines": lines})


@dataclass(frozen=True)
class Document:
    """A text with an id, an optional title and the user's columns.

    Attributes
    ----------
    parts
        of the text, in order, if known: long texts are cut there first.
    passages
        (start, end) of each, in characters, if an index has cut the text; ignored when the document
        is added.
    vectors
        (passages, dim), the encoder's as stored, one without passages; None unless asked for.
        Ignored when the document is added.
    origin
        where it comes from, as `files.input_files` writes it; stored in the index to recognise the
        document, but not returned.

    Examples
    --------
    >>> Document("7", "It rained.", title="Weather").content
    'Weather It rained.'
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Part] = field(default=(), repr=False)
    passages: Sequence[tuple[int, int]] = field(default=(), repr=False, compare=False)
    origin: str = field(default="", repr=False, compare=False)
    vectors: Matrix | None = field(default=None, repr=False, compare=False)

    @property
    def content(self) -> str:
        """Text to encode: title, a space, text (the BEIR convention)."""
        return content(self.title, self.text)

    @property
    def lines(self) -> Lines:
        """Lines of its file, of all parts."""
        return [*chain.from_iterable(part.lines for part in self.parts)]

    @property
    def has_lines(self) -> bool:
        """Whether lines of its file are known; a text without a file has lines of its own."""
        return self.metadata.get("kind") not in WITHOUT_LINES


def check_document(document: Document) -> Document:
    """Return a document with its id as text; raises `InputError` if it is malformed."""
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    id = id_text(document.id)
    if id is not document.id:
        document = replace(document, id=id)
    check_columns(len(document.metadata), f"document {shorten(document.id)}")
    for name in ("text", "title"):
        value = getattr(document, name)
        if not isinstance(value, str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
        check_unicode(value, f"document {document.id!r}, {name}")
    if document.parts:
        _check_parts(document)
    return document


def _check_parts(document: Document) -> None:
    """Raise `InputError` unless the parts of a document are valid and in order."""
    start = 0
    name = f"document {document.id!r}"
    for part in document.parts:
        if why := part_fault(part):
            raise InputError(f"{name}: {why}")
        check_unicode([*part.headings, part.anchor], f"{name}, a part")
        if not start <= part.start <= len(document.text):
            raise InputError(
                f"{name}: a part starts at {part.start}; expected {start} to {len(document.text)}"
            )
        start = part.lines[-1][0] if part.lines else part.start  # least start of the next


def part_fault(part: Any) -> str | None:
    """Reason why a part is invalid; None if it is valid."""
    try:
        pairs = [(part.start, 1), *part.lines]
        numbers = [
            part.start,
            *chain.from_iterable(pairs),
            *([] if part.page is None else [part.page]),
        ]
        texts = [*part.headings, part.anchor]
        is_valid = (
            part.start >= 0
            and all(type(number) is int for number in numbers)
            and all(isinstance(text, str) for text in texts)
            and not isinstance(part.headings, str)
            and all(a <= c and b <= d for (a, b), (c, d) in pairwise(pairs))
        )
    except (AttributeError, TypeError, ValueError):
        is_valid = False
    if is_valid:
        return None
    return f"{shorten(repr(part))}; expected a Part with headings, and offsets and lines that grow"


def line_at(text: str, lines: Lines, offset: int) -> int:
    r"""Line of the file that has the character at an offset.

    >>> text = "Tea\n\nBoil water. Wait."  # of the lines 4, 6 and 7 of a file
    >>> [line_at(text, [(0, 4), (17, 7)], offset) for offset in (2, 5, 17)]
    [4, 6, 7]
    """
    # Count from the last known line at or before the offset, or else from the first line.
    position = bisect_right(lines, offset, key=lambda pair: pair[0]) - 1
    start, line = lines[position] if position >= 0 else (0, 1)
    return line + text.count("\n", start, offset)


@dataclass(frozen=True, repr=False)
class Hit:
    """A document found, with its best passage, or all of a text that is not cut.

    Attributes
    ----------
    score
        what hits are ordered by, best first: the similarity, and what words add to it.
    text
        the passage.
    start
        its first character in the document's text.
    end
        the character after its last.
    line
        line of the file in which it begins, from 1; of the text, if that is from no file; None if
        the lines of the file are not known, as of a PDF or a web page. In code, line, headings and
        anchor are those of a definition whose name the query has.
    last_line
        line in which it ends.
    page
        page on which it begins, if known.
    headings
        headings above all of it, outermost first.
    anchor
        fragment of a link to it, after ``#``, if known.
    found_by
        "meaning", "words", "both", or "name", if that equals the query.
    similarity
        cosine of the query and the passage.
    lines
        (offset in `text`, line of the file) where lines of the file begin that do not follow from
        the lines before, one for each line break.
    pages
        (offset in `text`, page) of each further page.
    """

    id: str
    score: float
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    line: int | None = 1
    last_line: int | None = 1
    page: int | None = None
    headings: Sequence[str] = ()
    anchor: str = ""
    found_by: str = "meaning"
    similarity: float = 0.0
    lines: Lines = ()
    pages: Lines = ()

    def page_at(self, offset: int) -> int | None:
        """Page at an offset in `text`; None if not known."""
        pages = [(0, self.page), *self.pages]
        return pages[bisect_right(pages, offset, key=lambda pair: pair[0]) - 1][1]

    def line_at(self, offset: int) -> int | None:
        """Line of the file at an offset in `text`; None if not known."""
        if self.line is None:
            return None
        return line_at(self.text, [(0, self.line), *self.lines], offset)

    def __repr__(self) -> str:
        """Id, score, and the beginning of the text, for notebooks.

        Examples
        --------
        >>> Hit("7", 0.93141, "It rained. " * 9)
        Hit('7', 0.931, 'It rained. It rained. It rained. It rained. It rained. It ra'...)
        """
        shown = f"{self.text[:SHOWN]!r}..." if len(self.text) > SHOWN else repr(self.text)
        return f"Hit({self.id!r}, {self.score:.3f}, {shown})"


def passage_content(document: Document, number: int) -> str:
    """Title of a document and its passage of this number, or its whole text if it is not cut.

    >>> passage_content(Document("7", "It rained. It snowed.", passages=[(0, 10), (11, 21)]), 1)
    'It snowed.'
    """
    if not document.passages:
        return document.content
    start, end = document.passages[number]
    return content(document.title, document.text[start:end])


def content(title: str, text: str) -> str:
    """Text to encode of a document: title, a space, text (the BEIR convention)."""
    return f"{title} {text}".strip()


def visible_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns that a user is to see.

    >>> visible_columns(["year", "slimdex_metadata"])
    ['year']
    """
    return [name for name in columns if name != RECORD]


def visible_values(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document's columns as they were given, those that it has.

    >>> visible_values({"year": 1990, "pages": None, "slimdex_metadata": {"page": "iv"}})
    {'year': 1990, 'page': 'iv'}
    """
    record = columns.get(RECORD)
    values = {**columns, **(record if isinstance(record, dict) else {})}
    return {name: value for name, value in values.items() if value is not None and name != RECORD}


def shown_hit(hit: Hit) -> Hit:
    """Return a hit with the values of its columns as they were given."""
    return replace(hit, metadata=visible_values(hit.metadata))


def hit_json(hit: Hit) -> dict[str, Any]:
    """Convert a hit to JSON-serialisable values."""
    return vars(hit) | {
        "score": round(hit.score, 9),
        "similarity": round(hit.similarity, 9),
        "metadata": visible_values(hit.metadata),
    }


def hit_from_json(values: Mapping[str, Any]) -> Hit:
    """Convert the result of `hit_json` back to a hit; metadata keep JSON's types.

    >>> hit_from_json(hit_json(Hit("7", 0.5, "It rained.")))
    Hit('7', 0.500, 'It rained.')
    """
    return Hit(**values)


def document_json(document: Document) -> dict[str, Any]:
    """Convert a document, with its parts and passages."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": visible_values(document.metadata),
        "parts": [*map(vars, document.parts)],
        "passages": [{"start": start, "end": end} for start, end in document.passages],
    }


def json_of(value: dict[str, Any], *, ensure_ascii: bool = False) -> str:
    """Serialise as JSON: NaN and infinity as null, bytes as base64, other types as text.

    >>> json_of({"score": float("nan"), "raw": b"ok"})
    '{"score": null, "raw": "b2s="}'
    """
    try:
        return json.dumps(value, default=_other, ensure_ascii=ensure_ascii, allow_nan=False)
    except (TypeError, ValueError):  # a key that is not text, or NaN or infinity
        value = _finite(value)
    return json.dumps(value, default=_other, ensure_ascii=ensure_ascii, allow_nan=False)


def _other(value: Any) -> str:
    """Convert a value of a type that JSON lacks to text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        return str(value).replace(",", "")  # as DuckDB reads it, too: "3 days 0:00:02"
    return str(value)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None, and convert names to text, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
