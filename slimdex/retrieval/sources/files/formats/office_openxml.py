"""DOCX and PPTX: Office Open XML, whose parts are found by their relationships, not their names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..decoding import decode_text
from ..kinds import HEAD, kind_of
from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from ..packed import Archive
from ..text_line import count
from . import html_pages, mail
from .office_blocks import SCRIPTS, Blocks, Formula, Slide, extract, plain, script, symbol
from .xml_files import attribute, elements, events, local, tree

FIGURES = ("chart", "chartex", "diagramdata")
"""Kinds of parts that contain the labels of charts and diagrams."""
LABELS = (
    "//*[local-name()='p' or local-name()='v' or (local-name()='pt' and not(*))]"
    "[not(ancestor::*[starts-with(local-name(), 'num')])]"
)
"""XPath of labels."""
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
RAISED = {"superscript": "sup", "subscript": "sub"}
DESCRIPTIONS = {"docPr": "descr", "shape": "alt", "textpath": "string"}
"""Elements of pictures and of ornamental texts -> the attribute with their text."""
NOTES = ("footnotes", "endnotes", "comments")
ALTERNATIVES = ("Choice", "Fallback")
TITLES = ("title", "ctrTitle")
FRAME = ("dt", "ftr", "hdr", "sldImg", "sldNum")
"""Placeholders that repeat on every slide: date, footer, header, picture of the slide, number."""
SHAPES = ("sp", "graphicFrame", "pic", "cxnSp")


class _Relation(NamedTuple):
    """Reference from a part to another: its id there, its kind in lower case, and the part."""

    id: str
    kind: str
    part: str


def _relations(archive: Archive, part: str = "") -> list[_Relation]:
    """Parts that a part refers to, or (without one) those that the file begins with."""
    folder, base = posixpath.split(part)
    listed = elements(archive.read(f"{folder}/_rels/{base}.rels"))
    relations = list[_Relation]()
    for element in listed:
        attributes = element.attributes
        is_external = attribute(attributes, "TargetMode").lower() == "external"
        if element.name == "Relationship" and not is_external:
            # The ISO standard's strict variant has other addresses that end alike.
            kind = attribute(attributes, "Type").rpartition("/")[2].lower()
            target = attribute(attributes, "Target").replace("\\", "/").partition("#")[0]
            path = posixpath.join("/", folder, target)
            relations.append(_Relation(attribute(attributes, "Id"), kind, path))
    return relations


def _of_kinds(related: Sequence[_Relation], *kinds: str) -> list[str]:
    """Parts of these kinds, kind by kind, each once."""
    parts = list[str]()
    for kind in kinds:
        parts += [each.part for each in related if each.kind == kind]
    return [*dict.fromkeys(parts)]


def _part_of_kind(related: Sequence[_Relation], kind: str) -> str:
    """First part of a kind; "" if there is none."""
    return next(iter(_of_kinds(related, kind)), "")


def _main_part(archive: Archive, usual: str) -> str:
    """Part with the document itself; the usual one if the file does not say which it is."""
    return _part_of_kind(_relations(archive), "officedocument") or usual


def _about(archive: Archive) -> bytes:
    """Part with the metadata of the document."""
    return archive.read(_part_of_kind(_relations(archive), "core-properties"))


def _references(attributes: Mapping[str, str]) -> list[str]:
    """Ids of relations in an element's attributes."""
    ids = []
    for key, value in attributes.items():
        namespace, _, _ = key.rpartition("}")
        if namespace.endswith("/relationships"):
            ids.append(value)
    return ids


class _EmbeddedParts:
    """Charts, diagrams and files that a part embeds, whose text belongs to the document."""

    def __init__(self, archive: Archive, related: Iterable[_Relation]) -> None:
        self._archive = archive
        self._related = {each.id: each for each in related}

    def texts(self, attributes: Mapping[str, str]) -> list[str]:
        """Labels of the figure, or the text of the file, that an element refers to."""
        texts = list[str]()
        for relation in filter(None, map(self._related.get, _references(attributes))):
            if relation.kind in FIGURES:
                texts += _labels(self._archive.read(relation.part))
            elif relation.kind == "afchunk":
                texts.append(_text_of(relation.part, self._archive.read(relation.part)))
        return texts


def _text_of(part: str, data: bytes) -> str:
    """Text of a page, a web archive or a plain text; "" for others."""
    kind = "mail" if part.lower().endswith((".mht", ".mhtml")) else kind_of(part, data[:HEAD])
    if kind == "mail":
        return mail.read(data).text
    if kind == "html":
        return html_pages.text_of(html_pages.page_text(data))
    return decode_text(data) if kind == "text" else ""


def _labels(data: bytes) -> list[str]:
    """Texts of a chart or diagram, each once, without its numbers."""
    root = tree(data)
    labels = root.xpath(LABELS) if root is not None else []
    texts = [" ".join(label.xpath("string()").split()) for label in labels]
    return [*dict.fromkeys(filter(None, texts))]


