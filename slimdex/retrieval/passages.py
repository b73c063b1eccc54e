"""Passages: long texts cut into pieces that an encoder reads whole, following their structure.

Texts are cut between sections and pages (`Document.parts`) first, then between paragraphs,
sentences, lines and words; between characters only if a single word is too long. The document's
title, the headings above the passage, and the passage are encoded. The rules:

- A section that fits is one passage. Otherwise passages are filled up to the length and ended at
  the strongest boundary in their second half; the next passage begins with the last sentence of the
  previous one, if that is no more than a quarter of the length.
- Sections do not overlap. A section smaller than a quarter of the length is joined to a neighbour
  if both fit, and if they are below the same outermost heading or one has no heading. Pages without
  headings are not sections: text continues across them.
- If title and headings take more than a quarter of the length, the outer headings are omitted
  first, the title last.
- Code, whose parts have lines as anchors, is cut at definitions: the outermost class or function
  that fits is a passage. Small ones are joined within their class; pieces of a long one are not.
- Offsets are in characters; passages have no white space at their ends, and together contain all
  other text.

This module knows no tokenizer: callers provide a function that counts tokens.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise

from .documents import Part, content
from .lexical.tokens import INVISIBLE

Count = Callable[[Sequence[str]], Sequence[int]]
"""Tokens of each text, including special ones, without truncation."""

LEAST_TOKENS = 16
"""Fewest tokens of a passage: fewer leave no room beside the special ones."""
SHARE = 4
"""Fraction of the length (1/4) below which a section is small, and limit of overlap and context."""
LONGEST_UNIT = 100
"""Characters per token of the length above which a unit is divided without counting its tokens."""
MARGIN = 16
"""Tokens by which the sum of a passage's parts, counted one by one, may be wrong."""
CONTEXT_TRIES = 4
"""Attempts to cut a section shorter if its pieces have more tokens together than alone."""

BARE = ("",)
"""Headings of a piece that fits only without its title."""
LINES = re.compile(r"L\d+(-L\d+)?")
"""Anchor of a part of code."""
TERMINALS = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0964\u0965\u104a\u104b\u1362\u1367\u1368"
    "\u17d4\u17d5\u1803\u1809\u203c\u203d\u2047-\u2049\u3002\ua6f3\ua6f7\ua876\ua877\uaaf0\uabeb"
    "\uff01\uff1f\uff61"
)
"""Marks that end sentences of other scripts: of Unicode's Sentence_Terminal (PropList.txt), those
that stand for nothing else."""
PART, PARAGRAPH, SENTENCE, LINE, WORD, LETTER = range(6)
"""Boundaries at the end of a unit, strongest first."""
_ENDS = {
    PARAGRAPH: re.compile(r"\n[ \t\r]*\n\s*"),
    SENTENCE: re.compile(rf"[.!?…][\"'”’)\]]*\s+|[{TERMINALS}][\"'”’』」）]*\s*"),
    LINE: re.compile(r"\n\s*"),
    WORD: re.compile(r"\s+"),
}


@dataclass(frozen=True)
class Passage:
    """A piece of a text; its title and headings, the context, are encoded before it."""

    start: int
    end: int
    context: str = ""

    def content(self, text: str) -> str:
        """Text to encode."""
        return content(self.context, text[self.start : self.end])


def divide(
    title: str, text: str, parts: Sequence[Part], count: Count, length: int
) -> list[Passage]:
    """Cut a text that is known to be too long into passages, in order.

    `length` is the largest number of tokens of a passage, including special ones and context.

    >>> def words(texts):
    ...     return [len(text.split()) for text in texts]
    >>> text = "One two three. Four five six. " * 3
    >>> [text[p.start : p.end] for p in divide("", text, (), words, 9)]
    ['One two three. Four five six. One two three.', 'Four five six. One two three. Four five six.']
    """
    return _Cutter(title, text, parts, count, length).passages()


def is_long(text: str, tokens: int) -> bool:
    """True if a text surely has more than some tokens, so that they need not be counted.

    A word is a token or several, and no tokenizer's tokens have `LONGEST_UNIT` characters each.
    """
    return len(text) > LONGEST_UNIT * tokens or len(text.split()) > tokens


