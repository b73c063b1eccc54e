"""PDF: text of each page, by PDFium, with headings from the table of contents.

Boxes of characters tell lines, cells and words apart, as PDFium's own text does not. After a page's
text come the values of its form fields and its remarks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from operator import sub
from typing import Any
from unicodedata import normalize

from ..front_matter import moment
from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline, words

Box = tuple[float, float, float, float]
"""Left, bottom, right and top of a character, as high as its font."""
LINE = re.compile("[^ \t\r\n\ufffe](?:[^\n\ufffe]*[^ \t\r\n\ufffe])?(?:\ufffe(?=[^ \r\n]))?")
"""Line of PDFium's text. U+FFFE is a hyphen at its end, or a character without a meaning."""
WORD = re.compile("[^ ]+")
TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
"""Characters that PDFium counts as two."""
ACCENTED = re.compile("([`´^ˆ~˜¯˘˙¨˚˝ˇ¸˛])(\\w)")
COMBINING = str.maketrans(
    "`´^ˆ~˜¯˘˙¨˚˝ˇ¸˛",
    "\u0300\u0301\u0302\u0302\u0303\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327\u0328",
)
LIGATURES = {"\x0b": "ff", "\x0c": "fi", "\r": "fl", "\x0e": "ffi", "\x0f": "ffl"}
"""Codes of TeX's fonts, which PDFium returns where a font does not name its characters."""
LIGATURE = re.compile("\r(?<=[a-z].)|[\x0b\x0c\x0e\x0f](?:(?<=[a-z].)|(?=[a-z]{2}))")
DIVIDED = re.compile("(-?(?<!\\w)[^\\W\\d_]{2,}+)[-\u2010\xad]\n(?=(\\w+))")
"""Beginning of a word that may be divided at the end of a line, and its end on the next."""
LAST_HYPHEN = re.compile("[-\u2010\xad]\n(?:(?<=[^\\W\\d]..)|(?<=\\w\\w..))(?=\\w)", re.S)
UNDIVIDED = re.compile("(?<![\\w-])(?<![-\u2010\xad]\n)\\w++(?:-\\w++)*+(?![-\u2010\xad]\n)")
MOST_ENTRIES = 10_000
"""Largest number of entries of a table of contents, or of fields and remarks of a page, to read."""
LONGEST_SOUGHT = 200
"""Characters of a title that are searched on its page."""
PICTURE = 3
"""PDFium's number for objects that are pictures; a page without one may be blank on purpose."""
FIELDS_OF_TEXT = (4, 5, 6)
"""PDFium's numbers for combo boxes, lists and text fields."""
TEXTLESS = (2, 16, 20)
"""PDFium's numbers for remarks that are links, pop-ups and fields of forms."""
LOCKED = (4, 5)
"""PDFium's error codes for a wrong password, and for a protection that it does not know."""


def read(data: bytes) -> Extract:
    """Read a document; pages and the sections found on them are parts.

    Raises `UnreadableError` if the document requires a password or is broken.
    """
    import pypdfium2  # an optional library

    try:
        document = pypdfium2.PdfDocument(data)
        document.init_forms()
        sections = _sections(document)
    except pypdfium2.PdfiumError as error:
        reason = "encrypted" if error.err_code in LOCKED else "broken PDF"
        raise UnreadableError(reason) from error

    # Read the pages, below the headings of the document's outline.
    texts = list[str]()
    scanned = 0
    for page in document:
        text = _text(page)
        # Programs put a scan on the page or into a form; deeper nesting may be endless.
        pictures = page.get_objects(filter=[PICTURE], max_depth=3)
        scanned += not text and any(pictures)
        texts.append("\n".join(filter(None, [text, *_remarks(document, page)])))
        page.close()
    outline = Outline(LARGEST_PACKED_TEXT)
    for index, text in enumerate(_undivided(texts)):
        _add_page(outline, index + 1, text, sections.get(index, []))

    # Read the metadata.
    about = document.get_metadata_dict()
    facts: dict[str, Any] = {
        "author": words(about.get("Author")),
        "tags": words(about.get("Keywords")),
        "description": words(about.get("Subject")),
        "date": moment(about.get("CreationDate") or ""),
        "pages": len(document),
    }
    facts = {column: value for column, value in facts.items() if value}
    title = words(about.get("Title"))
    return Extract(title and outline.title(title), outline.text, outline.parts, facts, scanned)


def _sections(document: Any) -> Mapping[int, Sequence[tuple[int, str]]]:
    """Sections by page: page -> (level, title)."""
    sections = defaultdict[int, list[tuple[int, str]]](list)
    for bookmark in islice(document.get_toc(max_depth=8), MOST_ENTRIES):
        target = bookmark.get_dest()
        if target is not None:
            section = bookmark.level + 1, words(bookmark.get_title())
            sections[target.get_index()].append(section)
    return sections


