"""DOCX: text of Word documents, with headings, lists, tables, notes and comments."""

from __future__ import annotations

from collections.abc import Mapping

from ...archives import Archive, attribute, elements, events, joined, local
from ...limits import LARGEST_PACKED_TEXT, UnreadableError
from ...outline import Extract, Outline
from ..properties import facts
from .blocks import Blocks, Slide
from .formulas import SCRIPTS, Formula
from .parts import Embedded, main_part, of_kinds, part_of_kind, relations
from .symbols import plain, symbol

TITLE = 1
"""Level of a paragraph with style Title, above all headings."""
UNSEEN = frozenset([
    "del", "moveFrom", "instrText", "tabs", "tabLst", "pPrChange", "rPrChange", "sectPrChange",
])  # fmt: skip
"""Elements with deleted text, codes of fields, tab stops and earlier formatting."""
CHARACTERS = {
    "noBreakHyphen": "-",
    **dict.fromkeys(("tab", "ptab"), "\t"),
    **dict.fromkeys(("br", "cr"), " "),
    # computed when the document is printed
    **dict.fromkeys(("dayShort", "dayLong", "monthShort", "monthLong"), " "),
    **dict.fromkeys(("yearShort", "yearLong", "pgNum"), " "),
}
"""Elements that stand for characters. A softHyphen shows only where a line ends in it."""
DESCRIPTIONS = {"docPr": "descr", "shape": "alt", "textpath": "string"}
"""Elements of pictures and of ornamental texts -> the attribute with their text."""
NOTES = ("footnotes", "endnotes", "comments")


def read_docx(data: bytes) -> Extract:
    """Read a Word document, its notes and its comments."""
    archive = Archive(data)
    main = main_part(archive, "word/document.xml")
    if main not in archive:
        raise UnreadableError("not a DOCX file")
    outline = Outline(LARGEST_PACKED_TEXT)
    related = relations(archive, main)
    levels = Styles(archive.read(part_of_kind(related, "styles"))).levels()
    for part in [main, *of_kinds(related, *NOTES)]:
        found = WordText(outline, levels, Embedded(archive, relations(archive, part)))
        events(archive.read(part), found)
        if part == main and found.root != "document":
            raise UnreadableError("not a DOCX file")
        outline.leave(0)
    about = elements(archive.read(part_of_kind(relations(archive), "core-properties")))
    title = joined(about, "title") or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about))


class Styles:
    """Parser of DOCX styles: levels of heading styles, including derived ones."""

    def __init__(self, data: bytes) -> None:
        self._id, self._own, self._based = "", dict[str, int](), dict[str, str]()
        events(data, self)

    def levels(self) -> dict[str, int]:
        """Style -> heading level."""
        found = dict(self._own)
        for style in self._based:
            above, seen = style, {""}
            while above not in self._own and above not in seen:
                seen.add(above)
                above = self._based.get(above, "")
            if above in self._own:
                found[style] = self._own[above]
        return found

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        name, value = local(tag), attribute(attributes, "val")
        if name == "style":
            self._id = attribute(attributes, "styleId")
        elif name == "basedOn":
            self._based[self._id] = value
        elif name == "name" and value.lower() == "title":
            self._own[self._id] = TITLE
        elif name == "name" and (number := value.lower().removeprefix("heading ")).isdecimal():
            self._own[self._id] = TITLE + int(number[:2])
        elif name == "outlineLvl" and value.isdecimal() and int(value) < 9:
            self._own.setdefault(self._id, TITLE + 1 + int(value))

    def close(self) -> None:
        """Handle the end of the file."""


