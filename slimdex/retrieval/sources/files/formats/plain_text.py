"""Plain text, with pages separated by form feeds."""

from __future__ import annotations

from ..outline import Extract, Outline

FORM_FEED = "\f"


def read(text: str) -> Extract:
    r"""Read a text; form feeds separate pages, as in RFCs.

    >>> read("One.\n\fTwo.").parts
    (Part(start=0, headings=(), page=1, anchor=''), Part(start=6, headings=(), page=2, anchor=''))
    """
    pages = text.split(FORM_FEED)
    outline = Outline()
    for number, page in enumerate(pages, start=1):
        outline.part(page=number if len(pages) > 1 else None)
        outline.add(page)
    return Extract("", outline.text, outline.parts)
