"""The page and the table of `slimdex bench` without a command: nothing is loaded from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from slimdex.errors import InputError

from ..experiments.points_study import ENOUGH, GRID, NEARLY, IndexPoints, Point
from . import svg
from .choices import front
from .page import html_table, soft, with_code, write_page
from .table_columns import NOT_MEASURED, Cell, Column, Table, columns_named, make_table

SERIES = [kind for kind, _ in GRID]
GRAPH = "hnswlib"
CHOSEN = "chosen"
MEANING = (
    "Bytes: of a vector in memory. Share: of float32's bytes. MB: all codes, codebooks, reducer "
    "and metric. Recall@10: the share of the ten nearest by exact search of the float32 vectors, "
    "in the same metric, that is found. Difference: of nDCG@10 from "
    "that exact search, with a 95% interval, paired by query. Ms: the median of one search on one "
    "thread, from a vector to rows. Chosen: the fewest MB with a recall@10 of "
    f"{ENOUGH} or more and an nDCG@10 at most {NEARLY} below float32's; slimdex tune proves such a "
    "choice."
)
LEAST_SPAN = {"recall@10": 0.1, "ndcg@10_delta": 0.06}
"""Minimum span of an axis, so that noise does not look like a difference."""
MB = 1e6
MEMORY = "MB in memory: codes, codebooks, reducer and metric"
GOOD = 0.9
"""Minimum recall@10 of points whose nDCG is drawn; large losses would hide small differences."""
SUMMARY = (
    Column("", "why"),
    Column("kind", "named"),
    Column("k", "k", "d"),
    Column("bytes", "bytes_per_vector", ",.0f"),
    Column("share", "share"),
    Column("MB", "memory_bytes", ".2f", MB),
    Column("recall@10", "recall@10", ".3f"),
    Column("nDCG@10", "ndcg@10", ".3f"),
    Column("difference", "difference"),
    Column("MRR@10", "mrr@10", ".3f"),
    Column("ms", "p50_ms", ".2f"),
)
EVERY = (
    *SUMMARY,
    *columns_named("g", "beta", "gamma"),
    *columns_named("d", "candidates"),
    Column("encoder's order", "encoder_recall@10", ".3f"),
    Column("p95 ms", "p95_ms", ".2f"),
    Column("p99 ms", "p99_ms", ".2f"),
    Column("disk MB", "disk_bytes", ".2f", MB),
    Column("build s", "build_s", ".2f"),
    Column("command", "command"),
)
AGAINST = (
    Column("", "label"),
    Column("recall@10", "recall@10", ".3f"),
    Column("then", lambda row: row["then"]["recall@10"], ".3f"),
    Column("nDCG@10", "ndcg@10", ".3f"),
    Column("then", lambda row: row["then"]["ndcg@10"], ".3f"),
    Column("ms", "p50_ms", ".2f"),
    Column("then", lambda row: row["then"]["p50_ms"], ".2f"),
    Column("ratio", lambda row: row["p50_ms"] / row["then"]["p50_ms"], ".2f"),
)


def write_settings_page(
    path: Path,
    measured: IndexPoints,
    about: Mapping[str, Any],
    against: Mapping[str, Any] | None = None,
) -> None:
    """Write the page of an index; `about` are facts of the machine, `against` an earlier run."""
    facts = measured.facts
    are_cut = facts["rows"] != facts["documents"]
    passages = f" ({facts['rows']:,} passages)" if are_cut else ""
    by = f", by {facts['model']}" if facts["model"] else ""
    lead = f"{facts['documents']:,} documents{passages}, {facts['dim']} dimensions{by}."

    # What to choose, the charts, all points and where they were measured.
    points = [_line(each, measured) for each in all_points(measured)]
    verdicts = "".join(f"<p>{with_code(line)}</p>" for line in verdict(measured))
    parts = [
        f"<p>{escape(lead)}</p>",
        f'<div class="verdict">{verdicts}</div>',
        soft(f"Measured by {facts['queries_are']}."),
        "<h2>In short</h2>",
        _html(summary(measured), "In short"),
        soft(MEANING),
    ]
    if against:
        parts += ["<h2>Beside an earlier run</h2>", soft(earlier(against))]
        parts.append(_html(beside(measured, against), "Beside an earlier run"))
    parts += [
        f'<div class="charts">{"".join(_charts(measured))}</div>',
        f"<details><summary>All {len(points)} points</summary>",
        _html(make_table("", "", EVERY, points), "All points"),
        "</details>",
        soft(machine_line(about)),
    ]
    write_page(path, f"{facts['name']}: quality against memory", "\n".join(parts))


def _html(table: Table, label: str) -> str:
    """Format a table of settings, whose first column says why they are marked."""
    rows = []
    for why, *others in table.rows:
        rows.append([why if why.shown else NOT_MEASURED, *others])
    return html_table(replace(table, heads=["settings", *table.heads[1:]], rows=rows), label)


def all_points(measured: IndexPoints) -> list[Point]:
    """All points of slimdex; each has the command that makes it."""
    return [
        measured.exact,
        *measured.kinds,
        *measured.curves,
        *measured.metrics,
        *measured.dimensions,
    ]


def verdict(measured: IndexPoints) -> list[str]:
    """Recommend settings and describe the default search, in Markdown."""
    # Recommend what to do with the index.
    current = measured.current
    chosen = measured.chosen
    now = f"{measured.facts['present'].capitalize()}: {_in_words(current, measured)}."
    if chosen is None:
        lines = [
            f"No setting has a recall@10 of {ENOUGH} or more and an nDCG@10 at most {NEARLY} "
            f"below float32's. {now}"
        ]
    elif chosen is current:
        lines = [f"Keep {_in_words(current, measured)}: `{current['command']}`."]
    else:
        lines = [f"Change to {_in_words(chosen, measured)}: `{chosen['command']}`. {now}"]

    # Describe the default search, which is measured only with labels.
    search = measured.search
    if search is not None:
        words = "with words" if search["has_words"] else "by meaning"
        share = search["encoding_p50_ms"] / search["p50_ms"]
        lines.append(
            f"The default search, {words}: nDCG@10 {search['ndcg@10']:.3f}, "
            f"{difference(search)} against meaning alone; {search['p50_ms']:.1f} ms from a text to "
            f"ten documents, of which encoding the query takes {min(share, 1):.0%}."
        )
    return lines


def _in_words(point: Point, measured: IndexPoints) -> str:
    """Describe settings with their costs and quality, in one line."""
    share = _line(point, measured)["share"].shown
    small = f" ({share} of float32)" if share != "1" else ""
    return (
        f"{point['kind']}, k={point['k']}: {point['memory_bytes'] / MB:,.2f} MB, "
        f"{point['bytes_per_vector']:,.0f} bytes a vector{small}, "
        f"recall@10 {point['recall@10']:.3f}, nDCG@10 {difference(point)}, "
        f"{point['p50_ms']:.2f} ms"
    )


def difference(point: Point) -> str:
    """Difference of nDCG@10, with its interval.

    >>> name = "ndcg@10_delta"
    >>> difference({name: 0.01, f"{name}_low": -0.02, f"{name}_high": 0.04})
    '+0.010 (-0.020 to +0.040)'
    """
    mean = round(point["ndcg@10_delta"], 3) + 0.0  # adding zero makes -0.000 positive
    low = round(point["ndcg@10_delta_low"], 3) + 0.0
    high = round(point["ndcg@10_delta_high"], 3) + 0.0
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"


def summary(measured: IndexPoints) -> Table:
    """Make the short table."""
    return make_table("", "", SUMMARY, [_line(point, measured) for point in _in_short(measured)])


def _in_short(measured: IndexPoints) -> list[Point]:
    """Return the points of the short table, those with the most bytes a vector first.

    They are exact search, the present and the chosen settings, and for each kind the smallest
    sufficient point, or else the last one.
    """
    shown = [measured.exact, measured.current, *filter(None, [measured.chosen])]
    for kind in SERIES:
        points = [p for p in measured.kinds if p["kind"] == kind and p["candidates"] != 0]
        enough = [p for p in points if p["recall@10"] >= ENOUGH]
        if enough:
            shown.append(min(enough, key=lambda p: float(p["memory_bytes"])))
        else:
            shown += points[-1:]

    # The same point may be shown for several reasons.
    distinct = {id(point): point for point in shown}.values()
    return sorted(distinct, key=lambda p: -float(p["bytes_per_vector"]))


def read_run(path: Path) -> dict[str, Any]:
    """Read what `slimdex bench --json` has written; raises `InputError` if it is something else."""
    # Read all values that are needed later, so that errors are raised here.
    try:
        run = json.loads(path.read_bytes())
        earlier(run)
        for point in (run["exact"], *run["kinds"]):
            _settings_of(point)
            # This fails unless they are numbers.
            f"{point['recall@10'] + point['ndcg@10'] + point['p50_ms']:f}"
    except OSError as error:
        raise InputError(f"--against {path}: {error.strerror}; expected a file") from error
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"--against {path}; expected what `slimdex bench --json` wrote") from error
    return dict(run)


def beside(measured: IndexPoints, against: Mapping[str, Any]) -> Table:
    """Make the table of points of the short one that an earlier run has measured, too."""
    then = {_settings_of(point): point for point in [against["exact"], *against["kinds"]]}
    lines = []
    for point in _in_short(measured):
        earlier_point = then.get(_settings_of(point))
        if earlier_point is not None:
            lines.append(_line(point, measured) | {"then": earlier_point})
    return make_table("", "", AGAINST, lines)


def _settings_of(point: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the settings of a point, which identify it in another run."""
    names = ("kind", "k", "beta", "gamma", "candidates", "reducer")
    return tuple(point[name] for name in names)


