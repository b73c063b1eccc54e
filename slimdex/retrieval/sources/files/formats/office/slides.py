"""PPTX: text of presentations, slide by slide, with tables, charts, notes and comments."""

from __future__ import annotations

from collections.abc import Mapping

from ...archives import Archive, attribute, elements, events, joined, local
from ...limits import LARGEST_PACKED_TEXT, UnreadableError
from ...outline import Extract, Outline
from ..properties import facts
from .blocks import Slide
from .parts import Embedded, main_part, of_kinds, part_of_kind, references, relations
from .word import DrawingText

TITLES = ("title", "ctrTitle")
FRAME = ("dt", "ftr", "hdr", "sldImg", "sldNum")
"""Placeholders that repeat on every slide: date, footer, header, picture of the slide, number."""
SHAPES = ("sp", "graphicFrame", "pic", "cxnSp")


def read_pptx(data: bytes) -> Extract:
    """Read a presentation; slides are pages, each below its title, with its notes at the end."""
    archive = Archive(data)
    main = main_part(archive, "ppt/presentation.xml")
    listed = elements(archive.read(main))
    if not listed or listed[-1].name != "presentation":
        raise UnreadableError("not a PPTX file")
    parts = {each.id: each.part for each in relations(archive, main)}
    ids = [id for e in listed if e.name == "sldId" for id in references(e.attributes)]
    slides = [parts[id] for id in ids if id in parts]
    outline = Outline(LARGEST_PACKED_TEXT)
    for number, name in enumerate(slides, start=1):
        slide, related = Slide(), relations(archive, name)
        events(archive.read(name), SlideText(slide, Embedded(archive, related)))
        for other in of_kinds(related, "notesslide", "comments"):
            events(archive.read(other), SlideText(slide, is_notes=True))
        slide.append_to(outline, number)
    about = elements(archive.read(part_of_kind(relations(archive), "core-properties")))
    title = joined(about, "title") or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about) | {"pages": len(slides)})


class SlideText(DrawingText):
    """Handler of the events of a slide, its notes, or its comments."""

    def __init__(
        self, slide: Slide, embedded: Embedded | None = None, *, is_notes: bool = False
    ) -> None:
        super().__init__(slide, embedded)
        self._shape, self._description = "", ""
        self._item = "" if is_notes else "- "

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
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
        """Handle the end of an element."""
        name = local(tag)
        if name in ("p", "text"):
            self._says = False
            is_body = self._shape == "body"
            self._end_paragraph(int(self._shape in TITLES), self._item if is_body else "")
        elif name in SHAPES:
            self._describe()
            self._unseen -= self._shape in FRAME
            self._shape = ""
        super().end(tag)

    def _describe(self, following: str = "") -> None:
        """Add the description of the shape that ends, or that others follow in a group."""
        self._add([self._description])
        self._description = following
