"""The page and the table of `slimdex bench` without a command: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ..experiments.settings_study import ENOUGH, GRID, NEARLY, Measured, Point
from . import svg

TEMPLATE = Path(__file__).parent / "settings.html"
SERIES = [kind for kind, _ in GRID]
CHOSEN = "chosen"
HEADS = ("", "kind", "k", "bytes", "share", "recall@10", "MRR@10", "nDCG@10", "ms")
MEANING = (
    "Bytes: of a vector in memory. Share: of float32's bytes. Recall@10: the share of the ten "
    "nearest by exact search of the float32 vectors, in the same metric, that is found. Ms: the "
    "median of one search on one thread, from a vector to rows. Chosen: the fewest bytes with a "
    f"recall@10 of {ENOUGH} or more and an nDCG@10 at most {NEARLY} below float32's; slimdex tune "
    "proves such a choice."
)


def write_page(path: Path, measured: Measured, about: Mapping[str, Any]) -> None:
    """Write the page of an index; `about` are facts of the machine."""
    facts = measured.facts
    cut = facts["rows"] != facts["documents"]
    passages = f" ({facts['rows']:,} passages)" if cut else ""
    by = f", by {facts['model']}" if facts["model"] else ""
    lead = f"{facts['documents']:,} documents{passages}, {facts['dim']} dimensions{by}."
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(f"{facts['name']}: quality against memory"),
        lead=escape(lead),
        asked=escape(f"Measured by {facts['queries_are']}."),
        summary=_table([*HEADS, "command"], summary_rows(measured, commands=True)),
        meaning=escape(MEANING),
        charts="\n".join(_charts(measured)),
        count=len(measured.kinds) + len(measured.metrics) + 1,
        table=_table(_ALL_HEADS, _all_rows(measured)),
        machine=escape(_machine(about)),
    )
    path.write_text(text, encoding="utf-8")


def summary_rows(measured: Measured, *, commands: bool = False) -> list[list[str]]:
    """Rows for `HEADS`: exact search, the present and the chosen settings, and each kind's least.

    With `commands`, each ends with the command that makes it.
    """
    shown = [measured.exact, measured.current, *filter(None, [measured.chosen])]
    for kind in SERIES:
        own = [p for p in measured.kinds if p["kind"] == kind and p["candidates"] != 0]
        enough = [p for p in own if p["recall@10"] >= ENOUGH]
        shown += [min(enough, key=lambda p: float(p["bytes_per_vector"]))] if enough else own[-1:]
    distinct = {id(point): point for point in shown}.values()
    rows = []
    for point in sorted(distinct, key=lambda p: -p["bytes_per_vector"]):
        row = [_why(point, measured), *_cells(point, measured)]
        rows.append([*row, point["command"]] if commands else row)
    return rows


def _why(point: Point, measured: Measured) -> str:
    """Name of a point that is marked; "" for others."""
    if point is measured.exact:
        return "float32, exact"
    names = {measured.facts["present"]: measured.current, CHOSEN: measured.chosen}
    return ", ".join(name for name, own in names.items() if own is point)


def _cells(point: Point, measured: Measured) -> list[str]:
    share = 4 * measured.facts["dim"] / point["bytes_per_vector"]
    alone = ", codes alone" if point["candidates"] == 0 and point is not measured.exact else ""
    return [
        f"{point['kind']}{alone}",
        str(point["k"]),
        f"{point['bytes_per_vector']:,.0f}",
        f"1/{share:.0f}" if share > 1 else "1",
        *(f"{point[name]:.3f}" for name in ("recall@10", "mrr@10", "ndcg@10")),
        f"{point['p50_ms']:.2f}",
    ]


_ALL_HEADS = (*HEADS, "beta", "gamma", "encoder's order", "p95 ms", "p99 ms", "command")


def _all_rows(measured: Measured) -> list[list[str]]:
    return [
        [
            _why(point, measured),
            *_cells(point, measured),
            f"{point['beta']:g}",
            f"{point['gamma']:g}",
            f"{point['encoder_recall@10']:.3f}",
            f"{point['p95_ms']:.2f}",
            f"{point['p99_ms']:.2f}",
            point["command"],
        ]
        for point in (measured.exact, *measured.kinds, *measured.metrics)
    ]


def _charts(measured: Measured) -> Iterator[str]:
    """Yield each chart with its caption."""
    rescored = [p for p in measured.kinds if p["candidates"] != 0]
    alone = [p for p in measured.kinds if p["candidates"] == 0]
    memory, time = "bytes a vector in memory", "median ms of a search"
    key = _key(measured.kinds)
    if rescored:
        yield _figure(
            "Quality against memory",
            "The nearest codes are rescored with the full vectors on disk. Numbers are k.",
            key + _scatter(rescored, measured, ("bytes_per_vector", memory), "nDCG@10"),
        )
    if alone:
        yield _figure(
            "What the codes alone find",
            "The same without rescoring: no vector is read from disk.",
            key + _scatter(alone, measured, ("bytes_per_vector", memory), "recall@10"),
        )
    yield _figure(
        "Quality against latency",
        "Filled points are rescored, outlines are codes alone. Encoding a query comes on top.",
        key + _scatter(measured.kinds, measured, ("p50_ms", time), "nDCG@10", joined=False),
    )
    if measured.metrics:
        yield _heat(measured)


def _scatter(
    points: Sequence[Point],
    measured: Measured,
    x: tuple[str, str],
    measure: str,
    *,
    joined: bool = True,
) -> str:
    """Draw a measure of points against a cost (its name and title), labelled by k if joined."""
    (name, title), drawn = x, []
    for point in points:
        why = _why(point, measured)
        label = f"{point['k']} {why}".strip() if joined else why
        # Kinds that this page has no colour for, such as factory strings, look like the last.
        series = SERIES.index(point["kind"]) if point["kind"] in SERIES else len(SERIES) - 1
        hollow = not joined and point["candidates"] == 0
        at = point[name], point[measure.lower()]
        drawn.append(svg.Point(*at, series, label, tooltip(point), why, hollow))
    return svg.scatter(f"{measure} by {title}", drawn, title, measure, joined=joined)


def _heat(measured: Measured) -> str:
    cells = {(p["gamma"], p["beta"]): p for p in measured.metrics}
    values = {cell: float(p["ndcg@10"]) for cell, p in cells.items()}
    rings = {max(values, key=lambda cell: values[cell]): "best"}
    own, name = (measured.current["gamma"], measured.current["beta"]), measured.facts["present"]
    if own in cells:
        rings[own] = f"{name}, best" if own in rings else name
    first = measured.metrics[0]
    drawing = svg.heat_map(
        "nDCG@10 by beta and gamma",
        values,
        {cell: tooltip(p) for cell, p in cells.items()},
        rings,
        ("gamma", "beta"),
    )
    caption = (
        f"nDCG@10 at kind {first['kind']}, k={first['k']}. Beta is how much of the mean is "
        "subtracted, gamma how far variances are equalised."
    )
    return _figure("Beta and gamma", caption, drawing)


def tooltip(point: Point) -> str:
    """Describe a point: settings, costs, quality, and the command that makes it."""
    rescored = "codes alone" if point["candidates"] == 0 else "rescored"
    return (
        f"{point['kind']}, k={point['k']}, beta={point['beta']:g}, gamma={point['gamma']:g}, "
        f"{rescored}\n{point['bytes_per_vector']:,.0f} bytes a vector, "
        f"{point['p50_ms']:.2f} ms\nrecall@10 {point['recall@10']:.3f}, "
        f"MRR@10 {point['mrr@10']:.3f}, nDCG@10 {point['ndcg@10']:.3f}\n{point['command']}"
    )


def _key(points: Sequence[Point]) -> str:
    present = {point["kind"] for point in points}
    items = (f"<li>{svg.marker(i)}{kind}</li>" for i, kind in enumerate(SERIES) if kind in present)
    return f'<ul class="key">{"".join(items)}</ul>'


def _figure(title: str, caption: str, drawing: str) -> str:
    head = f"<figcaption><h2>{escape(title)}</h2><p>{escape(caption)}</p></figcaption>"
    return f"<figure>{head}{drawing}</figure>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(h) or "settings"}</th>' for h in heads)
    lines = []
    for first, *cells, command in rows:
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(
            f'<tr><th scope="row">{escape(first) or "–"}</th>{row}'
            f"<td><code>{escape(command)}</code></td></tr>"
        )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _machine(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items() if number)
    flags = f" ({about['flags']})" if about["flags"] else ""
    load = f", load {about['load']:.1f} before" if "load" in about else ""
    return f"Measured on one thread of {about['processor']}{flags}{load}, with {versions}."