def read_docx(data: bytes) -> Extract:
    """Read a Word document, its notes and its comments."""
    archive = Archive(data)
    main = _main_part(archive, "word/document.xml")
    if main not in archive:
        raise UnreadableError("not a DOCX file")

    # The text: the main part, then notes and comments.
    outline = Outline(LARGEST_PACKED_TEXT)
    related = _relations(archive, main)
    levels = _heading_levels(archive.read(_part_of_kind(related, "styles")))
    for part in [main, *_of_kinds(related, *NOTES)]:
        handler = _WordText(outline, levels, _EmbeddedParts(archive, _relations(archive, part)))
        events(archive.read(part), handler)
        if part == main and handler.root != "document":
            raise UnreadableError("not a DOCX file")
        outline.leave(0)
    return extract(outline, _about(archive))


def _heading_levels(data: bytes) -> dict[str, int]:
    """Levels of heading styles of a DOCX file, including derived ones: style -> level."""
    id = ""
    stated = dict[str, int]()
    based = dict[str, str]()  # style -> the style that it is derived from
    for name, attributes, _ in elements(data):
        value = attribute(attributes, "val")
        if name == "style":
            id = attribute(attributes, "styleId")
        elif name == "basedOn":
            based[id] = value
        elif name == "name" and value.lower() == "title":
            stated[id] = TITLE
        elif name == "name" and (number := value.lower().removeprefix("heading ")).isdecimal():
            stated[id] = TITLE + int(number[:2])  # style "heading 3" and the like
        elif name == "outlineLvl" and value.isdecimal() and int(value) < 9:
            stated.setdefault(id, TITLE + 1 + int(value))

    # A style inherits the level of its nearest ancestor that states one.
    levels = dict(stated)
    for style in based:
        above = style
        seen = {""}  # styles may be derived from each other in a circle
        while above not in stated and above not in seen:
            seen.add(above)
            above = based.get(above, "")
        if above in stated:
            levels[style] = stated[above]
    return levels


class _DrawingText(Blocks):
    """Text that Word documents and slides have in common: runs, tables, formulas and figures.

    Of alternatives (`AlternateContent`), the first is read.

    `root` is the name of the first element.
    """

    def __init__(self, outline: Outline | Slide, embedded: _EmbeddedParts | None = None) -> None:
        super().__init__(outline)
        self.root = ""
        self._embedded = embedded
        self._formula = Formula()
        self._says = False  # whether the innermost element has text
        self._font = ""  # of the open run
        self._script = ""  # "sup" or "sub" in a raised or lowered run
        self._covered = ""  # tabs for the columns that the open cell spans besides its own
        self._alternatives = [0]  # of each open AlternateContent, alternatives so far

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        self.root = self.root or name
        self._unseen += name in UNSEEN
        if name == "AlternateContent":
            self._alternatives.append(0)
        elif name in ALTERNATIVES:
            self._unseen += self._alternatives[-1] > 0

        # Texts, and runs of texts with one font and position.
        if name == "t":
            self._says = True
        elif name in ("r", "fld"):
            self._font = ""
            self._script = ""
        elif name == "vertAlign" and not self._unseen:
            self._script = RAISED.get(attribute(attributes, "val"), "")
        elif name == "rPr":
            self._script = script(attribute(attributes, "baseline"))
        elif name in ("rFonts", "sym") and not attribute(attributes, "char"):
            fonts = (attribute(attributes, each) for each in ("ascii", "hAnsi", "typeface"))
            self._font = next(filter(None, fonts), "")
        # References to characters, or to texts in another part of the file.
        elif name == "sym":
            self._say(symbol(attribute(attributes, "font"), attribute(attributes, "char")))
        elif name in CHARACTERS:
            character = CHARACTERS[name]  # a tab would separate cells
            self._say(character.replace("\t", " ") if self._inline else character)
        elif name in ("chart", "relIds", "altChunk") and self._embedded:
            self._add(self._embedded.texts(attributes))
        # Tables, readings of words, and formulas.
        elif name == "tc":
            self._begin_inline()
        elif name in ("ruby", "rt"):
            self._lines[-1].start(name)
        elif name == "tr":
            self._begin()
        elif name == "tbl":
            self._begin_table()
        elif name == "gridBefore":
            self._lines[-1].append("\t" * count(attribute(attributes, "val")))
        elif name == "gridSpan":
            self._covered = "\t" * (count(attribute(attributes, "val")) - 1)
        elif "/math}" in tag:
            self._say(self._formula.start(name, attributes))
            if name in SCRIPTS:
                self._begin()

    def data(self, text: str) -> None:
        if self._says:
            self._lines[-1].shift(self._script)
            self._say(plain(text, self._font))

    def end(self, tag: str) -> None:
        name = local(tag)
        if name == "t":
            self._says = False
        elif name == "tc":
            self._end_cell()
            self._lines[-1].append(self._covered)
            self._covered = ""
        elif name == "tr":
            self._end_row()
        elif name in ("ruby", "rt"):
            self._lines[-1].end(name)
        elif "/math}" in tag:
            text = self._end() if name in SCRIPTS else ""
            if text:
                self._say(SCRIPTS[name] + text)
            self._say(self._formula.end(name))
        if name == "AlternateContent":
            self._alternatives.pop()
        elif name in ALTERNATIVES:
            self._unseen -= self._alternatives[-1] > 0
            self._alternatives[-1] += 1
        self._unseen -= name in UNSEEN


