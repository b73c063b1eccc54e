"""Charts as plain SVG: points with lines, labels and tooltips, and heat maps.

Colours are classes of the page's style sheet: `s0` to `s5` for series, `ink` for text, `heat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from math import ceil, floor, log10

WIDTH, HEIGHT = 480.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 12.0, 14.0, 48.0
"""Margins of the plot, for axes."""
SHAPES = (
    "M0-5a5 5 0 1 0 .01 0z",
    "M-4.5-4.5h9v9h-9z",
    "M0-6l6 6-6 6-6-6z",
    "M0-6l5.5 10h-11z",
    "M0 6l5.5-10h-11z",
    "M-2-5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
)
"""Outline of each series' points."""
LETTER, LINE, DOT = 6.5, 14.0, 12.0
"""Pixels of a label's letter and height, and of its point."""
SIDES = {
    "right": ("left", 10, 0),
    "left": ("right", -10, 0),
    "below": ("center", 0, 16),
    "above": ("center", 0, -16),
    "above, to the left": ("right", 6, -15),
    "below, to the left": ("right", 6, 15),
    "above, to the right": ("left", -6, -15),
    "below, to the right": ("left", -6, 15),
}
"""Position of a label -> alignment of its text, and offsets."""
ANCHORS = {"left": "start", "right": "end", "center": "middle"}
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Point:
    """A point of a chart.

    Attributes
    ----------
    series : its line, colour and shape.
    label : beside it, where there is room.
    ring : why it is marked, if it is.
    hollow : drawn as an outline.
    """

    x: float
    y: float
    series: int
    label: str
    tooltip: str
    ring: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis over some values, in pixels from `start` to `stop`; logarithmic unless `linear`."""

    title: str
    low: float
    high: float
    start: float
    stop: float
    linear: bool = False

    @classmethod
    def over(
        cls,
        title: str,
        values: Sequence[float],
        start: float,
        stop: float,
        *,
        linear: bool = False,
    ) -> Axis:
        """Make an axis with room on both sides of the values."""
        low, high = min(values), max(values)
        if linear:
            room = (high - low) * 0.08 or 0.01
            above = 2 * room  # where the best points are, and their labels
            return cls(title, low - room, high + above, start, stop, linear=True)
        return cls(title, low / 1.25, high * 1.25, start, stop)

    def at(self, value: float) -> float:
        """Pixel of a value."""
        if self.linear:
            share = (value - self.low) / (self.high - self.low)
        else:
            share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + share * (self.stop - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers on the axis.

        >>> Axis("", 0.62, 0.71, 0, 1, linear=True).ticks
        [0.62, 0.64, 0.66, 0.68, 0.7]
        >>> Axis("", 7, 120, 0, 1).ticks
        [10.0, 20.0, 50.0, 100.0]
        """
        if not self.linear:
            exponents = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = [round(n * 10.0**e, 9) for e in exponents for n in (1, 2, 5)]
            return [step for step in steps if self.low <= step <= self.high]
        rough = (self.high - self.low) / 6
        scale = 10.0 ** floor(log10(rough))
        step = next(n * scale for n in (1, 2, 5, 10) if n * scale >= rough)
        first = ceil(self.low / step - 1e-9)
        numbers = (round(n * step, 9) for n in count(first))
        return [n for n, _ in zip(numbers, range(12), strict=False) if n <= self.high]


def scatter(name: str, points: Sequence[Point], x_title: str, y_title: str, *, joined: bool) -> str:
    """Draw points, those of a series joined by a line from left to right; x is logarithmic."""
    x = Axis.over(x_title, [p.x for p in points], LEFT, WIDTH - RIGHT)
    y = Axis.over(y_title, [p.y for p in points], HEIGHT - BOTTOM, TOP, linear=True)
    series = dict[int, list[Point]]()
    for point in sorted(points, key=lambda p: p.x):
        series.setdefault(point.series, []).append(point)
    lines = [
        f'<polyline class="s{number}" points="'
        + " ".join(f"{x.at(p.x):.1f},{y.at(p.y):.1f}" for p in own)
        + '"/>'
        for number, own in series.items()
        if joined
    ]
    places = [(x.at(p.x) - LEFT, HEIGHT - BOTTOM - y.at(p.y)) for p in points]
    size = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
    sides = placed(places, [f"{p.label} " for p in points], size)  # a gap to the next one
    each = zip(points, sides, strict=True)
    marks = [_mark(p, x.at(p.x), y.at(p.y), side) for p, side in each]
    return _drawing(name, [*_axes(x, y), *lines, *marks])


def _mark(point: Point, x: float, y: float, side: str | None) -> str:
    ring = '<circle class="ring" r="9"/>' if point.ring else ""
    label = ""
    if side is not None and point.label:
        align, dx, dy = SIDES[side]
        anchor = f'text-anchor="{ANCHORS[align]}"'
        label = f'<text class="label" {anchor} x="{dx}" y="{dy + 4}">{escape(point.label)}</text>'
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape(point.tooltip)}</title>'
        f'<circle class="near" r="12"/>{ring}'
        f'<path class="s{point.series}{" hollow" * point.hollow}" d="{SHAPES[point.series]}"/>'
        f"{label}</g>"
    )


