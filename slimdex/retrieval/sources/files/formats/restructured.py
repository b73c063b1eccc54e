"""reStructuredText: the text as it is written, divided at its section titles."""

from __future__ import annotations

import re

from ..outline import Extract, Outline
from .markdown import slug

TITLE = re.compile(
    r"^(?:(?P<over>([-=`:'\"~^_*+#<>.])\2{2,})[ ]*\n)?"
    r"(?P<title>[ ]?\S.*)\n(?P<under>([-=`:'\"~^_*+#<>.])\5{2,})[ ]*$",
    re.M,
)
"""A title with a line of punctuation below it, and perhaps one above."""


def read(text: str) -> Extract:
    r"""Read a text; its title is the first heading.

    Levels are those of the lines of punctuation in the order in which they occur.

    >>> tea = read("Tea\n===\n\nBoil fresh water.\n")
    >>> tea.title, tea.text, tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', 'tea')
    """
    outline, styles, done = Outline(), list[tuple[str, bool]](), 0
    for found in TITLE.finditer(text):
        title, under = found["title"].strip(), found["under"]
        if len(under) < len(title):
            continue
        is_overlined = found["over"] == under
        style = (under[0], is_overlined)
        if style not in styles:
            styles.append(style)
        outline.add(text[done : found.start(0 if is_overlined else "title")])
        outline.heading(styles.index(style) + 1, title, slug(title))
        done = found.end()
    outline.add(text[done:])
    return Extract(outline.first_heading, outline.text, outline.parts)
