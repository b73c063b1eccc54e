"""Charts of quality against memory, and of time against memory, as pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

import altair as alt
import vl_convert

from ..rows import Row
from .retrieval_tables import (
    CODES_ONLY,
    FASTEST_AT,
    LOWER,
    METHODS,
    RESCORED,
    SLIMDEX,
    fastest_at,
    lines_of,
    mean_by_method,
    of_task,
    stage,
    tasks,
)
from .svg import SIDES, placed

Chart = Any
"""Any Altair chart; they share `to_dict` and `save`, but no public base."""
SCALE = 2
"""Pixels of a PNG for each pixel of the chart."""
OURS, OTHERS = "#d1495b", "#30638e"
"""Colours of slimdex and of others."""
PALETTE = (
    *(OURS, "#000000", "#777777", "#edae49", "#b5651d", OTHERS, "#66a5d8", "#1b9e77"),
    *("#7b3294", "#9fd356", "#b8b8d1", "#d4a5a5", "#c2b280"),
)
"""Colour of each of `METHODS`."""
SHAPES = {RESCORED: "circle", CODES_ONLY: "square"}
SHARES = (1, 2, 4, 8, 16, 32, 64, 128)
PLOT = (280.0, 280.0)
"""Pixels of the part of a plot that names may take."""
TITLES = {
    "peers": "Time, and private memory, without mapped files",
    "quality": "Quality against memory, mean over the sets",
}
"""Name of a picture -> its title."""


def pictures(retrieval: Sequence[Row], peers: Sequence[Row]) -> dict[str, bytes]:
    """Name of the picture -> PNG, for the existing rows; panels are one below the other."""
    panels: dict[str, list[Chart]] = {
        "peers": [chart for task in tasks(peers) for chart in _peer_map(of_task(peers, task))],
        "quality": [*_quality(retrieval)],
    }
    charts = {name: own[0] if len(own) == 1 else alt.vconcat(*own) for name, own in panels.items()}
    return {
        name: vl_convert.vegalite_to_png(chart.to_dict(), scale=SCALE)
        for name, chart in charts.items()
        if panels[name]
    }


def _quality(rows: Sequence[Row]) -> Iterator[Chart]:
    """nDCG@10 against compression, averaged over the sets of the model with the most sets."""
    models = [model for _, model in tasks(rows)]
    if not models:
        return
    model = max(models, key=models.count)
    means = [row for row in mean_by_method(rows, model) if row["method"] in METHODS]
    shown = [_point(row) for row in lines_of(means)]
    top = max(2, ceil(max(point["delta"] for point in shown)))  # losses are cut off, gains never
    y = alt.Y(
        "delta:Q", title="nDCG@10, points against float32", scale=alt.Scale(domain=[-12, top])
    )
    base = alt.Chart(_data(shown)).encode(
        x=_compression(), y=y, color=_methods({row["method"] for row in means}), detail="stage:N"
    )
    dash = alt.StrokeDash("stage:N", sort=[RESCORED, CODES_ONLY], legend=None)
    wide = alt.condition("datum.ours", alt.value(3.5), alt.value(1.8))
    lines = base.mark_line(clip=True).encode(strokeDash=dash, strokeWidth=wide)
    shape = alt.Shape("stage:N", title=None, sort=list(SHAPES), scale=_palette(SHAPES))
    points = base.mark_point(filled=True, size=80, opacity=1, clip=True).encode(shape=shape)
    zero = alt.Chart(_data([{"delta": 0}])).mark_rule(color="#999999", strokeDash=[3, 3])
    count = models.count(model)
    title = f"mean of {count} sets, {model}" if count > 1 else f"{means[0]['set']}, {model}"
    layers = [zero.encode(y="delta:Q"), lines, points]
    yield alt.layer(*layers).properties(width=640, height=360, title=title)


def _peer_map(rows: Sequence[Row]) -> Iterator[Chart]:
    """Median latency against memory of the fastest setting of each at an agreement.

    It is the highest that most methods reach.
    """
    for least in (FASTEST_AT, *LOWER):
        each = fastest_at(rows, least)
        reached = [row for row in each if row["agreement@10"] >= least]
        if 2 * len(reached) > len(each):
            break
    else:
        return
    points = named([_peer_point(row) for row in reached], "method", "memory", "p50")
    scales = [
        alt.Scale(type="log", domain=decades([p[axis] for p in points]), nice=False)
        for axis in ("memory", "p50")
    ]
    x = alt.X("memory:Q", title="private bytes a vector, by growth of the process", scale=scales[0])
    y = alt.Y("p50:Q", title="median ms a query, one thread", scale=scales[1])
    base = alt.Chart(_data(points)).encode(x=x, y=y)
    colour = alt.condition("datum.ours", alt.value(OURS), alt.value(OTHERS))
    dots = base.mark_point(filled=True, size=140, opacity=1).encode(color=colour)
    align, dx, dy = (alt.ExprRef(f"datum.{name}") for name in ("align", "dx", "dy"))
    names = base.mark_text(align=align, dx=dx, dy=dy, fontSize=12).encode(text="method:N")
    first = rows[0]
    title = f"{first['set']}, {first['model']}: {first['documents']:,} vectors; agreement {least}"
    yield alt.layer(dots, names).properties(width=640, height=280, title=title)


def _data(values: Iterable[Row]) -> Any:
    return alt.InlineData(values=list(values))


def _point(row: Row) -> Row:
    """Values of a row for charts; the names avoid characters with a meaning in Vega."""
    return {
        "method": row["method"],
        "ours": row["method"] == SLIMDEX,
        "stage": stage(row),
        "compression": row["compression"],
        "delta": row["ndcg@10_delta"],
    }


def _peer_point(row: Row) -> Row:
    return {
        "method": row["method"],
        "ours": row["method"].startswith(SLIMDEX),
        "p50": row["p50_ms_one"],
        "memory": row["process_row_bytes"],
    }


def _compression() -> alt.X:
    axis = alt.Axis(
        values=list(SHARES), labelExpr="datum.value == 1 ? 'float32' : '1/' + datum.value"
    )
    scale = alt.Scale(type="log", base=2, domain=[1, 256])
    return alt.X("compression:Q", title="memory a vector", axis=axis, scale=scale)


def _methods(present: Collection[str]) -> alt.Color:
    """slimdex in its own colour, every other method in a fixed one of a palette."""
    colours = dict(zip(METHODS, PALETTE, strict=True))
    shown = {name: colour for name, colour in colours.items() if name in present}
    return alt.Color("method:N", title=None, scale=_palette(shown))


def _palette(values: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(values), range=list(values.values()))


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
    sides = [side or "right" for side in placed(at, [point[name] for point in points], PLOT)]
    each = zip(points, sides, [SIDES[side] for side in sides], strict=True)
    return [
        point | {"side": side, "align": align, "dx": dx, "dy": dy}
        for point, side, (align, dx, dy) in each
    ]


def _share(value: float, span: tuple[float, float]) -> float:
    return log10(value / span[0]) / log10(span[1] / span[0])