def headings_of(parts: Sequence[Part], start: int, end: int) -> tuple[str, ...]:
    """Headings shared by all of a text's characters from `start` to `end` (exclusive).

    >>> parts = [Part(0, ["A", "B"]), Part(9, ["A", "C"])]
    >>> headings_of(parts, 2, 5), headings_of(parts, 2, 12)
    (('A', 'B'), ('A',))
    >>> code = [Part(0, ["Box.open"], None, "L1-L2"), Part(9, ["Box.shut"], None, "L3-L4")]
    >>> headings_of(code, 2, 5), headings_of(code, 2, 12)
    (('Box.open',), ('Box',))
    """
    first = _part_at(parts, start)
    last = _part_at(parts, max(end - 1, start))
    if first < 0:  # it begins before the first part
        return ()
    parts = parts[first : last + 1]
    if not is_code(parts):
        return _common(*(part.headings for part in parts))
    name = ".".join(_common(*map(_names, parts)))
    return (name,) if name else ()


def is_code(parts: Sequence[Part]) -> bool:
    """Whether parts are those of code: their anchors are lines, their headings qualified names."""
    return bool(parts) and all(LINES.fullmatch(part.anchor) for part in parts)


def _names(part: Part) -> tuple[str, ...]:
    """Names of the classes around a part of code, and its own."""
    return tuple(chain.from_iterable(heading.split(".") for heading in part.headings))


def part_at(parts: Sequence[Part], start: int) -> Part | None:
    """The part that contains a character; None before the first one."""
    position = _part_at(parts, start)
    return None if position < 0 else parts[position]


def _part_at(parts: Sequence[Part], start: int) -> int:
    """Position of the part that contains a character; -1 before the first one."""
    return bisect_right(parts, start, key=lambda part: part.start) - 1


def _common(*paths: Sequence[str]) -> tuple[str, ...]:
    """Headings that paths have in common, outermost first."""
    first, *others = map(tuple, paths)
    for other in others:
        same = min(len(first), len(other))
        while first[:same] != other[:same]:
            same -= 1
        first = first[:same]
    return first


@dataclass(frozen=True)
class _Section:
    """A span of text below the same headings.

    Attributes
    ----------
    headings : outermost first; in code, names of the classes and the definition.
    inner : offsets at which parts with anchors, such as pages, begin inside it.
    begins : whether it begins a definition of several lines.
    """

    start: int
    end: int
    headings: tuple[str, ...]
    inner: list[int] = field(default_factory=list)
    begins: bool = False


@dataclass(frozen=True)
class _Unit:
    """A span that passages are built from: its offsets, tokens, and the boundary at its end."""

    start: int
    end: int
    tokens: int
    ending: int

    def is_smallest(self, room: int) -> bool:
        """True if it fits into `room` tokens, or is a single character."""
        return self.tokens <= room or self.end - self.start < 2


@dataclass(frozen=True)
class _Piece:
    """A passage before neighbours are joined.

    Attributes
    ----------
    tokens : number of tokens, without the context.
    section : number of its section; 0 in code.
    is_whole : whether it consists of uncut definitions of code.
    """

    start: int
    end: int
    tokens: int
    section: int
    headings: tuple[str, ...]
    is_whole: bool = False