def earlier(against: Mapping[str, Any]) -> str:
    """Describe an earlier run."""
    return (
        f"Then: {against['name']}, {against['documents']:,} documents, {against['queries']:,} "
        f"queries. {machine_line(against['machine'])}"
    )


def _line(point: Point, measured: IndexPoints) -> Point:
    """Return a point with further columns for tables and charts.

    `why` is the label of a marked point, "" for others. Codes are `alone` if answers are not
    rescored, and not exact either.
    """
    is_exact = point is measured.exact
    names = {measured.facts["present"]: measured.current, CHOSEN: measured.chosen}
    marks = [name for name, marked in names.items() if marked is point]
    why = "float32, exact" if is_exact else ", ".join(marks)
    is_alone = point["candidates"] == 0 and not is_exact
    alone = ", codes alone" if is_alone else ""
    reason = f" ({why})" if why else ""

    # How many times smaller than float32 it is.
    share = 4 * measured.facts["dim"] / point["bytes_per_vector"]
    return point | {
        "why": why,
        "alone": is_alone,
        "named": f"{point['kind']}{alone}",
        "label": f"{point['kind']}, k={point['k']}{alone}{reason}",
        "share": Cell(f"1/{share:.0f}" if share > 1 else "1", 1 / share),
        "difference": None if is_exact else Cell(difference(point), point["ndcg@10_delta"]),
        "command": f"`{point['command']}`",
    }


