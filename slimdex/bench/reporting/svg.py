"""Charts as plain SVG: points with lines, labels and tooltips, and heat maps.

Colours are classes of a style sheet, of the page or of the picture: `s0`, `s1` and so on for
series, `ink` for text, `heat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil, floor, log10

WIDTH = 480.0
HEIGHT = 340.0
LEFT = 60.0
RIGHT = 12.0
TOP = 14.0
BOTTOM = 48.0
"""Margins of the plot, for axes."""
SHAPES = (
    "M0-5a5 5 0 1 0 .01 0z",
    "M-4.5-4.5h9v9h-9z",
    "M0-6l6 6-6 6-6-6z",
    "M0-6l5.5 10h-11z",
    "M0 6l5.5-10h-11z",
    "M-2-5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
    "M-5-5l10 10M-5 5l10-10",
)
"""Outline of each series' points."""
LETTER = 6.5
LINE = 14.0
DOT = 12.0
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
    faint : drawn pale.
    ends : of an interval in y, drawn as a vertical line.
    shape : index of the mark in `SHAPES`; by default the series.
    """

    x: float
    y: float
    series: int
    label: str
    tooltip: str
    ring: str = ""
    hollow: bool = False
    faint: bool = False
    ends: tuple[float, float] | None = None
    shape: int | None = None

    @property
    def outline(self) -> str:
        """Path of its mark."""
        shape = self.series if self.shape is None else self.shape
        return SHAPES[shape % len(SHAPES)]


@dataclass(frozen=True)
class Line:
    """A line through places (x, y), and its classes in the style sheet."""

    classes: str
    places: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """An axis over some values, in pixels from `start` to `stop`; logarithmic unless `linear`.

    Attributes
    ----------
    named : ticks and their labels; by default round numbers.
    """

    title: str
    low: float
    high: float
    start: float
    stop: float
    linear: bool = False
    named: Mapping[float, str] | None = None

    @classmethod
    def over(
        cls,
        title: str,
        values: Sequence[float],
        start: float,
        stop: float,
        *,
        linear: bool = False,
        least_span: float = 0.0,
    ) -> Axis:
        """Make an axis with room on both sides of the values, not narrower than `least_span`."""
        low = min(values)
        high = max(values)
        if linear:
            missing_span = max(least_span - (high - low), 0)
            low -= missing_span / 2
            high += missing_span / 2
            room = (high - low) * 0.08 or 0.01
            above = 2 * room  # where the best points are, and their labels
            return cls(title, low - room, high + above, start, stop, linear=True)
        return cls(title, low / 1.25, high * 1.25, start, stop)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        if self.linear:
            share = (value - self.low) / (self.high - self.low)
        else:
            share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + share * (self.stop - self.start)

    @property
    def labels(self) -> dict[float, str]:
        """Ticks and their labels."""
        if self.named is not None:
            return dict(self.named)
        return {tick: f"{tick:,g}" for tick in self.ticks}

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
            steps = [round(n * 10.0**e, 9) for e, n in product(exponents, (1, 2, 5))]
            return [step for step in steps if self.low <= step <= self.high]

        # Choose a round step, for about six ticks.
        rough = (self.high - self.low) / 6
        scale = 10.0 ** floor(log10(rough))
        step = next(n * scale for n in (1, 2, 5, 10) if n * scale >= rough)
        first = ceil(self.low / step - 1e-9)  # keeps a tick at `low`, despite rounding
        numbers = [round(n * step, 9) for n in range(first, first + 12)]
        return [number for number in numbers if number <= self.high]


def scatter(
    name: str,
    points: Sequence[Point],
    x_title: str,
    y_title: str,
    *,
    lines: Sequence[Line] = (),
    least_span: float = 0.0,
) -> str:
    """Draw points and lines over a logarithmic x and a linear y, not narrower than `least_span`."""
    x = Axis.over(x_title, [p.x for p in points], LEFT, WIDTH - RIGHT)
    values = list[float]()
    for point in points:
        values += (point.y, *(point.ends or ()))
    foot = HEIGHT - BOTTOM
    y = Axis.over(y_title, values, foot, TOP, linear=True, least_span=least_span)
    return _drawing(name, plot(points, lines, x, y), (WIDTH, HEIGHT))


def plot(points: Sequence[Point], lines: Sequence[Line], x: Axis, y: Axis) -> list[str]:
    """Draw axes, lines and points, which have labels where there is room."""
    drawn = _axes(x, y)
    for line in lines:
        places = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.places)
        drawn.append(f'<polyline class="{line.classes}" points="{places}"/>')

    # Draw intervals.
    for point in points:
        if point.ends:
            low, high = point.ends
            at = x.at(point.x)
            drawn.append(
                f'<path class="grid whisker" d="M{at:.1f} {y.at(low):.1f}V{y.at(high):.1f}"/>'
            )

    # Place labels; y grows upwards here, but downwards in pixels. A space keeps labels apart.
    spots = [(x.at(p.x) - x.start, y.start - y.at(p.y)) for p in points]
    size = (x.stop - x.start, y.start - y.stop)
    sides = place_labels(spots, [f"{p.label} " for p in points], size)

    # Draw points, the pale ones first, since later ones cover them.
    labelled = sorted(zip(points, sides, strict=True), key=lambda pair: not pair[0].faint)
    for point, side in labelled:
        drawn.append(_mark(point, x.at(point.x), y.at(point.y), side))
    return drawn


def _mark(point: Point, x: float, y: float, side: str | None) -> str:
    """Draw a point at a pixel, with its tooltip, and its label unless `side` is None."""
    ring = '<circle class="ring" r="9"/>' if point.ring else ""
    label = ""
    if side is not None and point.label:
        align, dx, dy = SIDES[side]
        anchor = f'text-anchor="{ANCHORS[align]}"'
        label = f'<text class="label" {anchor} x="{dx}" y="{dy + 4}">{escape(point.label)}</text>'
    classes = f"s{point.series}"
    if point.hollow:
        classes += " hollow"
    if point.faint:
        classes += " faint"
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape(point.tooltip)}</title>'
        f'<circle class="near" r="12"/>{ring}'
        f'<path class="{classes}" d="{point.outline}"/>{label}</g>'
    )


def _axes(x: Axis, y: Axis) -> list[str]:
    """Draw titles, ticks and the lines of the grid."""
    elements = _titles(x, y)
    for tick, name in y.labels.items():
        elements.append(f'<path class="grid" d="M{x.start} {y.at(tick):.1f}H{x.stop}"/>')
        elements.append(_left_of(x.start, y.at(tick), name))
    for tick, name in x.labels.items():
        elements.append(f'<path class="grid" d="M{x.at(tick):.1f} {y.stop}V{y.start}"/>')
        elements.append(_below(x.at(tick), y.start, name))
    return elements


def _titles(x: Axis, y: Axis) -> list[str]:
    """Draw the title of x below it, and that of y beside it, from bottom to top."""
    middle = (x.start + x.stop) / 2
    foot = y.start + BOTTOM - 8
    upwards = f"translate({x.start - 47} {(y.start + y.stop) / 2}) rotate(-90)"
    return [
        f'<text class="title" x="{middle}" y="{foot}">{escape(x.title)}</text>',
        f'<text class="title" transform="{upwards}">{escape(y.title)}</text>',
    ]


def _left_of(x: float, y: float, text: str) -> str:
    return f'<text class="tick" x="{x - 6}" y="{y + 4:.1f}">{text}</text>'


def _below(x: float, y: float, text: str) -> str:
    return f'<text class="tick below" x="{x:.1f}" y="{y + 18}">{text}</text>'


def heat_map(
    name: str,
    values: Mapping[tuple[float, float], float],
    tooltips: Mapping[tuple[float, float], str],
    rings: Mapping[tuple[float, float], str],
    titles: tuple[str, str],
) -> str:
    """Draw the value of each (row, column) as a cell with its number, darker for more.

    `rings` say why some cells are marked; `titles` are those of rows and columns.
    """
    rows = sorted({row for row, _ in values})
    columns = sorted({column for _, column in values})
    width = (WIDTH - LEFT - RIGHT) / len(columns)
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    low = min(values.values())
    high = max(values.values())
    lefts = {column: LEFT + i * width for i, column in enumerate(columns)}
    tops = {row: HEIGHT - BOTTOM - (i + 1) * height for i, row in enumerate(rows)}

    # Titles and ticks.
    foot = HEIGHT - BOTTOM
    elements = _titles(Axis(titles[1], 0, 1, LEFT, WIDTH - RIGHT), Axis(titles[0], 0, 1, foot, TOP))
    for column, left in lefts.items():
        elements.append(_below(left + width / 2, foot, f"{column:g}"))
    for row, top in tops.items():
        elements.append(_left_of(LEFT, top + height / 2, f"{row:g}"))

    # Cells.
    for cell, value in values.items():
        shade = 0.05 + 0.5 * (value - low) / ((high - low) or 1.0)
        row, column = cell
        at = f"translate({lefts[column]:.1f} {tops[row]:.1f})"
        inside = _cell((width - 3, height - 3), f"{value:.3f}", shade, rings.get(cell, ""))
        elements.append(f'<g transform="{at}"><title>{escape(tooltips[cell])}</title>{inside}</g>')
    return _drawing(name, elements, (WIDTH, HEIGHT))


def _cell(size: tuple[float, float], number: str, shade: float, ring: str) -> str:
    """Draw a cell of a heat map: its number, and why it is marked if it is."""
    width, height = size
    box = f'width="{width:.1f}" height="{height:.1f}" rx="3"'
    ringed = f'<rect class="ring" {box}/>' if ring else ""
    return (
        f'<rect class="heat" {box} fill-opacity="{shade:.2f}"/>{ringed}'
        f'<text class="cell" x="{width / 2:.1f}" y="{height / 2 + 3:.1f}">{number}</text>'
        f'<text class="why" x="{width / 2:.1f}" y="{height / 2 + 18:.1f}">{escape(ring)}</text>'
    )


def marker(series: int) -> str:
    """Draw a series' line and point, for a legend; it says nothing by itself."""
    return (
        '<svg class="marker" viewBox="-14 -8 28 16" aria-hidden="true">'
        f'<polyline class="s{series}" points="-14,0 14,0"/>'
        f'<path class="s{series}" d="{SHAPES[series]}"/></svg>'
    )


