"""Common to office formats: paragraphs, tables and notes, symbol fonts, and formulas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..outline import Extract, Outline
from ..text_line import Line
from .xml_files import attribute, elements, facts, join_texts

UNKNOWN = "\N{BULLET}"
"""Stands for a picture of a symbol font that has no character here."""
PRIVATE = re.compile("[\uf020-\uf0ff]")
"""Code points that office files use for the characters of symbol fonts."""
OBJECTS = frozenset([
    "acc", "bar", "borderBox", "box", "d", "eqArr", "f", "func", "groupChr", "limLow", "limUpp",
    "m", "nary", "phant", "rad", "sPre", "sSub", "sSubSup", "sSup",
])  # fmt: skip
SIGNS = ("chr", "begChr", "sepChr", "endChr")
"""Properties of an object that are characters."""
USUAL = {"d": {"begChr": "(", "sepChr": "|", "endChr": ")"}, "nary": {"chr": "∫"}}
SCRIPTS = {"sub": "_", "sup": "^"}
"""Elements whose text follows a sign, unless it is empty."""


def extract(outline: Outline, about: bytes, pages: int = 0) -> Extract:
    """Content of a document with metadata in XML, and perhaps a number of slides."""
    listed = elements(about)
    columns = facts(listed) | ({"pages": pages} if pages else {})
    title = outline.title(join_texts(listed, "title"))
    return Extract(title, outline.text, outline.parts, columns)


class Slide:
    """Title and blocks of a slide, whose title may come last in its file."""

    def __init__(self) -> None:
        self._title = list[str]()
        self._blocks = list[tuple[str, str]]()

    def heading(self, level: int, text: str) -> None:
        """Add a line of the title."""
        self._title.append(text)

    def add(self, text: str, separator: str = "\n\n") -> None:
        """Add a block."""
        self._blocks.append((text, separator))

    def append_to(self, outline: Outline, number: int) -> None:
        """Append the slide to the text of a presentation, as a page."""
        outline.leave(0)
        outline.part("", number)
        outline.heading(1, " ".join(self._title))
        for text, separator in self._blocks:
            outline.add(text, separator)


class Blocks:
    """Builder of an outline from nested paragraphs, cells and notes.

    A paragraph in a text box, which is inside another paragraph, is a block before that one. In
    cells and notes, paragraphs and tables become part of the line.
    """

    def __init__(self, outline: Outline | Slide) -> None:
        self._outline = outline
        self._lines = [Line()]  # of open elements, the innermost last
        self._inline = 0  # open cells and notes
        self._rows = 0  # number of rows of the open table so far
        self._unseen = 0  # open elements that are not read

    def close(self) -> None:
        """Add what was outside all paragraphs."""
        self._add([line.take() for line in self._lines])

    def _say(self, text: str) -> None:
        """Append to the innermost line, unless it is in an element that is not read."""
        if text and not self._unseen:
            self._lines[-1].append(text)

    def _begin(self) -> None:
        """Begin a line inside the open one."""
        self._lines.append(Line())

    def _end(self) -> str:
        """End the innermost line and return its text."""
        return self._lines.pop().take()

    def _end_paragraph(self, level: int, bullet: str) -> None:
        """Add the innermost line as a heading of a level, or as a block if the level is 0."""
        text = re.sub(" +", " ", self._end()).strip()
        if self._inline:
            self._lines[-1].append(f"{text} ")
        elif level:
            self._outline.heading(level, text)
        elif text:
            self._outline.add(bullet + text, "\n" if bullet else "\n\n")

    def _begin_inline(self) -> None:
        self._begin()
        self._inline += 1

    def _end_inline(self) -> str:
        self._inline -= 1
        return self._end()

    def _end_cell(self, count: int = 1) -> None:
        """End a number of equal cells."""
        text = self._end_inline().rstrip(" ")
        self._lines[-1].append(f"{text}\t" * count)

    def _begin_table(self) -> None:
        if not self._inline:
            self._rows = 0

    def _end_row(self) -> None:
        """Add the row of a table as a line."""
        text = self._end().rstrip().lstrip(" ")
        if self._inline:  # a table within a cell
            self._lines[-1].append(f"{text} ")
        else:
            self._outline.add(text, "\n" if self._rows else "\n\n")
            self._rows += 1

    def _add(self, lines: Sequence[str]) -> None:
        """Add lines as a block, or to the line of a cell or note."""
        if self._unseen or not any(line.strip() for line in lines):
            return
        if self._inline:
            self._lines[-1].append(f" {' '.join(lines)} ")
        else:
            self._outline.add("\n".join(lines))


def _by_number(first: int, characters: str) -> dict[int, str]:
    return dict(enumerate(characters, start=first))


SYMBOL = {
    **_by_number(0x20, " !∀#∃%&∋()∗+,−./0123456789:;<=>?"),
    **_by_number(0x40, "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_"),
    **_by_number(0x60, "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    **_by_number(0xA0, "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|—↵"),
    **_by_number(0xC0, "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"),
    **_by_number(0xE0, "◊⟨®©™∑"),
    **_by_number(0xF1, "⟩∫"),
}
"""Adobe's Symbol: number -> character."""
FONTS = {"symbol": SYMBOL, "wingdings": {}, "wingdings 2": {}, "wingdings 3": {}, "webdings": {}}
"""Name of a symbol font in lower case -> its letters by number; others are pictures."""


