"""A line of text: superscripts stay apart from numbers, readings follow their word, and formulas
have the signs that are shown by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

SCRIPTS = {"sup": "^", "sub": "_"}
"""Elements whose digits are not those of the number or word before them -> the sign between."""
SIGNS = "+-\N{MINUS SIGN}\N{PLUS-MINUS SIGN}"
"""Characters before the digits of an exponent."""
UNREAD = ("rp", "annotation", "annotation-xml")
"""Fallback brackets of ruby, and formulas in another notation."""
UNSHOWN = "\u2061\u2062\u2063\u2064 \t\n\xa0"
"""Invisible operators, and spaces that only lay out the source of a formula."""
FORMULAS = {
    "mfrac": "/", "msup": "^", "mover": "^", "msub": "_", "munder": "_", "msubsup": "_^",
    "munderover": "_^", "mmultiscripts": "_^", "mroot": ["^(1/"],
}  # fmt: skip
"""Elements of MathML -> the signs between the elements in them."""


def count(text: str) -> int:
    """Parse a number of columns or rows, at most 99; 1 if it is invalid.

    >>> count("2"), count("")
    (2, 1)
    """
    return min(int(text[:4]), 99) if text[:4].isdecimal() else 1


class _Formula(NamedTuple):
    """Open element of a formula, the number of pieces before it, and its remaining signs."""

    tag: str
    start: int
    signs: Iterator[str]


class Line:
    """Pieces of a line, from elements that are named as in HTML; other elements change nothing.

    Superscript numbers follow a `^`, subscript digits after other digits a `_`. The readings of
    ruby annotations follow the whole word, in brackets. MathML is read as a formula in one line.

    >>> line = Line()
    >>> line.append("10")
    >>> line.start("sup")
    >>> line.append("6")
    >>> line.end("sup")
    >>> line.append(" kettles")
    >>> line.take()
    '10^6 kettles'
    """

    def __init__(self) -> None:
        self.pieces = list[str]()
        self.length = 0
        self._last = " "  # the last character; a line begins as if after a space
        self._script = ""  # "sup" or "sub" until the first text in it
        self._shifted = ""  # the script of the last `shift`
        self._open = Counter[str]()  # numbers of open elements
        self._readings = list[str]()  # of the previous word
        self._formula = list[_Formula]()  # open elements of a formula

    def start(self, tag: str) -> None:
        """Begin an element, whose name may have a prefix."""
        tag = tag.rpartition(":")[2]
        self._open[tag] += 1
        if tag in SCRIPTS:
            self._script = tag
        if tag == "math" or self._formula:
            self._add(next(self._formula[-1].signs, "") if self._formula else "")
            signs = iter(["", *FORMULAS.get(tag, "")])
            self._formula.append(_Formula(tag, len(self.pieces), signs))

    def end(self, tag: str) -> None:
        """End an element; ends without a start are ignored."""
        tag = tag.rpartition(":")[2]
        self._open[tag] = max(0, self._open[tag] - 1)
        if tag in SCRIPTS:
            self._script = ""
        if self._formula and self._formula[-1].tag == tag:
            self._end_formula()

    def shift(self, script: str) -> None:
        """Set the script of what follows, in files that have it as a property: an element or ""."""
        if script != self._shifted:
            self._script = script
            self._shifted = script

    def append(self, text: str) -> None:
        """Append the text of the innermost element."""
        if self._formula:
            text = text.strip(UNSHOWN)
        if not text or any(map(self._open.get, UNREAD)):
            return
        if self._open["rt"] or self._open["rtc"]:  # the reading of a word, or of several
            self._readings.append(text.strip())
            return

        # The base of a ruby, or text without a reading.
        if self._open["ruby"]:
            text = self._base(text)
        else:
            self._end_word()
        if self._script and text:
            text = self._sign(text) + text
            self._script = ""
        if self._formula and self._last.isalnum() and text[0].isalnum():
            # Two numbers or words; single letters are factors.
            is_word = text[0].isdigit() or len(text + self.pieces[-1]) > 2
            self._add(" " if is_word else "")
        self._add(text)

    @property
    def ends_in_word(self) -> bool:
        """Whether the last character is a letter or digit."""
        return self._last.isalnum()

    def take(self) -> str:
        """Return the line, and begin an empty one."""
        self._end_word()
        text = "".join(self.pieces)
        self.clear()
        return text

    def clear(self) -> None:
        """Begin an empty line, within the same elements."""
        self.pieces.clear()
        self.length = 0
        self._last = " "
        self._readings.clear()

    def _end_formula(self) -> None:
        """Put an operand of several pieces in brackets, and add the signs of roots."""
        tag, start, _ = self._formula.pop()
        is_operand = tag == "msqrt" or (self._formula and self._formula[-1].tag in FORMULAS)
        if is_operand and len(self.pieces) > start + 2:
            self.pieces.insert(start, "(")
            self._add(")")
        if tag == "msqrt":
            self.pieces.insert(start, "√")
        self._add({"mroot": ")", "mtd": " "}.get(tag, ""))

    def _add(self, piece: str) -> None:
        if piece:
            self.pieces.append(piece)
            self.length += len(piece)
            self._last = piece[-1]

    def _base(self, text: str) -> str:
        """Characters below readings, without the spaces that lay out the source."""
        characters = text.strip()
        is_spaced = text[0].isspace() and characters.isascii() and self._last.isascii()
        return f" {characters}" if characters and is_spaced else characters

    def _sign(self, text: str) -> str:
        """Sign that keeps a superscript or subscript apart from what is before it."""
        if self._last.isspace():
            return ""
        is_number = text[0].isdigit() or text[0] in SIGNS
        if self._script == "sub":
            is_number = text[0].isdigit() and self._last.isdigit()
        return SCRIPTS[self._script] if is_number else ""

    def _end_word(self) -> None:
        """Add the readings of the word before, which may be of several elements."""
        readings = "".join(self._readings)
        self._readings.clear()
        if readings:
            self._add(f"({readings})")