def _charts(measured: IndexPoints) -> Iterator[str]:
    """Yield each chart with its caption."""
    points = [_line(point, measured) for point in (measured.exact, *measured.kinds)]
    best = front(points, "memory_bytes", "recall@10")
    good = [point for point in best if point["recall@10"] >= GOOD]
    marked = [point for point in points if point in good or point["why"]]
    drawn = []
    for point in points:
        is_pale = point not in best and not point["why"]
        drawn.append(_draw_point(point, "recall@10", faint=is_pale))

    # Charts that every page has.
    line = [(point["memory_bytes"] / MB, point["recall@10"]) for point in best]
    yield _figure(
        "Recall against memory",
        "Filled points are rescored with the full vectors on disk, outlines are not. Numbers are "
        "k. The line joins points that no smaller one beats; others are pale.",
        _key(points)
        + svg.scatter(
            "recall@10 by memory",
            drawn,
            MEMORY,
            "recall@10",
            lines=[svg.Line("front", line)],
            least_span=LEAST_SPAN["recall@10"],
        ),
    )
    yield _figure(
        "Quality by labels",
        "Difference of nDCG@10 from float32, with 95% intervals paired by query, for marked points "
        "and those on the line with a recall of at least .9. If an interval contains 0, the "
        "difference may be chance.",
        _key(marked)
        + svg.scatter(
            "Difference of nDCG@10 by memory",
            [_draw_point(point, "ndcg@10_delta") for point in marked],
            MEMORY,
            "nDCG@10, difference",
            least_span=LEAST_SPAN["ndcg@10_delta"],
        ),
    )

    # Charts of what was measured only sometimes.
    if measured.curves:
        graph = ""
        if measured.graph:
            graph = " hnswlib searches a graph of the float32 vectors, with ef from 10 to 640."
        counts = [point["candidates"] for point in measured.curves]
        yield _figure(
            "Recall against latency",
            f"Along each curve, {min(counts):,} to {max(counts):,} candidates are rescored. The "
            f"time to encode a query is not included.{graph}",
            _key(measured.curves, measured.graph) + _latency_chart(measured),
        )
    if measured.metrics:
        caption = (
            " Beta is how much of the mean is subtracted, gamma how far variances are equalised. "
            "The best cell is partly luck: chosen on one half of the queries and judged on the "
            f"other, it changes nDCG@10 by {difference(measured.held_out)}."
        )
        yield _heat_map("Beta and gamma", caption, measured.metrics, ("k", "beta"), measured)
    if measured.dimensions:
        axes = ("beta", "k")
        yield _heat_map("Dimensions and gamma", "", measured.dimensions, axes, measured)


def _series(kind: str) -> int:
    """Return the number of a kind's colour and shape."""
    return SERIES.index(kind)


def _draw_point(point: Point, measure: str, *, faint: bool = False) -> svg.Point:
    """Draw a measure of a point over its memory, named by its k and why it is marked."""
    ends = (point[f"{measure}_low"], point[f"{measure}_high"])
    return svg.Point(
        x=point["memory_bytes"] / MB,
        y=point[measure],
        series=_series(point["kind"]),
        label="" if faint else f"{point['k']} {point['why']}".strip(),
        tooltip=tooltip(point),
        ring=point["why"],
        hollow=point["alone"],
        faint=faint,
        ends=ends if measure == "ndcg@10_delta" else None,
    )


