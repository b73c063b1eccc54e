"""Attribute lists in Markdown: ``{ #id .class key=val }``, and MyST's targets, ``(label)=``.

Python-Markdown, kramdown, Pandoc and MyST write them; they are no text.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

NAMED = (
    r"""(?>\#[^\s{}"'=]+|\.[A-Za-z_-][^\s{}"'=]*|-(?=[ \t}])|data-[\w-]+(?=[ \t}])"""
    r"""|[A-Za-z][\w:-]+=(?>"[^"\n]*"|'[^'\n]*'|[^\s"'{}=]+))"""
)
"""An id, a class, or a key with a value. Without a colon before it, a word alone, as in `{x}`, is
text, and so is a key of one letter, as in `{n=1}`."""
ITEM = rf"(?>{NAMED}|[\w-]+)"
LIST = rf"(?<![\\{{])\{{(?>:[ \t]*{ITEM}|[ \t]*{NAMED})(?>[ \t]+{ITEM})*[ \t]*\}}(?!\}})"
ATTRIBUTES, AT_END = re.compile(LIST), re.compile(rf"{LIST}\Z")
ID = re.compile(r"""[\s:{](?:\#|id=["']?)([^\s{}"']+)""")
TARGET = re.compile(r"\(([\w|@<>*./+:-]{1,100})\)=")
CLOSING = re.compile(r"(?:^|\s)#+\Z")
"""Closing hashes of a heading."""
NAMELESS = re.compile(r"(?:\]|:[\w+-]{1,64}:)\Z")
"""End of a span in brackets or of an emoji, which are no tokens."""
TOKENS = ("link_close", "image", "code_inline", "html_inline")
PARAGRAPH = ("paragraph_open", "paragraph_close", "inline", "heading_close")


def attribute_lists(parser: MarkdownIt) -> None:
    """Add rules to a parser, by which lists are no text, and the ids of headings are attributes.

    >>> from markdown_it import MarkdownIt
    >>> MarkdownIt().use(attribute_lists).render("# The set {1, 2} { #set .wide }")
    '<h1 id="set">The set {1, 2}</h1>\\n'
    """
    parser.core.ruler.before("inline", "attribute_lists", _of_blocks)
    parser.inline.ruler.push("attribute_lists", _of_spans)


def _of_blocks(state: StateCore) -> None:
    """Remove lists at the end of headings and cells, and on lines of their own."""
    heading: Token | None = None
    label = ""
    for before, token in pairwise(state.tokens):
        if before.type == "heading_open":
            token.content, own = _shortened(token.content)
            heading = before
            if own or label:
                heading.attrSet("id", own or label)
            label = ""
        elif token.type == "inline" and before.type in ("td_open", "th_open"):
            token.content, _ = _shortened(token.content)
        elif token.type == "inline":
            above = heading if heading and _is_below(token, heading) else None
            token.content, found = _without_lines(token.content)
            if above and found and not token.content:
                above.attrSet("id", found)
            else:
                label = "" if token.content else found or label
        elif token.type not in PARAGRAPH and token.type != "heading_open":
            label = ""


def _is_below(token: Token, heading: Token) -> bool:
    """Return whether a list is of the heading directly above it, as in kramdown."""
    ends, begins = heading.map or [0, -1], token.map or [-2, 0]
    return token.content.startswith("{:") and bool(ends[1] == begins[0])


def _shortened(text: str) -> tuple[str, str]:
    """Remove lists from the end of a text; return it with the last id.

    >>> _shortened("Tea ## { #tea .hot }"), _shortened("A code, `{ #x }`")
    (('Tea', 'tea'), ('A code, `{ #x }`', ''))
    """
    id = ""
    while found := AT_END.search(text):
        id = id or _id(found[0])
        text = CLOSING.sub("", text[: found.start()].rstrip()).rstrip()
    return text, id


def _without_lines(text: str) -> tuple[str, str]:
    """Remove lines that are lists or targets; return the rest with the last id."""
    lines, id = list[str](), ""
    for line in text.split("\n"):
        if ATTRIBUTES.fullmatch(line):
            id = _id(line) or id
        elif target := TARGET.fullmatch(line):
            id = target[1]
        else:
            lines.append(line)
    return "\n".join(lines), id


def _id(attributes: str) -> str:
    return next(reversed(ID.findall(attributes)), "")


def _of_spans(state: StateInline, silent: bool) -> bool:
    """Skip a list directly after a link, a picture, code, emphasis or the like."""
    if state.src[state.pos] != "{":
        return False
    found = ATTRIBUTES.match(state.src, state.pos, state.posMax)
    last = state.tokens[-1] if state.tokens and not state.pending else None
    is_marked = last is not None and (last.type in TOKENS or not last.content.strip("*_~"))
    if not found or not (is_marked or NAMELESS.search(state.pending[-70:])):
        return False
    if not silent:
        state.pos = found.end()
    return True