class DrawingText(Blocks):
    """Text that Word documents and slides have in common: runs, tables, formulas and figures.

    Of alternatives (`AlternateContent`), the first with text is read.

    `root` is the name of the first element.
    """

    def __init__(self, outline: Outline | Slide, embedded: Embedded | None = None) -> None:
        super().__init__(outline)
        self.root = ""
        self._embedded, self._formula = embedded, Formula()
        self._says, self._font, self._reading = False, "", ""
        self._alternatives, self._skipped = list[int](), list[bool]()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        name = local(tag)
        self.root = self.root or name
        self._unseen += name in UNSEEN
        self._start_alternative(name)
        if name == "t":
            self._says = True
        elif name in ("r", "fld"):
            self._font = ""
        elif name in ("rFonts", "sym") and not attribute(attributes, "char"):
            fonts = (attribute(attributes, each) for each in ("ascii", "hAnsi", "typeface"))
            self._font = next(filter(None, fonts), "")
        elif name == "sym":
            self._say(symbol(attribute(attributes, "font"), attribute(attributes, "char")))
        elif name in CHARACTERS:
            character = CHARACTERS[name]  # a tab would separate cells
            self._say(character.replace("\t", " ") if self._inline else character)
        elif name in ("chart", "relIds", "altChunk") and self._embedded:
            self._add(self._embedded.texts(attributes))
        elif name == "tc":
            self._begin_inline()
        elif name in ("tr", "rt", "rubyBase"):
            self._begin()
        elif name == "tbl":
            self._begin_table()
        elif "/math}" in tag:
            self._say(self._formula.start(name, attributes))
            if name in SCRIPTS:
                self._begin()

    def data(self, text: str) -> None:
        """Handle text."""
        if self._says:
            self._say(plain(text, self._font))

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        name = local(tag)
        if name == "t":
            self._says = False
        elif name == "tc":
            self._end_cell()
        elif name == "tr":
            self._end_row()
        elif name == "rt":
            self._reading = self._end()
        elif name == "rubyBase":
            reading, self._reading = self._reading, ""
            self._say(self._end() + (f"({reading})" if reading.strip() else ""))
        elif "/math}" in tag:
            if name in SCRIPTS and (script := self._end()):
                self._say(SCRIPTS[name] + script)
            self._say(self._formula.end(name))
        self._end_alternative(name)
        self._unseen -= name in UNSEEN

    def _start_alternative(self, name: str) -> None:
        if name == "AlternateContent":
            self._alternatives.append(self._said)
        elif name in ("Choice", "Fallback") and self._alternatives:
            self._skipped.append(self._said > self._alternatives[-1])
            self._unseen += self._skipped[-1]

    def _end_alternative(self, name: str) -> None:
        if name == "AlternateContent":
            self._alternatives.pop()
        elif name in ("Choice", "Fallback") and self._skipped:
            self._unseen -= self._skipped.pop()


class WordText(DrawingText):
    """Handler of the events of a part of a Word document."""

    def __init__(
        self,
        outline: Outline | Slide,
        levels: Mapping[str, int],
        embedded: Embedded | None = None,
    ) -> None:
        super().__init__(outline, embedded)
        self._levels, self._paragraphs = levels, list[tuple[int, str]]()
        self._entries, self._chosen = list[str](), 0  # of a drop-down list

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        super().start(tag, attributes)
        name = local(tag)
        if name == "p":
            self._begin()
            self._paragraphs.append((0, ""))
        elif self._unseen or not self._paragraphs:
            return
        elif name == "pStyle":
            self._format(level=self._levels.get(attribute(attributes, "val"), 0))
        elif name == "numPr":
            self._format(bullet="- ")
        elif name in DESCRIPTIONS:
            description = attribute(attributes, DESCRIPTIONS[name])
            self._say(f" {description} " if description else "")
        elif name == "ddList":
            self._entries, self._chosen = [], 0
        elif name == "result" and (number := attribute(attributes, "val")).isdecimal():
            self._chosen = int(number)
        elif name == "listEntry":
            self._entries.append(attribute(attributes, "val"))

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        name = local(tag)
        if name == "p":
            self._end_paragraph(*self._paragraphs.pop())
        elif name == "ddList" and self._chosen < len(self._entries):
            self._say(self._entries[self._chosen])
        super().end(tag)

    def _format(self, level: int | None = None, bullet: str | None = None) -> None:
        old_level, old_bullet = self._paragraphs[-1]
        self._paragraphs[-1] = (
            old_level if level is None else level,
            old_bullet if bullet is None else bullet,
        )
