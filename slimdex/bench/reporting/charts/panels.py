"""Figures of panels: one picture as PNG, and as wide as available in the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Any

import altair as alt

from ...rows import Row

Chart = Any
"""Any Altair chart; they share `to_dict` and `save`, but no public base."""
PLOT = (280.0, 380.0)
"""Pixels of a plot on a phone; names that fit there fit everywhere."""
LETTER, LINE, DOT = 6.5, 14.0, 12.0
"""Pixels of a name's letter and height, and of its mark."""
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
"""Position of a name -> alignment of its text, and offsets."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Figure:
    """A figure: its title and panels.

    Attributes
    ----------
    columns : of panels in the PNG; the page has as many as fit.
    narrowest : minimum pixels of a panel in the page.
    marks : name -> (colour, shape), explained once above the panels; if empty, by each panel.
    independent : whether colours have another meaning in each panel.
    """

    title: str
    panels: Sequence[Chart]
    columns: int = 1
    narrowest: int = 300
    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    independent: bool = False

    def picture(self) -> Chart:
        """Combine all panels into one chart of fixed size."""
        if len(self.panels) == 1:
            return self.panels[0]
        chart = alt.concat(*self.panels, columns=self.columns)
        return chart.resolve_scale(color="independent") if self.independent else chart

    def in_page(self) -> list[tuple[str, dict[str, Any]]]:
        """Each panel's title and its Vega-Lite chart, as wide as its place in the page."""
        return [self._widened(panel.to_dict()) for panel in self.panels]

    def _widened(self, spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        title = str(spec.pop("title", ""))
        spec["config"] = spec.get("config", {}) | {
            "axis": {"labelFontSize": 12, "titleFontSize": 12, "labelSeparation": 6},
            "legend": {"labelFontSize": 12, "orient": "bottom", "disable": bool(self.marks)},
        }
        fit = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
        return title, spec | fit


def decades(values: Sequence[float]) -> tuple[float, float]:
    """Powers of ten around positive values.

    >>> decades([24.0, 6180.0]), decades([1.0])
    ((10.0, 10000.0), (1.0, 10.0))
    """
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def named(points: Sequence[Row], name: str, x: str, y: str) -> list[Row]:
    """Add to points of a log-log chart the side and offset at which their name has room."""
    spans = decades([p[x] for p in points]), decades([p[y] for p in points])
    at = [(_share(p[x], spans[0]) * PLOT[0], _share(p[y], spans[1]) * PLOT[1]) for p in points]
    taken = [(x - DOT / 2, y - DOT / 2, x + DOT / 2, y + DOT / 2) for x, y in at]
    placed = []
    for i, (point, place) in enumerate(zip(points, at, strict=True)):
        boxes = {side: _box(place, side, len(point[name])) for side in SIDES}
        others = [box for j, box in enumerate(taken) if j != i]
        room = [s for s, box in boxes.items() if _inside(box) and not _meets(box, others)]
        side = room[0] if room else "right"
        taken.append(boxes[side])
        align, dx, dy = SIDES[side]
        placed.append(point | {"side": side, "align": align, "dx": dx, "dy": dy})
    return placed


def _share(value: float, span: tuple[float, float]) -> float:
    return log10(value / span[0]) / log10(span[1] / span[0])


def _box(place: tuple[float, float], side: str, letters: int) -> Box:
    align, dx, dy = SIDES[side]
    width = letters * LETTER
    left = place[0] + dx - {"left": 0.0, "right": width, "center": width / 2}[align]
    middle = place[1] - dy  # up is more here and less on a screen
    return left, middle - LINE / 2, left + width, middle + LINE / 2


def _inside(box: Box) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= PLOT[0] and box[3] <= PLOT[1]


def _meets(box: Box, others: Sequence[Box]) -> bool:
    return any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in others)
