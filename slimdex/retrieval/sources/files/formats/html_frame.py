"""Finds the frame of a web page: navigation, banners, sidebars, and what is beside its main text.

Elements and classes only suggest it. What has most of the text is never left out, since authors
wrap whole pages in such elements, or have a headline alone in `main`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from .html_events import Event, Start

BESIDE = ("header", "footer", "aside")
"""Elements of the frame, unless inside the main content."""
CONTENT = ("main", "article", "section")
ROLES = frozenset(["navigation", "banner", "contentinfo", "search", "complementary"])
NAMES = frozenset([
    "sphinxsidebar", "related", "related-posts", "navbar", "sidebar", "breadcrumb", "breadcrumbs",
    "noprint", "footer", "respond", "comment-respond", "sharedaddy",
])  # fmt: skip
"""Classes and ids of elements of the frame."""
LINK_WEIGHT = 1
TEXT_WEIGHT = 8
"""Weights of a character: a frame consists of links and buttons, and a text has few."""
NOTICE = re.compile(r"java ?script", re.I)
LONGEST_NOTICE = 400
"""Characters of a request to switch scripts on."""
HIGHEST = 64
"""Elements above one among which an element of content is looked for."""


class ContentChoice(NamedTuple):
    """Elements to leave out, and elements to read alone if there are any, by number of event."""

    left_out: frozenset[int] = frozenset()
    alone: frozenset[int] = frozenset()


class _Region(NamedTuple):
    """An element of a page: numbers of its first and last event, and the weight of its text."""

    first: int
    last: int
    weight: int


def without_frame(events: Sequence[Event]) -> ContentChoice:
    """Choose what of a page is read, which is always the larger part of its text."""
    weights, regions = _weigh(events)
    total = sum(weights)
    frame = _lighter_half(regions["frame"], total)
    left_out = frozenset(region.first for region in [*regions["unseen"], *frame])
    for region in frame:
        weights[region.first : region.last] = [0] * (region.last - region.first)

    # Read only the elements of content if they have at least half of the text.
    mains = _outermost(regions["main"])
    articles = _outermost(regions["article"])
    single = articles if len(articles) == 1 else []  # of several, each may be a teaser
    for chosen in (mains, single):
        content = sum(sum(weights[region.first : region.last]) for region in chosen)
        if chosen and 2 * content >= total:
            return ContentChoice(left_out, frozenset(region.first for region in chosen))
    return ContentChoice(left_out)


def _outermost(regions: Iterable[_Region]) -> list[_Region]:
    """Return the regions that no other region contains, in order."""
    outermost = list[_Region]()
    last = -1
    for region in sorted(regions):
        if region.first > last:
            outermost.append(region)
            last = region.last
    return outermost


def _lighter_half(regions: Iterable[_Region], total: int) -> list[_Region]:
    """Lightest of the outermost regions, which have at most half of the weight together."""
    light = _outermost(region for region in regions if 2 * region.weight <= total)
    half = list[_Region]()
    weight = 0
    for region in sorted(light, key=lambda region: region.weight):
        weight += region.weight
        if 2 * weight <= total:
            half.append(region)
    return half


def _weigh(events: Sequence[Event]) -> tuple[list[int], Mapping[str, list[_Region]]]:
    """Weigh the texts that browsers show, and find the elements of each kind (see `_kind`)."""
    weights = [0] * len(events)
    regions = defaultdict[str, list[_Region]](list)
    above = list[Start]()
    begun = list[tuple[int, str, int]]()  # number, kind and weight before each open element
    weight = 0
    links = 0  # open links and buttons
    unseen = 0  # open elements that browsers do not show
    for number, event in enumerate(events):
        if isinstance(event, str):
            if not unseen:
                weights[number] = _length(event) * (LINK_WEIGHT if links else TEXT_WEIGHT)
                weight += weights[number]
        elif event is None:
            first, kind, before = begun.pop()
            links -= _is_link(above.pop())
            unseen -= kind == "unseen"
            if kind == "noscript" and _is_notice(events[first:number]):
                kind = "unseen"
                weight = before
                weights[first:number] = [0] * (number - first)
            if kind:
                regions[kind].append(_Region(first, number, weight - before))
        else:
            kind = _kind(event, above)
            links += _is_link(event)
            unseen += kind == "unseen"
            above.append(event)
            begun.append((number, kind, weight))
    return weights, regions


def _is_link(element: Start) -> bool:
    """True for a link or a button."""
    tag, attributes = element
    return (tag == "a" and "href" in attributes) or tag == "button"


def _length(text: str) -> int:
    """Number of characters other than white space."""
    return sum(map(len, text.split()))


def _kind(element: Start, above: Sequence[Start]) -> str:
    """Return the kind of page part that an element may be; "" for most."""
    # Heads are unseen. Elements marked as the main content are not the frame, whatever their names.
    tag, attributes = element
    if tag == "head":
        return "unseen"
    role = attributes.get("role", "").lower()
    if tag == "main" or role == "main":
        return "main"

    # Recognize the frame by element, role, class or id.
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}".lower().split()
    is_hidden = attributes.get("hidden", "until-found") != "until-found"
    if tag == "nav" or is_hidden or role in ROLES or not NAMES.isdisjoint(names):
        return "frame"
    if tag in BESIDE and not any(e.tag in CONTENT for e in islice(reversed(above), HIGHEST)):
        return "frame"
    return tag if tag in ("article", "noscript") else ""


def _is_notice(events: Sequence[Event]) -> bool:
    """Return whether a text for browsers without scripts only asks to switch them on."""
    text = " ".join(event for event in events if isinstance(event, str))
    return _length(text) <= LONGEST_NOTICE and bool(NOTICE.search(text))