def _drawing(name: str, parts: Sequence[str], size: tuple[float, float]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {size[0]:g} {size[1]:g}">\n'
        f"{inside}\n</svg>"
    )


def place_labels(
    places: Sequence[tuple[float, float]], labels: Sequence[str], size: tuple[float, float]
) -> list[str | None]:
    """Find a side of each point on which its label has room; None if there is none.

    `places` are in pixels from the lower left corner of a plot of this size.

    >>> place_labels([(20, 50), (40, 50)], ["one", "two"], (100, 100))
    ['below', 'right']
    """
    taken = [(x - DOT / 2, y - DOT / 2, x + DOT / 2, y + DOT / 2) for x, y in places]
    sides = list[str | None]()
    for i, (place, label) in enumerate(zip(places, labels, strict=True)):
        # A label may cover its own point.
        others = [*taken[:i], *taken[i + 1 :]]
        sides.append(None)
        for side in SIDES:
            box = _box(place, side, len(label))
            if _inside(box, size) and not _meets(box, others):
                sides[i] = side
                taken.append(box)
                break
    return sides


def _box(place: tuple[float, float], side: str, letters: int) -> Box:
    """Return the box of a label of `letters` letters, on a side of its point."""
    x, y = place
    align, dx, dy = SIDES[side]
    width = letters * LETTER
    before = {"left": 0.0, "right": width, "center": width / 2}[align]
    left = x + dx - before
    middle = y - dy  # up is more here and less on a screen
    return left, middle - LINE / 2, left + width, middle + LINE / 2


def _inside(box: Box, size: tuple[float, float]) -> bool:
    """Return whether a box is inside a plot of a given width and height."""
    left, top, right, bottom = box
    width, height = size
    return left >= 0 and top >= 0 and right <= width and bottom <= height


def _meets(box: Box, others: Sequence[Box]) -> bool:
    """Return whether a box overlaps one of the others."""
    left, top, right, bottom = box
    for other_left, other_top, other_right, other_bottom in others:
        is_beside = right <= other_left or other_right <= left
        is_above_or_below = bottom <= other_top or other_bottom <= top
        if not is_beside and not is_above_or_below:
            return True
    return False
