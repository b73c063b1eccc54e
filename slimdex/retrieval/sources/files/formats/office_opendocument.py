"""ODT and ODP: OpenDocument texts and presentations, packed or as one flat XML file."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping

from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from ..packed import Archive
from ..text_line import count
from .office_blocks import Blocks, Slide, extract, script
from .xml_files import attribute, elements, events, local

UNSEEN = frozenset([
    "tracked-changes", "note-citation", "binary-data", "forms", "styles", "automatic-styles",
    "master-styles", "scripts", "settings", "page-thumbnail",
])  # fmt: skip
"""Elements with deleted text, notes' numbers, pictures, formatting, and what is on every page."""
FRAME = ("date-time", "footer", "header", "page-number", "page")
"""Classes of frames that repeat on every slide."""
TITLES = ("title", "subtitle")
NOTES = ("note-body", "annotation")
CELLS = ("table-cell", "covered-table-cell")
RUBY = {"ruby": "ruby", "ruby-text": "rt"}
"""Elements of ruby annotations -> their names in HTML."""


def read_odf(data: bytes) -> Extract:
    """Read a text or presentation; slides are pages, each below its title, with its notes."""
    is_flat = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    archive = None if is_flat else Archive(data)
    content = data if archive is None else _content(archive)
    outline = Outline(LARGEST_PACKED_TEXT)
    handler = _Content(outline, _objects(archive))
    events(content, handler)
    about = data if archive is None else archive.read("meta.xml")
    return extract(outline, about, handler.pages)


def _content(archive: Archive) -> bytes:
    """Return the XML of the text; raise `UnreadableError` if it is encrypted or missing."""
    if any(e.name == "encryption-data" for e in elements(archive.read("META-INF/manifest.xml"))):
        raise UnreadableError("encrypted")
    if "content.xml" not in archive:
        raise UnreadableError("not an ODT file")
    return archive.read("content.xml")


def _objects(archive: Archive | None) -> Callable[[str], list[str]]:
    """Return a function that returns the texts of an embedded chart, given its address."""

    def texts(address: str) -> list[str]:
        if archive is None or not address:
            return []
        outline = Outline(LARGEST_PACKED_TEXT)
        content = archive.read(posixpath.join(address, "content.xml"))
        events(content, _Content(outline, lambda _: []))
        return outline.text.split("\n")

    return texts


class _Content(Blocks):
    """Handler of the events of a content file; `pages` counts its slides."""

    def __init__(self, outline: Outline, objects: Callable[[str], list[str]]) -> None:
        super().__init__(outline)
        self.pages = 0
        self._document = outline
        self._objects = objects
        self._levels = list[int]()  # of open paragraphs and headings; 0 for a paragraph
        self._items = 0  # open items of lists
        self._frames = list[str]()  # classes of open frames
        self._style = ""  # the one being read
        self._scripts = dict[str, str]()  # style -> "sup", "sub" or ""
        self._spans = list[str]()  # scripts of open spans
        self._repeated = 1  # number of cells like the one being read
        self._texts = 0  # open elements that contain text

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        self._unseen += _is_unseen(tag)
        self._texts += _has_text(tag)

        # What the element begins.
        if "MathML}" in tag:
            self._lines[-1].start(name)
        elif name in ("p", "h"):
            stated = attribute(attributes, "outline-level") if name == "h" else ""
            default = 1 if name == "h" else 0
            self._levels.append(int(stated) if stated.isdecimal() else default)
            self._begin()
        elif name in NOTES or name in CELLS:
            self._begin_inline()
            self._repeated = count(attribute(attributes, "number-columns-repeated"))
        elif name in RUBY:
            self._lines[-1].start(RUBY[name])
        elif name == "style":
            self._style = attribute(attributes, "name")
        elif name == "text-properties":
            self._scripts[self._style] = script(attribute(attributes, "text-position"))
        elif name == "span":
            around = self._spans[-1] if self._spans else ""
            self._spans.append(self._scripts.get(attribute(attributes, "style-name")) or around)
        elif name == "table-row" or _is_description(tag):
            self._begin()
        elif name == "list-item":
            self._items += 1
        elif name == "table":
            self._begin_table()
        elif name == "object":
            texts = self._objects(attribute(attributes, "href"))
            if len(texts) == 1:  # a formula
                self._put(texts[0])
            else:
                self._add(texts)
        elif name == "page":
            self.pages += 1
            self._outline = Slide()
        elif name == "frame":
            self._frames.append(attribute(attributes, "class"))
            self._unseen += self._frames[-1] in FRAME
        elif name in ("s", "tab", "line-break"):
            self._say(" ")

    def data(self, text: str) -> None:
        if self._texts:
            self._lines[-1].shift(self._spans[-1] if self._spans else "")
            self._say(" ".join(text.split("\n")))

    def end(self, tag: str) -> None:
        # Finish what the element began.
        name = local(tag)
        if "MathML}" in tag:
            self._lines[-1].end(name)
        elif name in ("p", "h"):
            level = 1 if self._frames and self._frames[-1] in TITLES else self._levels[-1]
            self._levels.pop()
            self._end_paragraph(level, "- " if self._items else "")
        elif name in NOTES:
            text = self._end_inline().strip()
            self._put(f" ({text})" if text else "")
        elif name in CELLS:
            self._end_cell(self._repeated)
            self._repeated = 1
        elif name == "table-row":
            self._end_row()
        elif name in RUBY:
            self._lines[-1].end(RUBY[name])
        elif name == "span":
            self._spans.pop()
        elif _is_description(tag):
            self._put(f" {self._end()} ")
        elif name == "list-item":
            self._items -= 1
        elif name == "page" and isinstance(self._outline, Slide):
            self._outline.append_to(self._document, self.pages)
            self._outline = self._document
        elif name == "frame":
            self._unseen -= self._frames.pop() in FRAME

        # Leave the element.
        self._unseen -= _is_unseen(tag)
        self._texts -= _has_text(tag)

    def _put(self, text: str) -> None:
        """Append a comment or description to its paragraph, or add it as a block."""
        if self._levels:
            self._say(text)
        else:
            self._add([text.strip()])


def _is_description(tag: str) -> bool:
    return "svg" in tag and local(tag) in ("title", "desc")


def _has_text(tag: str) -> bool:
    return local(tag) in ("p", "h", "math") or _is_description(tag)


def _is_unseen(tag: str) -> bool:
    """Return whether an element is not read, such as the author of a comment."""
    return local(tag) in UNSEEN or "purl.org/dc" in tag or ":meta:" in tag
