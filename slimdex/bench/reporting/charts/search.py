"""Vega-Lite charts of the findings, the same in the page and as PNG."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import altair as alt

from ...experiments.measured_methods import REDUCERS
from ...rows import Row
from ..findings import (
    CODES_ONLY,
    FASTEST_AT,
    GROUPS,
    RESCORED,
    SLIMDEX,
    fastest_at,
    is_told,
    label,
    lines_of,
    mean_by_method,
    of_task,
    pareto,
    resident_bytes,
    stage,
    tasks,
)
from .panels import Chart, Figure, decades, named

COLOURS = {
    "slimdex": "#d1495b",
    "float32, float16": "#333333",
    "FAISS quantisers": "#30638e",
    "sentence-transformers": "#edae49",
    "PCA, truncation, random projection": "#8d99ae",
}
K_COLOURS = dict(
    zip(REDUCERS, ("#d1495b", "#30638e", "#66a5d8", "#edae49", "#9fd356", "#8d99ae"), strict=True)
)
SHAPES = {RESCORED: "circle", CODES_ONLY: "square"}
SHARES, FEW_SHARES = (1, 2, 4, 8, 16, 32, 64, 128), (1, 4, 16, 64)
DELTA = "nDCG@10, points against float32"
ROW_TIP = [
    alt.Tooltip("label:N", title="method"),
    alt.Tooltip("set:N"),
    alt.Tooltip("model:N"),
    alt.Tooltip("bytes:Q", title="bytes a vector", format=",.1f"),
    alt.Tooltip("ndcg:Q", title="nDCG@10", format=".2f"),
    alt.Tooltip("delta:Q", title="against float32", format="+.2f"),
    alt.Tooltip("interval:N", title="95% interval"),
    alt.Tooltip("agreement:Q", title="agreement@10", format=".3f"),
    alt.Tooltip("p50:Q", title="p50 ms, one thread", format=".3f"),
]


def all_charts(retrieval: Sequence[Row], peers: Sequence[Row]) -> dict[str, Figure]:
    """Name of the picture -> figure, the most important first: time and memory, if measured."""
    stages = {name: ("#555555", shape) for name, shape in SHAPES.items()}
    methods = _colours({row["method"] for row in retrieval})
    figures = {
        "peers": Figure(
            "Time, and memory without the files that slimdex maps, at agreement 0.99",
            _per_task(peers, _peer_map),
        ),
        "quality": Figure(
            "Quality against memory, mean over the sets",
            quality(retrieval),
            marks=_marks(methods) | stages,
        ),
        "agreement": Figure(
            "Latency against agreement with exact search", _per_task(peers, _agreement_curve)
        ),
        "pareto": Figure(
            "Quality against memory, every set, with the Pareto front",
            _per_task(retrieval, _front),
            columns=3,
            marks=_marks(COLOURS) | stages,
        ),
        "k": Figure(
            "Quality against k: nothing quantised, nothing rescored",
            _per_task(retrieval, _k_curve),
            columns=3,
            marks=_marks({n: c for n, c in K_COLOURS.items() if n != "rotation"}),
        ),
        "surface": Figure(
            "Beta and gamma at 1/64: rescored, and by the codes alone",
            _per_task(retrieval, _surface),
            columns=4,
            narrowest=160,
            independent=True,
        ),
    }
    return {name: figure for name, figure in figures.items() if figure.panels}


def quality(rows: Sequence[Row]) -> list[Chart]:
    """nDCG@10 against compression, averaged over the sets of the model with the most sets."""
    models = [model for _, model in tasks(rows)]
    if not models:
        return []
    model = max(models, key=models.count)
    means = [r for r in mean_by_method(rows, model) if r["method"] in GROUPS]
    shown = [_point(r) for r in lines_of(means)]
    base = alt.Chart(_data(shown)).encode(
        x=_compression(),
        y=alt.Y("delta:Q", title=DELTA, scale=_deltas(shown, -12, 2)),
        color=_methods({r["method"] for r in means}),
        detail="stage:N",
        tooltip=ROW_TIP,
    )
    dash = alt.StrokeDash("stage:N", sort=[RESCORED, CODES_ONLY], legend=None)
    wide = alt.condition("datum.ours", alt.value(3.5), alt.value(1.8))
    lines = base.mark_line(clip=True).encode(strokeDash=dash, strokeWidth=wide)
    points = base.mark_point(filled=True, size=80, opacity=1, clip=True).encode(shape=_stages())
    count = models.count(model)
    title = f"mean of {count} sets, {model}" if count > 1 else f"{means[0]['set']}, {model}"
    return [_layered([_zero(), lines, points], 640, 360, title)]


def _per_task(
    rows: Sequence[Row], draw: Callable[[list[Row], str], Iterable[Chart]]
) -> list[Chart]:
    """Panels of each set and model, from its rows and its name."""
    drawn = ((of_task(rows, task), f"{task[0]}, {task[1]}") for task in tasks(rows))
    return [panel for own, name in drawn if own for panel in draw(own, name)]


def _front(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """All methods, and their Pareto front."""
    mine = [r for r in rows if r.get("compression") and r["method"] in GROUPS]
    front = pareto(mine, "ram_row_bytes", "ndcg@10_delta")
    x = _compression(FEW_SHARES)
    y = alt.Y("delta:Q", title="points", scale=_deltas(map(_point, mine), -15, 3))
    points = alt.Chart(_data(map(_point, mine))).mark_point(
        filled=True, size=45, opacity=0.8, clip=True
    )
    points = points.encode(x=x, y=y, color=_groups(), shape=_stages(), tooltip=ROW_TIP)
    line = alt.Chart(_data(map(_point, front))).mark_line(
        color=COLOURS["slimdex"], opacity=0.5, interpolate="step-before", clip=True
    )
    yield _layered([_zero(), line.encode(x=x, y=y), points], 300, 200, title)


def _k_curve(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """nDCG@10 of reduced float32 rows against k, a line for each reducer."""
    flat = [r for r in rows if r.get("kind") == "flat"]
    points = [_point(r) for r in flat if r["method"] != "float32"]
    if points:
        sizes = sorted({point["k"] for point in points})
        scale = alt.Scale(type="log", base=2, nice=False)
        chart = _lines(points).encode(
            x=alt.X("k:Q", title="k", axis=alt.Axis(values=sizes), scale=scale),
            y=alt.Y("delta:Q", title="points", scale=_deltas(points, -15, 2)),
            color=alt.Color("method:N", title=None, scale=_palette(K_COLOURS)),
            tooltip=[alt.Tooltip("k:Q"), *ROW_TIP],
        )
        yield _layered([_zero(), chart], 300, 180, title)


def _surface(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """Heat maps of nDCG@10 over (beta, gamma), rescored and by codes alone."""
    cells = [_point(r) for r in rows if r["method"] == "whitening"]
    for name in (RESCORED, CODES_ONLY):
        if mine := [cell for cell in cells if cell["stage"] == name]:
            yield _heat_map(mine, f"{title}: {name}")


def _peer_map(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """Median latency against memory of the fastest setting of each at agreement 0.99."""
    reached = [r for r in fastest_at(rows) if r["agreement@10"] >= FASTEST_AT]
    if not reached:
        return
    points = named([_peer_point(r) for r in reached], "method", "memory", "p50")
    scales = [
        alt.Scale(type="log", domain=decades([p[axis] for p in points]), nice=False)
        for axis in ("memory", "p50")
    ]
    x = alt.X("memory:Q", title="bytes a vector in memory (index or process)", scale=scales[0])
    y = alt.Y("p50:Q", title="median ms a query, one thread", scale=scales[1])
    base = alt.Chart(_data(points)).encode(x=x, y=y, tooltip=PEER_TIP)
    shape = alt.Shape("told:N", title="bytes told by")
    dots = base.mark_point(filled=True, size=140, opacity=1).encode(color=_ours(), shape=shape)
    align, dx, dy = (alt.ExprRef(f"datum.{name}") for name in ("align", "dx", "dy"))
    names = base.mark_text(align=align, dx=dx, dy=dy, fontSize=12).encode(text="method:N")
    yield _layered([dots, names], 640, 380, f"{title}, {rows[0]['documents']:,} vectors")


def _agreement_curve(rows: Sequence[Row], title: str) -> Iterator[Chart]:
    """Median latency against agreement, a line for each method by its effort."""
    chart = _lines([_peer_point(r) for r in rows]).encode(
        x=alt.X(
            "agreement:Q", title="agreement with exact's ten", scale=alt.Scale(domain=[0.85, 1.0])
        ),
        y=alt.Y("p50:Q", title="median ms, one thread", scale=alt.Scale(type="log")),
        color=alt.Color("method:N", title=None, scale=alt.Scale(scheme="tableau20")),
        order="effort:Q",
        tooltip=PEER_TIP,
    )
    yield _layered([chart], 640, 380, f"{title}, {rows[0]['documents']:,} vectors")


PEER_TIP = [
    alt.Tooltip("method:N"),
    alt.Tooltip("effort:Q"),
    alt.Tooltip("agreement:Q", format=".4f"),
    alt.Tooltip("ndcg:Q", title="nDCG@10", format=".2f"),
    alt.Tooltip("p50:Q", title="p50 ms, one thread", format=".3f"),
    alt.Tooltip("p99:Q", title="p99 ms, one thread", format=".3f"),
    alt.Tooltip("memory:Q", title="bytes a vector", format=",.0f"),
    alt.Tooltip("build:Q", title="seconds to build", format=",.2f"),
]


def _data(values: Iterable[Row]) -> Any:
    return alt.InlineData(values=list(values))


def _lines(points: Sequence[Row]) -> Chart:
    return alt.Chart(_data(points)).mark_line(point=True, clip=True)


def _point(row: Row) -> Row:
    """Values of a row for charts; the names avoid characters with a meaning in Vega."""
    low, high = row.get("ndcg@10_low"), row.get("ndcg@10_high")
    means = "worst_delta" in row
    return {
        "method": row["method"],
        "group": GROUPS.get(row["method"], row["method"]),
        "ours": row["method"] == SLIMDEX,
        "label": label(row),
        "set": "mean" if means else row["set"],
        "model": row["model"],
        "stage": stage(row),
        "k": row.get("k"),
        "beta": row.get("beta"),
        "gamma": row.get("gamma"),
        "bytes": row["ram_row_bytes"],
        "compression": row["compression"],
        "ndcg": None if means else row["ndcg@10"],
        "delta": row["ndcg@10_delta"],
        "interval": "" if means else f"{low:+.2f} to {high:+.2f}",
        "agreement": None if means else row["agreement@10"],
        "p50": None if means else row["p50_ms_one"],
    }


def _peer_point(row: Row) -> Row:
    return {
        "method": row["method"],
        "ours": row["method"].startswith(SLIMDEX),
        "effort": row["effort"],
        "agreement": row["agreement@10"],
        "ndcg": row["ndcg@10"],
        "p50": row["p50_ms_one"],
        "p99": row["p99_ms_one"],
        "memory": resident_bytes(row),
        "told": "the index" if is_told(row) else "growth of the process",
        "build": row["build_s"],
    }


def _heat_map(cells: Sequence[Row], title: str) -> Chart:
    base = alt.Chart(_data(cells)).encode(
        x=alt.X("gamma:O", title="gamma", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("beta:O", title="beta", sort="descending"),
        tooltip=[alt.Tooltip("beta:O"), alt.Tooltip("gamma:O"), *ROW_TIP],
    )
    most = max(abs(cell["delta"]) for cell in cells) or 1.0
    pale = ["#f4a582", "#f7f7f7", "#92c5de"]  # worse, equal, better; figures on it are legible
    scale = alt.Scale(domain=[-most, 0, most], range=pale)
    colour = alt.Color("delta:Q", scale=scale, legend=None)
    rects = base.mark_rect().encode(color=colour)
    text = base.mark_text(fontSize=11).encode(text=alt.Text("delta:Q", format="+.1f"))
    return alt.layer(rects, text).properties(width=190, height=110, title=title)


def _compression(shares: Sequence[int] = SHARES) -> alt.X:
    axis = alt.Axis(
        values=list(shares), labelExpr="datum.value == 1 ? 'float32' : '1/' + datum.value"
    )
    scale = alt.Scale(type="log", base=2, domain=[1, 256])
    return alt.X("compression:Q", title="memory a vector", axis=axis, scale=scale)


def _deltas(points: Iterable[Row], low: int, high: int) -> alt.Scale:
    """Colour scale of differences; large losses are cut off, gains never."""
    return alt.Scale(domain=[low, max(high, ceil(max(p["delta"] for p in points)))])


def _groups() -> alt.Color:
    return alt.Color("group:N", title=None, scale=_palette(COLOURS))


def _stages() -> alt.Shape:
    return alt.Shape("stage:N", title=None, sort=list(SHAPES), scale=_palette(SHAPES))


def _palette(values: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(values), range=list(values.values()))


def _methods(present: Collection[str]) -> alt.Color:
    return alt.Color("method:N", title=None, scale=_palette(_colours(present)))


def _colours(present: Collection[str]) -> dict[str, str]:
    """slimdex in its own colour, every other method in a fixed one of a palette."""
    palette = ["#000000", "#777777", "#edae49", "#b5651d", "#30638e", "#66a5d8", "#1b9e77"]
    palette += ["#7b3294", "#9fd356", "#b8b8d1", "#d4a5a5", "#c2b280"]
    colours = dict(zip(GROUPS, [COLOURS["slimdex"], *palette], strict=True))
    return {name: colour for name, colour in colours.items() if name in present}


def _marks(colours: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (colour, "circle") for name, colour in colours.items()}


def _ours() -> Any:
    return alt.condition(
        "datum.ours", alt.value(COLOURS["slimdex"]), alt.value(COLOURS["FAISS quantisers"])
    )


def _zero() -> Chart:
    line = alt.Chart(_data([{"delta": 0}]))
    return line.mark_rule(color="#999999", strokeDash=[3, 3]).encode(y="delta:Q")


def _layered(layers: Sequence[Chart], width: int, height: int, title: str) -> Chart:
    return alt.layer(*layers).properties(width=width, height=height, title=title)