def _latency_chart(measured: IndexPoints) -> str:
    """Draw recall by the time of a search: a curve for each kind and k, and one for the graph."""
    drawn = list[svg.Point]()
    curves = dict[tuple[int, str], list[tuple[float, float]]]()

    def draw(point: Point, series: int, name: str, about: str) -> None:
        curve = curves.setdefault((series, name), [])
        curve.append((point["p50_ms"], point["recall@10"]))
        label = name if len(curve) == 1 else ""  # once for each curve
        drawn.append(svg.Point(*curve[-1], series, label, about))

    for point in measured.curves:
        draw(point, _series(point["kind"]), f"k={point['k']}", tooltip(point))
    for point in measured.graph:
        draw(point, len(SERIES), GRAPH, _graph_tooltip(point))
    exact = measured.exact
    drawn.append(svg.Point(exact["p50_ms"], 1.0, _series("flat"), "float32, exact", tooltip(exact)))
    return svg.scatter(
        "recall@10 by latency",
        drawn,
        "median ms of a search",
        "recall@10",
        lines=[svg.Line(f"s{series}", curve) for (series, _), curve in curves.items()],
        least_span=LEAST_SPAN["recall@10"],
    )


def _heat_map(
    title: str,
    caption: str,
    points: Sequence[Point],
    columns: tuple[str, str],
    measured: IndexPoints,
) -> str:
    """Draw nDCG@10 by gamma and the second of two columns; the first one is the same for all."""
    fixed, column = columns
    first = points[0]
    values = {}
    tooltips = {}
    for point in points:
        cell = (point["gamma"], float(point[column]))
        values[cell] = float(point["ndcg@10"])
        tooltips[cell] = tooltip(point)

    # The best cell and the index's own have rings.
    name = measured.facts["present"]
    current = (measured.current["gamma"], float(measured.current[column]))
    rings = {max(values, key=lambda cell: values[cell]): "best"}
    if current in values:
        rings[current] = f"{name}, best" if current in rings else name

    label = f"nDCG@10 by {column} and gamma"
    drawing = svg.heat_map(label, values, tooltips, rings, ("gamma", column))
    same_for_all = f"nDCG@10 at kind {first['kind']}, {fixed}={first[fixed]:g}."
    return _figure(title, same_for_all + caption, drawing)


def tooltip(point: Point) -> str:
    """Describe a point: settings, costs, quality, and the command that makes it."""
    rescored = f"{point['candidates']} candidates"
    if point["candidates"] is None:
        rescored = "rescored"
    elif point["candidates"] == 0:
        rescored = "codes alone"
    time = f", {point['p50_ms']:.2f} ms" if "p50_ms" in point else ""
    return (
        f"{point['kind']}, k={point['k']}, beta={point['beta']:g}, gamma={point['gamma']:g}, "
        f"{rescored}\n{point['bytes_per_vector']:,.0f} bytes a vector{time}\n"
        f"recall@10 {point['recall@10']:.3f}, MRR@10 {point['mrr@10']:.3f}, "
        f"nDCG@10 {point['ndcg@10']:.3f}\n{point['command'].strip('`')}"
    )


def _graph_tooltip(point: Point) -> str:
    return (
        f"{GRAPH}, ef={point['effort']}\n{point['bytes_per_vector']:,.0f} bytes a vector, "
        f"{point['p50_ms']:.2f} ms\nrecall@10 {point['recall@10']:.3f}"
    )


def _key(points: Sequence[Point], graph: Sequence[Point] = ()) -> str:
    """Explain the colours and shapes of kinds, and that of a graph if there is one."""
    present = {point["kind"] for point in points}
    if graph:
        present.add(GRAPH)

    # A name's position is the number of its colour and shape.
    items = ""
    for series, name in enumerate([*SERIES, GRAPH]):
        if name in present:
            items += f"<li>{svg.marker(series)}{name}</li>"
    return f'<ul class="key">{items}</ul>'


def _figure(title: str, caption: str, drawing: str) -> str:
    head = f"<figcaption><h2>{escape(title)}</h2><p>{escape(caption)}</p></figcaption>"
    return f"<figure>{head}{drawing}</figure>"


def machine_line(about: Mapping[str, Any]) -> str:
    """Describe the machine and the versions of a run."""
    versions = []
    for name, number in about["versions"].items():
        if number:
            versions.append(f"{name} {number}")
    flags = f" ({about['flags']})" if about["flags"] else ""
    load = f", load {about['load']:.1f} before" if "load" in about else ""
    return (
        f"Measured on one thread of {about['processor']}{flags}{load}; built on all "
        f"{about['threads']}. With {', '.join(versions)}."
    )
