"""Office files: text of DOCX, ODT and PPTX, with headings, lists, tables and notes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..archives import Archive, Element, elements, events, joined, local
from ..front_matter import moment
from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline

TITLE = 1
"""Level of a DOCX paragraph with style Title, above all headings."""
DELETED = ("del", "moveFrom", "Fallback", "instrText", "tracked-changes", "annotation")
"""Invisible elements of all formats; a Fallback repeats what precedes it."""
TITLES = ("title", "ctrTitle")
FRAME = ("dt", "ftr", "hdr", "sldImg", "sldNum")
"""Placeholders that repeat on every slide: date, footer, header, picture of the slide, number."""


def read_docx(data: bytes) -> Extract:
    """Read a Word document."""
    archive = Archive(data)
    if "word/document.xml" not in archive:
        raise UnreadableError("not a DOCX file")
    outline = Outline(LARGEST_PACKED_TEXT)
    levels = _Styles(archive.read("word/styles.xml")).levels()
    for name in ("document", "footnotes", "endnotes"):
        events(archive.read(f"word/{name}.xml"), _Docx(outline, levels))
        outline.leave(0)
    about = elements(archive.read("docProps/core.xml"))
    title = joined(about, "title") or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about))


def read_odt(data: bytes) -> Extract:
    """Read an OpenDocument text, as written by LibreOffice."""
    archive = Archive(data)
    if "content.xml" not in archive:
        raise UnreadableError("not an ODT file")
    if b"manifest:encryption-data" in archive.read("META-INF/manifest.xml"):
        raise UnreadableError("encrypted")
    outline = Outline(LARGEST_PACKED_TEXT)
    events(archive.read("content.xml"), _Odt(outline))
    about = elements(archive.read("meta.xml"))
    title = joined(about, "title") or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about))


def read_pptx(data: bytes) -> Extract:
    """Read a presentation; slides are pages, each below its title, with its notes at the end."""
    archive = Archive(data)
    if "ppt/presentation.xml" not in archive:
        raise UnreadableError("not a PPTX file")
    outline = Outline(LARGEST_PACKED_TEXT)
    related = _related(archive, "ppt/presentation.xml")
    listed = [e for e in elements(archive.read("ppt/presentation.xml")) if e.name == "sldId"]
    slides = [related[id] for e in listed for id in e.attributes.values() if id in related]
    for number, name in enumerate(slides, start=1):
        slide = _Slide()
        events(archive.read(name), _Pptx(slide))
        for other in _related(archive, name).values():
            if posixpath.basename(other).startswith("notesSlide"):
                events(archive.read(other), _Pptx(slide, is_notes=True))
        slide.append_to(outline, number)
    about = elements(archive.read("docProps/core.xml"))
    title = joined(about, "title") or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about) | {"pages": len(slides)})


def facts(about: Sequence[Element]) -> dict[str, Any]:
    """Metadata from Dublin Core and similar fields."""
    found: dict[str, Any] = {
        "author": joined(about, "creator", "initial-creator"),
        "date": joined(about, "created", "creation-date", "date"),
        "tags": joined(about, "keywords", "keyword", "subject"),
        "description": joined(about, "description"),
        "language": joined(about, "language"),
    }
    found["date"] = moment(found["date"])
    return {column: value for column, value in found.items() if value}


class _Styles:
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
        name, value = local(tag), _attribute(attributes, "val")
        if name == "style":
            self._id = _attribute(attributes, "styleId")
        elif name == "basedOn":
            self._based[self._id] = value
        elif name == "name" and value.lower() == "title":
            self._own[self._id] = TITLE
        elif name == "name" and (number := value.lower().removeprefix("heading ")).isdecimal():
            self._own[self._id] = TITLE + int(number[:2])
        elif name == "outlineLvl" and value.isdecimal() and int(value) < 9:
            self._own.setdefault(self._id, TITLE + 1 + int(value))

    def close(self) -> None:
        pass


class _Blocks:
    """Paragraphs, list items and cells, common to all formats."""

    def __init__(self, outline: Outline | _Slide) -> None:
        self._outline, self._line = outline, list[str]()
        self._cells, self._rows, self._unseen = 0, 0, 0
        self._open: list[str] = []

    def _end_paragraph(self, level: int, bullet: str) -> None:
        text = re.sub(" +", " ", "".join(self._line)).strip()
        if self._cells:
            self._line.append(" ")
            return
        self._line.clear()
        if level:
            self._outline.heading(level, text)
        elif text:
            self._outline.add(bullet + text, "\n" if bullet else "\n\n")

    def _end_cell(self) -> None:
        self._cells = max(0, self._cells - 1)
        text = "".join(self._line).rstrip(" ")
        self._line[:] = [f"{text}\t"]

    def _end_row(self) -> None:
        if self._cells:  # a table within a cell
            return
        self._outline.add("".join(self._line).strip(), "\n" if self._rows else "\n\n")
        self._line.clear()
        self._rows += 1

    def close(self) -> None:
        pass


class _Docx(_Blocks):
    def __init__(self, outline: Outline | _Slide, levels: Mapping[str, int]) -> None:
        super().__init__(outline)
        self._levels, self._level, self._bullet = levels, 0, ""
        self._says = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        self._unseen += name in DELETED
        if name == "p" and not self._cells:
            self._level, self._bullet = 0, ""
        elif name == "pStyle":
            self._level = self._levels.get(_attribute(attributes, "val"), 0)
        elif name == "numPr":
            self._bullet = "- "
        elif name == "t":
            self._says = not self._unseen
        elif name == "tc":
            self._cells += 1
        elif name == "tbl":
            self._rows = 0
        elif name in ("tab", "br", "cr") and not self._unseen:
            self._line.append("\t" if name == "tab" and not self._cells else " ")

    def data(self, text: str) -> None:
        if self._says:
            self._line.append(text)

    def end(self, tag: str) -> None:
        name = local(tag)
        self._unseen -= name in DELETED
        if name == "t":
            self._says = False
        elif name == "p":
            self._end_paragraph(self._level, self._bullet)
        elif name == "tc":
            self._end_cell()
        elif name == "tr":
            self._end_row()


class _Slide:
    """Title and blocks of a slide, whose title may come last in its file."""

    def __init__(self) -> None:
        self._title, self._blocks = list[str](), list[tuple[str, str]]()

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
        outline.heading(TITLE, " ".join(self._title))
        for text, separator in self._blocks:
            outline.add(text, separator)


class _Pptx(_Docx):
    def __init__(self, slide: _Slide, *, is_notes: bool = False) -> None:
        super().__init__(slide, {})
        self._shape, self._item = "", "" if is_notes else "- "

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        if name == "ph":
            self._shape = _attribute(attributes, "type") or "body"
            self._unseen += self._shape in FRAME
        super().start(tag, attributes)
        if name == "p" and not self._cells:
            self._level = int(self._shape in TITLES)
            self._bullet = self._item if self._shape == "body" else ""

    def end(self, tag: str) -> None:
        super().end(tag)
        if local(tag) in ("sp", "graphicFrame", "pic"):
            self._unseen -= self._shape in FRAME
            self._shape = ""


def _related(archive: Archive, name: str) -> dict[str, str]:
    """Names of the entries that an entry refers to, by id."""
    folder, base = posixpath.split(name)
    relations = elements(archive.read(f"{folder}/_rels/{base}.rels"))
    found = [e.attributes for e in relations if e.name == "Relationship"]
    targets = {_attribute(each, "Id"): _attribute(each, "Target") for each in found}
    return {
        id: posixpath.normpath(posixpath.join("/", folder, target))[1:]
        for id, target in targets.items()
    }


class _Odt(_Blocks):
    def __init__(self, outline: Outline) -> None:
        super().__init__(outline)
        self._level, self._items, self._paragraphs = 0, 0, 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        self._unseen += name in DELETED
        if name in ("p", "h"):
            self._paragraphs += 1
            if name == "h":
                level = _attribute(attributes, "outline-level")
                self._level = int(level) if level.isdecimal() else 1
        elif name == "list-item":
            self._items += 1
        elif name == "table-cell":
            self._cells += 1
        elif name == "table":
            self._rows = 0
        elif name == "note-citation":
            self._unseen += 1
        elif name == "note-body":
            self._line.append(" (")
        elif not self._unseen and name in ("s", "tab", "line-break"):
            self._line.append(" ")

    def data(self, text: str) -> None:
        if self._paragraphs and not self._unseen:
            self._line.append(" ".join(text.split("\n")))

    def end(self, tag: str) -> None:
        name = local(tag)
        self._unseen -= name in DELETED or name == "note-citation"
        if name in ("p", "h"):
            self._paragraphs -= 1
            if self._paragraphs == 0:
                self._end_paragraph(self._level, "- " if self._items else "")
                self._level = 0
        elif name == "note-body":
            self._line.append(")")
        elif name == "list-item":
            self._items -= 1
        elif name == "table-cell":
            self._end_cell()
        elif name == "table-row":
            self._end_row()


def _attribute(attributes: Mapping[str, str], name: str) -> str:
    """Value of an attribute in any namespace."""
    return next((value for key, value in attributes.items() if local(key) == name), "")