class _WordText(_DrawingText):
    """Handler of the events of a part of a Word document."""

    def __init__(
        self,
        outline: Outline | Slide,
        levels: Mapping[str, int],
        embedded: _EmbeddedParts | None = None,
    ) -> None:
        super().__init__(outline, embedded)
        self._style_levels = levels
        self._levels = list[int]()  # of open paragraphs
        self._bullets = list[str]()  # of open paragraphs
        self._entries = list[str]()  # of a drop-down list
        self._chosen = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        super().start(tag, attributes)
        name = local(tag)
        if name == "p":
            self._begin()
            self._levels.append(0)
            self._bullets.append("")
        elif self._unseen or not self._levels:
            return
        elif name == "pStyle":
            self._levels[-1] = self._style_levels.get(attribute(attributes, "val"), 0)
        elif name == "numPr":
            self._bullets[-1] = "- "
        elif name in DESCRIPTIONS:
            description = attribute(attributes, DESCRIPTIONS[name])
            self._say(f" {description} " if description else "")
        elif name == "ddList":
            self._entries = []
            self._chosen = 0
        elif name == "result" and (number := attribute(attributes, "val")).isdecimal():
            self._chosen = int(number)
        elif name == "listEntry":
            self._entries.append(attribute(attributes, "val"))

    def end(self, tag: str) -> None:
        name = local(tag)
        if name == "p":
            self._end_paragraph(self._levels.pop(), self._bullets.pop())
        elif name == "ddList" and self._chosen < len(self._entries):
            self._say(self._entries[self._chosen])
        super().end(tag)


def read_pptx(data: bytes) -> Extract:
    """Read a presentation; slides are pages, each below its title, with its notes at the end."""
    archive = Archive(data)
    main = _main_part(archive, "ppt/presentation.xml")
    listed = elements(archive.read(main))
    if not listed or listed[0].name != "presentation":
        raise UnreadableError("not a PPTX file")
    parts = {each.id: each.part for each in _relations(archive, main)}
    slides = list[str]()
    for element in listed:
        if element.name == "sldId":
            slides += [parts[id] for id in _references(element.attributes) if id in parts]

    # Read each slide with its notes and comments.
    outline = Outline(LARGEST_PACKED_TEXT)
    for number, name in enumerate(slides, start=1):
        slide = Slide()
        related = _relations(archive, name)
        events(archive.read(name), _SlideText(slide, _EmbeddedParts(archive, related)))
        for other in _of_kinds(related, "notesslide", "comments"):
            events(archive.read(other), _SlideText(slide, is_notes=True))
        slide.append_to(outline, number)

    return extract(outline, _about(archive), len(slides))


class _SlideText(_DrawingText):
    """Handler of the events of a slide, its notes, or its comments."""

    def __init__(
        self, slide: Slide, embedded: _EmbeddedParts | None = None, *, is_notes: bool = False
    ) -> None:
        super().__init__(slide, embedded)
        self._shape = ""  # kind of the open placeholder
        self._description = ""  # of the open shape
        self._item = "" if is_notes else "- "  # bullet of paragraphs in a body

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        super().start(tag, attributes)
        name = local(tag)
        if name == "ph":
            self._shape = attribute(attributes, "type") or "body"
            self._unseen += self._shape in FRAME
        elif name == "cNvPr":
            self._describe(attribute(attributes, "descr"))
        elif name in ("p", "text"):  # an older comment has only a text
            self._begin()
            self._says = name == "text"

    def end(self, tag: str) -> None:
        name = local(tag)
        if name in ("p", "text"):
            self._says = False
            level = 1 if self._shape in TITLES else 0
            bullet = self._item if self._shape == "body" else ""
            self._end_paragraph(level, bullet)
        elif name in SHAPES:
            self._describe()
            self._unseen -= self._shape in FRAME
            self._shape = ""
        super().end(tag)

    def _describe(self, following: str = "") -> None:
        """Add the description of the shape that ends, or that others follow in a group."""
        self._add([self._description])
        self._description = following


def read_flat(data: bytes) -> Extract:
    """Read a Word document that is a single XML file."""
    outline = Outline()
    events(data, _WordText(outline, {}))
    return Extract(outline.first_heading, outline.text, outline.parts)