def symbol(font: str, number: str) -> str:
    """Character of a hexadecimal number in a font; "" if the number is invalid.

    >>> symbol("Symbol", "F0B0"), symbol("Wingdings", "F0E0"), symbol("Arial", "00E9")
    ('°', '•', 'é')
    """
    try:
        code = int(number, 16)
        character = chr(code)
    except (ValueError, OverflowError):
        return ""
    # Characters of such fonts have one byte; files add 0xF000 to make them code points.
    characters = FONTS.get(font.strip().lower())
    if characters is not None:
        return characters.get(code & 0xFF, UNKNOWN)
    return chr(code & 0xFF) if PRIVATE.match(character) else character


def plain(text: str, font: str) -> str:
    """Replace the characters of a symbol font in a text of that font.

    >>> plain("20 \\uf0b0C", "Symbol"), plain("20 \\uf0b0C", "Arial")
    ('20 °C', '20 \\uf0b0C')
    """
    if not PRIVATE.search(text) or font.strip().lower() not in FONTS:
        return text
    return PRIVATE.sub(lambda character: symbol(font, f"{ord(character[0]):X}"), text)


def script(position: str) -> str:
    """Element of text by its position, a word or a number, and perhaps a size.

    >>> script("super 58%"), script("-33% 58%"), script("0% 100%"), script("30000"), script("")
    ('sup', 'sub', '', 'sup', '')
    """
    shift = next(iter(position.split()), "")
    if not shift.strip("-0.%"):
        return ""
    return "sub" if shift == "sub" or shift.startswith("-") else "sup"


class Formula:
    """Signs of a formula at the start or end of its elements, which are in order.

    >>> formula = Formula()
    >>> for name in ("d", "e", "f"):
    ...     print(formula.start(name, {}), end="")
    (
    >>> for name in ("num", "f", "e", "d"):
    ...     print(formula.end(name), end="")
    /)
    """

    def __init__(self) -> None:
        self._open = list[tuple[str, dict[str, str]]]()  # open objects, each with its signs

    def start(self, name: str, attributes: Mapping[str, str]) -> str:
        """Sign at the start of an element; "" if it has none."""
        if name in OBJECTS:
            self._open.append((name, dict(USUAL.get(name, {}))))
            return ""
        within, signs = self._open[-1] if self._open else ("", {})
        if name in SIGNS:
            signs[name] = attribute(attributes, "val")
        if within == "d" and name == "e":
            begin = signs["begChr"]
            signs["begChr"] = signs["sepChr"]  # before the next element of the object
            return begin
        if within == "nary" and name in ("e", *SCRIPTS):
            return signs.pop("chr", "")
        return "√" if within == "rad" and name == "e" else ""

    def end(self, name: str) -> str:
        """Sign at the end of an element; "" if it has none."""
        if name in OBJECTS and self._open:
            _, signs = self._open.pop()
            return signs.get("endChr", "") if name == "d" else ""
        return "/" if name == "num" else ""
