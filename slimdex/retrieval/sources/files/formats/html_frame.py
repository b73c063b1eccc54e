"""Finds the frame of a web page: navigation, banners, sidebars, and what is beside its main text.

Elements and classes only suggest it. What has most of the text is never left out, since authors
wrap whole pages in such elements, or have a headline alone in `main`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
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
    """An element of a page.

    Attributes
    ----------
    first, last : numbers of its first and last event.
    start, end : weights of the page's text before these events.
    """

    first: int
    last: int
    start: int
    end: int

    @property
    def weight(self) -> int:
        """Weight of its text."""
        return self.end - self.start


def without_frame(events: Sequence[Event]) -> ContentChoice:
    """Choose what of a page is read, which is always the larger part of its text."""
    page = _Scales()
    page.weigh(events)
    frame = _lighter_half(page.regions["frame"], page.weight)
    left_out = frozenset(region.first for region in [*page.regions["unseen"], *frame])

    # Read only the elements of content if they have at least half of the text.
    mains = _outermost(page.regions["main"])
    articles = _outermost(page.regions["article"])
    single = articles if len(articles) == 1 else []  # of several, each may be a teaser
    for regions in (mains, single):
        if regions and 2 * _weight_beside(frame, regions) >= page.weight:
            return ContentChoice(left_out, frozenset(region.first for region in regions))
    return ContentChoice(left_out)


def _weight(regions: Iterable[_Region]) -> int:
    return sum(region.weight for region in regions)


def _outermost(regions: Iterable[_Region]) -> list[_Region]:
    """Return the regions that no other region contains, in order."""
    outermost = list[_Region]()
    last = -1
    for region in sorted(regions):
        if region.first > last:
            outermost.append(region)
            last = region.last
    return outermost


def _lighter_half(regions: Iterable[_Region], weight: int) -> list[_Region]:
    """Outermost regions that have at most half of a page's weight, alone and together."""
    frame = _outermost(region for region in regions if 2 * region.weight <= weight)

    # Take the heaviest for content until the others together have at most half of the weight.
    excess = 2 * _weight(frame) - weight
    content = set[_Region]()
    for region in sorted(frame, key=lambda region: region.weight, reverse=True):
        if excess <= 0:
            break
        content.add(region)
        excess -= 2 * region.weight
    return [region for region in frame if region not in content]


def _weight_beside(frame: Sequence[_Region], regions: Iterable[_Region]) -> int:
    """Weight of the regions' text that is outside the frame."""
    ends = [region.end for region in frame]
    weights = [*accumulate((region.weight for region in frame), initial=0)]

    def frame_weight(weight: int) -> int:
        """Weight of the frame within the first `weight` of the page's text."""
        before = bisect_left(ends, weight)  # number of frame regions that end before
        is_last = before == len(frame)
        of_next = 0 if is_last else max(0, weight - frame[before].start)
        return weights[before] + of_next

    beside = 0
    for region in regions:
        beside += region.weight - frame_weight(region.end) + frame_weight(region.start)
    return beside


class _Scales:
    """Weighs the text of a page, and the elements that may be its frame or its main text."""

    def __init__(self) -> None:
        self.weight = 0
        self.regions: dict[str, list[_Region]] = {
            "unseen": [],
            "frame": [],
            "main": [],
            "article": [],
        }
        """Kind of an element -> all of them."""

    def weigh(self, events: Sequence[Event]) -> None:
        """Weigh all text that browsers show."""
        # Open elements, each with the number of its event, its kind, and the weight before it.
        above = list[Start]()
        begun = list[tuple[int, str, int]]()
        links = 0  # open links and buttons
        unseen = 0  # open elements that browsers do not show
        for number, event in enumerate(events):
            if isinstance(event, str):
                if not (unseen or event.isspace()):
                    self.weight += _length(event) * (LINK_WEIGHT if links else TEXT_WEIGHT)
            elif event is None:
                first, kind, before = begun.pop()
                links -= _is_link(above.pop())
                unseen -= kind == "unseen"
                if kind == "noscript":  # its text counts unless it is a notice
                    kind = "unseen" if _is_notice(events[first:number]) else ""
                    self.weight = before if kind else self.weight
                if kind:
                    self.regions[kind].append(_Region(first, number, before, self.weight))
            else:
                kind = _kind(event, above)
                links += _is_link(event)
                unseen += kind == "unseen"
                above.append(event)
                begun.append((number, kind, self.weight))


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