def _text(page: Any) -> str:
    """Text of a page, with tabs between cells."""
    from pypdfium2 import raw  # an optional library

    pieces = list[str]()
    last = bounds = page.get_bbox()
    is_turned = False
    with closing(page.get_textpage()) as text_page:
        text = TWO_UNITS.sub("\\g<0>\0", text_page.get_text_range(errors="surrogatepass"))
        index = partial(raw.FPDFText_GetCharIndexFromTextIndex, text_page)
        rectangle = raw.FS_RECTF()

        def box(offset: int) -> Box:
            """Box of a character as if its line were not turned."""
            raw.FPDFText_GetLooseCharBox(text_page, index(offset), rectangle)
            box = rectangle.left, rectangle.bottom, rectangle.right, rectangle.top
            return (box[1], box[0], box[3], box[2]) if is_turned else box

        def accented(match: re.Match[str]) -> str:
            """Compose a letter and the accent before it, if TeX placed one above the other."""
            letter = normalize("NFC", match[2].replace("ı", "i") + match[1].translate(COMBINING))
            accent = box(match.start())
            is_above = 2 * box(match.start() + 1)[0] < accent[0] + accent[2]
            return f"{letter}\0" if is_above and letter.isalpha() else match[0]

        text = ACCENTED.sub(accented, text)
        for line in LINE.finditer(text):
            start, end = line.span()
            if min(_overlap(text_page.get_charbox(index(start)), bounds)) < 0:
                continue  # beyond the edge of the page
            is_turned = round(raw.FPDFText_GetCharAngle(text_page, index(start)) / 1.57) % 2 == 1
            first = box(start)

            # Prose is seldom wider than .45 of its height for each character.
            width = _overlap(first, box(end - 1))[0]
            is_wide = width < (first[1] - first[3]) * (end - start) * 0.45
            for part in WORD.finditer(text, start, end) if is_wide else [line]:
                space = _space(last, box(part.start()))
                pieces += [space or " " * (part.start() > start), part[0]]
                last = box(part.end() - 1)
    text = re.sub("\ufffe(?=\\s)", "-", "".join(pieces)).strip()
    text = LIGATURE.sub(lambda match: LIGATURES[match[0]], text)
    return re.sub("[\0\r\ufffe]", "", text)


def _overlap(one: Box, other: Box) -> list[float]:
    """Width and height of the overlap of two boxes; less than 0 where they are apart."""
    return [*map(sub, map(min, one[2:], other[2:]), map(max, one, other))]


def _space(one: Box, other: Box) -> str:
    """White space between two characters, by the height of the second."""
    width, height = (length / (other[3] - other[1] or 1) for length in _overlap(one, other))
    if height < 0.5:
        return "\n"
    if width < -1.5:
        return "\t"
    is_raised = abs(one[1] - other[1]) > (other[3] - other[1]) / 10
    return " " if is_raised or width < -0.15 else ""


def _undivided(texts: list[str]) -> Iterator[str]:
    """Remove hyphens that divide words between lines; keep those of names and compounds."""
    known = {*UNDIVIDED.findall("\n".join(texts))}

    def joined(match: re.Match[str]) -> str:
        before, after = match.groups()
        word = before.lstrip("-") + after
        is_compound = {before, after} <= known or f"{before}-{after}" in known
        is_whole = before.startswith("-") or not after[0].islower() or is_compound
        return before + "-" * (is_whole and known.isdisjoint((word, word.lower())))

    return (LAST_HYPHEN.sub("-", DIVIDED.sub(joined, text)) for text in texts)


def _remarks(document: Any, page: Any) -> Iterator[str]:
    """Values of a page's form fields, and remarks on it."""
    from pypdfium2 import raw  # an optional library

    for number in range(min(raw.FPDFPage_GetAnnotCount(page), MOST_ENTRIES)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        text = ""
        if raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
            pass  # invisible on the page
        elif raw.FPDFAnnot_GetFormFieldType(document.formenv, annotation) in FIELDS_OF_TEXT:
            text = _wide_text(
                partial(raw.FPDFAnnot_GetFormFieldValue, document.formenv, annotation)
            )
        elif raw.FPDFAnnot_GetSubtype(annotation) not in TEXTLESS:
            text = _wide_text(partial(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
        raw.FPDFPage_CloseAnnot(annotation)
        yield text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _wide_text(read: Callable[[Any, int], int]) -> str:
    """Text of a function of PDFium that fills a buffer with UTF-16, and returns its size."""
    from pypdfium2 import raw  # an optional library

    buffer = (raw.FPDF_WCHAR * read(None, 0))()
    read(buffer, len(buffer))
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


def _add_page(
    outline: Outline, number: int, text: str, sections: Sequence[tuple[int, str]]
) -> None:
    """Add a page, split at its section titles; sections not found begin with the page."""
    anchor = f"page={number}"
    done = 0
    outline.part(anchor, number)
    for level, title in sections:
        sought = map(re.escape, title[:LONGEST_SOUGHT].split())
        match = re.compile(r"\s+".join(sought), re.I).search(text, done)
        if match is not None:
            outline.add(text[done : match.start()], "\n")
            done = match.start()
        outline.heading(level, title, anchor, visible=False)
    outline.add(text[done:], "\n\n" if done == 0 else "\n")