class _Cutter:
    """Cuts one text; `parts` are those of the whole text."""

    def __init__(
        self, title: str, text: str, parts: Sequence[Part], count: Count, length: int
    ) -> None:
        self._title = title
        self._text = text
        self._parts = parts
        self._length = length
        self._count = count
        self._special = count([""])[0]
        self._is_code = is_code(parts)
        self._contexts: dict[tuple[str, ...], tuple[str, int]] = {BARE: ("", 0)}
        self._tokens = dict[int, int]()  # of each section of code, by its start

    def passages(self) -> list[Passage]:
        """Cut the text into passages, in order."""
        if self._is_code:
            sections = _sections_of_code(self._text, self._parts)
            spans = [(section.start, section.end, PART) for section in sections]
            units = self._count_tokens(spans, self._length)
            self._tokens = {unit.start: unit.tokens for unit in units}
            pieces = self._of_code(sections, 0)
            return [self._passage(piece) for piece in self._join_small(pieces)]
        pieces = list[_Piece]()
        for i, section in enumerate(_sections(self._text, self._parts)):
            pieces += self._of_section(i, section)
        return [self._passage(piece) for piece in self._join_small(pieces)]

    def _of_code(self, sections: Sequence[_Section], depth: int) -> list[_Piece]:
        """Cut definitions at this depth: each is a piece if it fits, else cut at inner ones."""
        piece = self._whole(sections)
        if piece is not None:
            return [piece]
        if len(sections) == 1:
            return self._of_section(0, sections[0])
        pieces = list[_Piece]()
        for group in _same_definition(sections, depth):
            pieces += self._of_code(group, depth + 1)
        return pieces

    def _whole(self, sections: Sequence[_Section]) -> _Piece | None:
        """Some sections as one piece, if need be without their names; None if they do not fit."""
        start = sections[0].start
        end = sections[-1].end
        tokens = sum(self._tokens[section.start] for section in sections)
        names = _common(*(section.headings for section in sections))
        return self._fitting(start, end, names, tokens)

    def _fitting(
        self, start: int, end: int, headings: tuple[str, ...], tokens: int
    ) -> _Piece | None:
        """Make a piece of code of some tokens below these names; None if it does not fit.

        To make it fit, the names are left out, and then the title too.
        """
        if tokens > self._room(BARE):
            return None
        for names in (headings, (), BARE):
            piece = _Piece(start, end, tokens, 0, names, is_whole=True)
            if self._most([piece]) <= self._length:
                return piece
        return None

    def _of_section(self, number: int, section: _Section) -> list[_Piece]:
        """Cut a section; if pieces have more tokens than their units, cut again with less room."""
        room = self._room(section.headings)
        for _ in range(CONTEXT_TRIES):
            # Fill pieces with whole units.
            units = self._units(section, room)
            sums = [0, *accumulate(unit.tokens for unit in units)]
            pieces = list[_Piece]()
            for first, stop in _fill_passages(units, room):
                tokens = sums[stop] - sums[first]
                start = units[first].start
                end = units[stop - 1].end
                pieces.append(_Piece(start, end, tokens, number, section.headings))

            # A piece may have more tokens than its units together.
            over = self._most(pieces) - self._length
            if over <= 0 or room <= over:  # all fit, or no room would be left
                break
            room -= over
        return pieces

    def _most(self, pieces: Sequence[_Piece]) -> int:
        """Tokens of the longest piece, as encoded; those far below the limit are not counted."""
        most = 0
        contents = list[str]()
        for piece in pieces:
            tokens = self._length - self._room(piece.headings) + piece.tokens
            if tokens <= self._length - MARGIN:
                most = max(most, tokens)
            else:
                contents.append(self._passage(piece).content(self._text))
        return max([most, *self._count(contents)])

    def _join_small(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Join small pieces to a neighbour of another section, if both fit."""
        joined = list(pieces[:1])
        for piece in pieces[1:]:
            both = self._both(joined[-1], piece)
            if both is None:
                joined.append(piece)
            else:
                joined[-1] = both
        return joined

    def _both(self, one: _Piece, other: _Piece) -> _Piece | None:
        """Join two neighbours; None if not allowed."""
        # Code joins whole definitions below a common name; other texts join different sections.
        headings = _common(one.headings, other.headings)
        if self._is_code:
            may_join = bool(headings) and one.is_whole and other.is_whole
        else:
            lacks_headings = not one.headings or not other.headings
            is_related = bool(headings) or lacks_headings
            may_join = one.section != other.section and is_related
        if not may_join:
            return None

        # Both must fit into a passage below their shared headings, and one must be small.
        room = self._room(headings)
        tokens = one.tokens + other.tokens
        is_one_small = min(one.tokens, other.tokens) * SHARE < room
        if tokens > room or not is_one_small:
            return None
        both = _Piece(
            start=one.start,
            end=other.end,
            tokens=tokens,
            section=other.section,
            headings=headings,
            is_whole=one.is_whole,
        )
        return both if self._most([both]) <= self._length else None

    def _passage(self, piece: _Piece) -> Passage:
        """Make the passage of a piece: add the context, and strip white space at the ends."""
        text = self._text[piece.start : piece.end]
        start = piece.start + len(text) - len(text.lstrip())
        end = max(piece.end - len(text) + len(text.rstrip()), start)  # `start` if all is blank
        return Passage(start, end, self._context(piece.headings)[0])

    def _room(self, headings: tuple[str, ...]) -> int:
        """Tokens of a passage below these headings, without context."""
        return max(self._length - self._special - self._context(headings)[1], 1)

    def _context(self, headings: tuple[str, ...]) -> tuple[str, int]:
        """Context of a passage, and its tokens."""
        if headings not in self._contexts:
            self._contexts[headings] = self._fitting_context(headings)
        return self._contexts[headings]

    def _fitting_context(self, headings: tuple[str, ...]) -> tuple[str, int]:
        """Leave out outer headings, and then all, if a passage has no room for them."""
        # A first heading that equals the title is not repeated.
        below = headings[1:] if headings[:1] == (self._title,) else headings

        # Keep the innermost headings that fit, or else the title alone.
        for first in range(len(below) + 1):
            name = ("." if self._is_code else " ").join(below[first:])
            context = " ".join(filter(None, [self._title, name]))
            if len(context) > LONGEST_UNIT * self._length:
                continue
            tokens = self._count([context])[0] - self._special
            if tokens * SHARE <= self._length - self._special:
                return context, tokens
        return "", 0

    def _units(self, section: _Section, room: int) -> list[_Unit]:
        """Divide a section into sentences, and further until each unit fits."""
        spans = list[tuple[int, int, int]]()
        for part in _divide_at(section.start, section.end, section.inner, PART):
            for paragraph in self._divide(*part, PARAGRAPH):
                spans += self._divide(*paragraph, SENTENCE)

        # Units that are too long are divided at lines, then words, then letters.
        units = self._count_tokens(spans, room)
        for level in (LINE, WORD, LETTER):
            if all(unit.tokens <= room for unit in units):
                break
            units = self._smaller(units, room, level)
        return units

    def _smaller(self, units: Sequence[_Unit], room: int, level: int) -> list[_Unit]:
        """Divide the units that do not fit into `room` tokens, at the boundaries of a level.

        Between characters a unit is only halved, so this is repeated until all units fit.
        """
        while True:
            # None stands for a piece whose tokens are not counted yet.
            pieces = list[_Unit | None]()
            waiting = list[tuple[int, int, int]]()
            for unit in units:
                if unit.is_smallest(room):
                    pieces.append(unit)
                    continue
                spans = list(self._divide(unit.start, unit.end, unit.ending, level))
                pieces += [None] * len(spans)
                waiting += spans

            # Count all of them at once.
            counted = iter(self._count_tokens(waiting, room))
            units = [next(counted) if unit is None else unit for unit in pieces]
            if level != LETTER or all(unit.is_smallest(room) for unit in units):
                return units

    def _count_tokens(self, spans: Sequence[tuple[int, int, int]], room: int) -> list[_Unit]:
        """Count the tokens of spans (start, end, boundary at the end), without context.

        Spans that are far too long are not counted: they get `room` + 1 tokens.
        """
        texts = [self._text[start:end] for start, end, _ in spans]
        are_long = [is_long(text, room) for text in texts]
        short = [text for text, long in zip(texts, are_long, strict=True) if not long]
        counts = iter(self._count(short) if short else ())
        units = []
        for (start, end, ending), long in zip(spans, are_long, strict=True):
            tokens = room + 1 if long else max(next(counts) - self._special, 0)
            units.append(_Unit(start, end, tokens, ending))
        return units

    def _divide(
        self, start: int, end: int, ending: int, level: int
    ) -> Iterator[tuple[int, int, int]]:
        """Divide a span at a level, and yield (start, end, boundary at the end) of each piece.

        The last piece keeps the span's boundary, `ending`. At the level of letters, it is halved.
        """
        if level == LETTER:
            ends = [_between_signs(self._text, start, end)]
        else:
            ends = [match.end() for match in _ENDS[level].finditer(self._text, start, end)]
        for first, stop, boundary in _divide_at(start, end, ends, level):
            yield first, stop, ending if stop == end else boundary


def _divide_at(
    start: int, end: int, ends: Sequence[int], level: int
) -> Iterator[tuple[int, int, int]]:
    """Cut a span at offsets, and yield (start, end, boundary at the end) of each piece.

    Offsets in `ends` outside the span are ignored. The cuts are boundaries of `level`, and the last
    piece ends with the boundary of a part.
    """
    inner = sorted({offset for offset in ends if start < offset < end})
    for first, stop in pairwise([start, *inner, end]):
        yield first, stop, PART if stop == end else level


def _between_signs(text: str, start: int, end: int) -> int:
    """Offset near a span's middle, not inside a glyph if possible."""
    middle = (start + end) // 2
    for offset in range(middle, min(middle + 8, end)):
        beside = text[offset - 1 : offset + 1]  # a joiner, or a hyphen that is not shown
        if not unicodedata.combining(text[offset]) and not INVISIBLE.search(beside):
            return offset
    return middle


def _fill_passages(units: Sequence[_Unit], room: int) -> Iterator[tuple[int, int]]:
    """Yield the units of each passage of a section, as (first, stop) with `stop` excluded.

    A passage begins with the last sentence of the previous one, if that is short enough.
    """
    begin = 0  # the passage's first unit, which the previous passage may have too
    first = 0  # its first unit that no passage has yet
    while first < len(units):
        stop = first
        total = sum(unit.tokens for unit in units[begin:first])
        if begin < first and total + units[first].tokens > room:
            begin = first  # no room for the previous sentence
            continue
        while stop < len(units) and total + units[stop].tokens <= room:
            total += units[stop].tokens
            stop += 1
        stop = max(stop, first + 1)  # at least one, even if it does not fit
        if stop < len(units):
            stop = _best_end(units, begin, first, stop, room)
        yield begin, stop
        first = stop
        begin = stop
        if stop < len(units) and _is_overlap(units, stop - 1, room):
            begin = stop - 1


def _best_end(units: Sequence[_Unit], begin: int, first: int, stop: int, room: int) -> int:
    """Return where the units of a passage should end (exclusive), at `stop` or earlier.

    This is the strongest boundary in the second half of the room; among equal ones, the last.
    """
    best = stop
    total = sum(unit.tokens for unit in units[begin:stop])
    for end in range(stop - 1, first, -1):
        total -= units[end].tokens
        if 2 * total < room:
            break
        if units[end - 1].ending < units[best - 1].ending:
            best = end
    return best


def _is_overlap(units: Sequence[_Unit], last: int, room: int) -> bool:
    """True if a unit is a whole sentence that is short enough to be in two passages."""
    # Boundaries are numbered from the strongest; those up to `SENTENCE` end a sentence.
    begins_sentence = last == 0 or units[last - 1].ending <= SENTENCE
    ends_sentence = units[last].ending <= SENTENCE
    return begins_sentence and ends_sentence and units[last].tokens * SHARE <= room


def _same_definition(sections: Sequence[_Section], depth: int) -> Iterator[list[_Section]]:
    """Group the sections of each definition that is nested in `depth` others.

    Sections outside such a definition are groups of one.
    """
    group = list[_Section]()
    for section in sections:
        names = section.headings[: depth + 1]
        is_new = section.begins and len(section.headings) == depth + 1
        is_inside = len(names) > depth and bool(group) and group[-1].headings[: depth + 1] == names
        if group and (is_new or not is_inside):
            yield group
            group = []
        group.append(section)
    yield group


def _sections_of_code(text: str, parts: Sequence[Part]) -> list[_Section]:
    """Split code at its parts; white space alone belongs to what is before or else after it."""
    sections = list[_Section]()
    starts = [0, *(part.start for part in parts[1:]), len(text)]
    for part, (start, end) in zip(parts, pairwise(starts), strict=True):
        # A blank part belongs to the previous section or, at the beginning, to the first one.
        is_blank = not text[start:end].strip()
        if is_blank and sections:
            sections[-1] = replace(sections[-1], end=end)
        elif not is_blank:
            start = sections[-1].end if sections else 0
            has_several_lines = "-" in part.anchor
            sections.append(_Section(start, end, _names(part), begins=has_several_lines))
    return sections or [_Section(0, len(text), ())]


def _sections(text: str, parts: Sequence[Part]) -> list[_Section]:
    """Split a text by its headings; white space alone is joined to the previous section."""
    sections = list[_Section]()
    starts = [0, *(part.start for part in parts), len(text)]
    above = [Part(0), *parts]
    for part, (start, end) in zip(above, pairwise(starts), strict=True):
        if start == end:
            continue
        headings = tuple(part.headings)
        last = sections[-1] if sections else None
        # The part continues the last section: it has the same headings, or is blank.
        if last is not None and (headings == last.headings or not text[start:end].strip()):
            if part.anchor:  # a page does not end a section
                last.inner.append(start)
            sections[-1] = _Section(last.start, end, last.headings, last.inner)
        # White space at the beginning belongs to the first section.
        elif last is not None and not text[last.start : last.end].strip():
            sections[-1] = _Section(last.start, end, headings)
        else:
            sections.append(_Section(start, end, headings))
    return sections or [_Section(0, len(text), ())]