def _axes(x: Axis, y: Axis) -> list[str]:
    foot, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    found = []
    for tick in y.ticks:
        at = y.at(tick)
        found.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
        found.append(f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}">{tick:g}</text>')
    for tick in x.ticks:
        at = x.at(tick)
        found.append(f'<path class="grid" d="M{at:.1f} {TOP}V{foot}"/>')
        found.append(f'<text class="tick below" x="{at:.1f}" y="{foot + 18}">{tick:,g}</text>')
    middle = (LEFT + right) / 2
    title = f'<text class="title" x="{middle}" y="{HEIGHT - 8}">{escape(x.title)}</text>'
    up = f"translate(13 {(TOP + foot) / 2}) rotate(-90)"
    return [*found, title, f'<text class="title" transform="{up}">{escape(y.title)}</text>']


def heat_map(
    name: str,
    values: Mapping[tuple[float, float], float],
    tooltips: Mapping[tuple[float, float], str],
    rings: Mapping[tuple[float, float], str],
    titles: tuple[str, str],
) -> str:
    """Draw the value of each (row, column) as a cell with its number, darker for more."""
    rows, columns = (sorted({cell[i] for cell in values}) for i in (0, 1))
    width = (WIDTH - LEFT - RIGHT) / len(columns)
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    low, high = min(values.values()), max(values.values())
    found = []
    for (row, column), value in values.items():
        x = LEFT + columns.index(column) * width
        y = HEIGHT - BOTTOM - (rows.index(row) + 1) * height
        shade = 0.05 + 0.5 * (value - low) / ((high - low) or 1.0)
        ring = rings.get((row, column), "")
        found.append(
            f'<g transform="translate({x:.1f} {y:.1f})">'
            f"<title>{escape(tooltips[row, column])}</title>"
            f'<rect class="heat" width="{width - 3:.1f}" height="{height - 3:.1f}" rx="3" '
            f'fill-opacity="{shade:.2f}"/>'
            + (f'<rect class="ring" width="{width - 3:.1f}" height="{height - 3:.1f}" rx="3"/>')
            * bool(ring)
            + f'<text class="cell" x="{width / 2:.1f}" y="{height / 2 + 2:.1f}">{value:.3f}</text>'
            f'<text class="why" x="{width / 2:.1f}" y="{height / 2 + 17:.1f}">{escape(ring)}</text>'
            "</g>"
        )
    for i, column in enumerate(columns):
        at = LEFT + (i + 0.5) * width
        found.append(f'<text class="tick below" x="{at:.1f}" y="{HEIGHT - 30}">{column:g}</text>')
    for i, row in enumerate(rows):
        at = HEIGHT - BOTTOM - (i + 0.5) * height + 4
        found.append(f'<text class="tick" x="{LEFT - 6}" y="{at:.1f}">{row:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    up = f"translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"
    found.append(f'<text class="title" transform="{up}">{escape(titles[0])}</text>')
    found.append(f'<text class="title" x="{middle}" y="{HEIGHT - 8}">{escape(titles[1])}</text>')
    return _drawing(name, found)


def marker(series: int) -> str:
    """Draw a series' line and point, for a legend; it says nothing by itself."""
    return (
        '<svg class="marker" viewBox="-14 -8 28 16" aria-hidden="true">'
        f'<polyline class="s{series}" points="-14,0 14,0"/>'
        f'<path class="s{series}" d="{SHAPES[series]}"/></svg>'
    )


def _drawing(name: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}">\n'
        f"{inside}\n</svg>"
    )


def placed(
    places: Sequence[tuple[float, float]], labels: Sequence[str], size: tuple[float, float]
) -> list[str | None]:
    """Find a side of each point on which its label has room; None if there is none.

    `places` are in pixels from the lower left corner of a plot of this size.

    >>> placed([(20, 50), (40, 50)], ["one", "two"], (100, 100))
    ['below', 'right']
    """
    taken = [(x - DOT / 2, y - DOT / 2, x + DOT / 2, y + DOT / 2) for x, y in places]
    sides = list[str | None]()
    for i, (place, label) in enumerate(zip(places, labels, strict=True)):
        boxes = {side: _box(place, side, len(label)) for side in SIDES}
        others = [box for j, box in enumerate(taken) if j != i]
        fits = (s for s, box in boxes.items() if _inside(box, size) and not _meets(box, others))
        sides.append(side := next(fits, None))
        if side is not None:
            taken.append(boxes[side])
    return sides


def _box(place: tuple[float, float], side: str, letters: int) -> Box:
    align, dx, dy = SIDES[side]
    width = letters * LETTER
    left = place[0] + dx - {"left": 0.0, "right": width, "center": width / 2}[align]
    middle = place[1] - dy  # up is more here and less on a screen
    return left, middle - LINE / 2, left + width, middle + LINE / 2


def _inside(box: Box, size: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]


def _meets(box: Box, others: Sequence[Box]) -> bool:
    return any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in others)
