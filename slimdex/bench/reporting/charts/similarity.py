"""Charts of the similarity study, like the papers' figures, for any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from ...experiments.similarity_study import TARGET
from ...rows import Row
from ..tables.table import grouped
from .panels import Chart, Figure

AVERAGE = "average Spearman x 100 over all pairs"
LEVEL = alt.Axis(labelAngle=0)
TIP = [
    alt.Tooltip("pooling:N"),
    alt.Tooltip("name:N", title="reducer"),
    alt.Tooltip("fit:N", title="fitted on"),
    alt.Tooltip("k:Q"),
    alt.Tooltip("average:Q", format=".2f"),
]


FEWEST = 4
"""Minimum number of values of k, or reducers, for a panel; tables show fewer."""


def study_charts(rows: Sequence[Row]) -> dict[str, Figure]:
    """Name of the picture -> figure with a panel for each model."""
    drawn = {
        "sts-k": ("Similarity against k (Su et al., Figure 1)", _k_curve),
        "sts-layers": ("Every two layers (Huang et al., Figure 1)", _heat_map),
        "sts-best": ("The best of N layers (Huang et al., Figure 2)", _best_of),
        "sts-surface": ("Similarity over beta and gamma, at k = d/2", _surface),
        "sts-reducers": ("Reducers against each other", _reducers),
    }
    figures = {
        name: Figure(title, _panels(rows, draw), columns=2, narrowest=340, independent=True)
        for name, (title, draw) in drawn.items()
    }
    return {name: figure for name, figure in figures.items() if figure.panels}


def _panels(rows: Sequence[Row], draw: Callable[[Sequence[Row]], Chart | None]) -> list[Chart]:
    panels = []
    for (model, language), own in grouped(rows, "model", "language").items():
        panel = draw([row | {"name": _name(row), "k": row["k"] or row["width"]} for row in own])
        if panel is not None:
            panels.append(panel.properties(title=f"{model}, {language}"))
    return panels


def _name(row: Row) -> str:
    if row["reducer"] != "whitening":
        return str(row["reducer"])
    return f"({row['beta']:g}, {row['gamma']:g})"


def _k_curve(rows: Sequence[Row]) -> Chart | None:
    shown = ("(0, 0)", "(0, 0.25)", "(1, 1)")
    main = _main_pooling(rows)
    own = [r for r in rows if r["fit"] == TARGET and r["name"] in shown and r["pooling"] in main]
    if len({r["k"] for r in own}) < FEWEST:
        return None
    plain = [r for r in rows if not r["fit"] and r["pooling"] in main]
    y = alt.Y("average:Q", title=AVERAGE, scale=alt.Scale(zero=False))
    dash = alt.StrokeDash("pooling:N", title="pooling", sort=main)
    lines = (
        alt.Chart(_data(own))
        .mark_line(point=True)
        .encode(
            x=alt.X("k:Q", title="k"),
            y=y,
            color=alt.Color("name:N", title="(beta, gamma)", sort=list(shown)),
            strokeDash=dash,
            tooltip=TIP,
        )
    )
    rule = alt.Chart(_data(plain)).mark_rule(color="#777777").encode(y=y, strokeDash=dash)
    return alt.layer(rule, lines).properties(width=360, height=260)


def _heat_map(rows: Sequence[Row]) -> Chart | None:
    cells = []
    for row in rows:
        layers = row["layers"]
        if row["pooling"] == "own" or len(layers) not in (1, 2) or min(layers) < 0:
            continue
        if row["fit"] and (row["name"] != "(1, 1)" or row["k"] != row["width"]):
            continue
        a, b = layers[0], layers[-1]
        # Whitened cells are above the diagonal, the others below it.
        x, y = (b, a) if row["fit"] else (a, b)
        if a != b or not row["fit"]:
            cells.append({"x": x, "y": y, **row})
    if not cells:
        return None
    base = alt.Chart(_data(cells)).encode(
        x=alt.X("x:O", title="layer (right of the diagonal: whitened)", axis=LEVEL),
        y=alt.Y("y:O", title="layer", sort="ascending"),
        tooltip=TIP,
    )
    side = 44 * (1 + max(max(c["x"], c["y"]) for c in cells))
    return _coloured(base, cells, 10).properties(width=side, height=side * 0.7)


def _best_of(rows: Sequence[Row]) -> Chart | None:
    best: dict[int, Row] = {}
    for row in rows:
        if row["fit"] or row["pooling"] == "own" or min(row["layers"]) < 0:
            continue
        count = len(row["layers"])
        if count not in best or row["average"] > best[count]["average"]:
            best[count] = row
    if len(best) < 2:
        return None
    points = [
        {"count": count, "which": "+".join(map(str, row["layers"])), "average": row["average"]}
        for count, row in sorted(best.items())
    ]
    base = alt.Chart(_data(points)).encode(
        x=alt.X("count:O", title="layers averaged", axis=LEVEL),
        y=alt.Y("average:Q", title=AVERAGE, scale=alt.Scale(zero=False, padding=20)),
        tooltip=[alt.Tooltip("which:N", title="layers"), alt.Tooltip("average:Q", format=".2f")],
    )
    text = base.mark_text(dy=-12, fontSize=12).encode(text="which:N")
    paper = base.mark_text(dy=-12, fontSize=12, stroke="white", strokeWidth=5).encode(
        text="which:N"
    )
    lines = base.mark_line(point=True)
    return alt.layer(lines, paper, text).properties(width=360, height=220)


def _surface(rows: Sequence[Row]) -> Chart | None:
    pooling = _main_pooling(rows)[0]
    half = round(rows[0]["width"] / 2 / 4) * 4
    cells = [
        r
        for r in rows
        if r["fit"] == TARGET
        and r["reducer"] == "whitening"
        and r["k"] == half
        and r["pooling"] == pooling
        and (r["beta"] * 4).is_integer()
    ]
    if len(cells) < 10:
        return None
    base = alt.Chart(_data(cells)).encode(
        x=alt.X("gamma:O", title=f"gamma ({pooling}, k={half})", axis=LEVEL),
        y=alt.Y("beta:O", title="beta", sort="descending"),
        tooltip=[alt.Tooltip("beta:O"), alt.Tooltip("gamma:O"), *TIP],
    )
    return _coloured(base, cells, 12).properties(width=330, height=220)


def _coloured(base: Chart, cells: Sequence[Row], letters: int) -> Chart:
    """Cells coloured by their average, which is written on them."""
    scale = alt.Scale(scheme="viridis")
    rects = base.mark_rect().encode(color=alt.Color("average:Q", title="average", scale=scale))
    middle = (min(c["average"] for c in cells) + max(c["average"] for c in cells)) / 2
    ink = alt.condition(f"datum.average > {middle}", alt.value("black"), alt.value("white"))
    figures = alt.Text("average:Q", format=".1f")
    text = base.mark_text(fontSize=letters).encode(text=figures, color=ink)
    return alt.layer(rects, text)


def _reducers(rows: Sequence[Row]) -> Chart | None:
    pooling = _main_pooling(rows)[0]
    quarter = round(rows[0]["width"] / 4 / 4) * 4
    own = [r for r in rows if r["fit"] == TARGET and r["k"] == quarter and r["pooling"] == pooling]
    if len({r["reducer"] for r in own}) < FEWEST:
        return None
    plain = [r for r in rows if not r["fit"] and r["pooling"] == pooling]
    title = [AVERAGE, f"({pooling}, k={quarter}; dashed: none)"]
    x = alt.X("average:Q", title=title, scale=alt.Scale(zero=False))
    bars = (
        alt.Chart(_data([r | {"kind": r["reducer"] == "whitening"} for r in own]))
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=x,
            y=alt.Y(
                "name:N", title=None, sort=alt.EncodingSortField("average", order="descending")
            ),
            color=alt.condition("datum.kind", alt.value("#d1495b"), alt.value("#30638e")),
            tooltip=TIP,
        )
    )
    rule = alt.Chart(_data(plain)).mark_rule(color="#777777", strokeDash=[3, 3]).encode(x=x)
    return alt.layer(rule, bars).properties(width=360, height=260)


def _main_pooling(rows: Sequence[Row]) -> list[str]:
    """Poolings that were studied in full, the last layer's first."""
    found = [p for p in ("mean@-1", "mean@1,-1") if any(r["pooling"] == p for r in rows)]
    return found or list(dict.fromkeys(row["pooling"] for row in rows))[:1]


def _data(rows: Sequence[Row]) -> Any:
    names = ("name", "pooling", "fit", "k", "beta", "gamma", "average", "x", "y", "count", "which")
    kept = [{n: row[n] for n in (*names, "kind") if n in row} for row in rows]
    return alt.InlineData(values=kept)
