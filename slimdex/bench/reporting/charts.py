"""Pictures of quality against memory, and of time against memory, in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil
from statistics import fmean

from ..engines.registry import SLIMDEX, UNCOMPRESSED
from ..rows import Row
from .choices import FASTEST_AT, by_task, fastest_at, front
from .svg import Axis, Line, Point, plot
from .table_columns import group_rows, rows_where, values_of, without_errors

CODES_ONLY = "codes only"
RESCORED = "rescored"
LOWER = (0.98, 0.95)
"""Agreements at which they are compared too, since not all reach the first one."""
METHODS = (
    *(SLIMDEX, UNCOMPRESSED, "float16", "int8", "int4", "PQ", "OPQ+PQ"),
    *("RaBitQ", "PCA", "truncate", "random projection"),
)
"""Methods that are compared by quality and memory."""
WIDTH = 800.0
LEFT = 70.0
RIGHT = 20.0
TOP = 34.0
FOOT = 50.0
"""Width of a picture and margins of a panel, in pixels."""
LEGEND = 165.0
LEGEND_LINE = 19.0
PALETTE = (
    *("#d1495b", "#000000", "#777777", "#30638e", "#66a5d8", "#1b9e77", "#7b3294", "#9fd356"),
    *("#b8b8d1", "#d4a5a5", "#c2b280"),
)
"""Colour of each of `METHODS`; peers have that of `OTHERS`."""
OURS = 0
GREY = 2
OTHERS = 3
SHAPES = {RESCORED: 0, CODES_ONLY: 1}
DASHED = {RESCORED: "", CODES_ONLY: " codes"}
"""Classes of lines."""
SHARES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LOWEST = -12.0
"""Lowest difference that is drawn, in points of nDCG@10."""
TITLES = {
    "peers": "Time, and private memory, without mapped files",
    "quality": "Quality against memory, mean over the sets",
}
"""Name of a picture -> its title."""
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: #1f2328; }
.head { font-weight: 600; } .title, .tick { fill: #57606a; }
.tick { text-anchor: end; } .below, .title { text-anchor: middle; }
.grid { stroke: #d8dee4; fill: none; } polyline { fill: none; stroke-width: 1.8; }
polyline.ours { stroke-width: 3.5; } polyline.codes { stroke-dasharray: 5 4; }
polyline.zero { stroke: #999; stroke-dasharray: 3 3; } .near { fill: transparent; }
""" + "\n".join(
    f"path.s{i} {{ fill: {colour}; }} polyline.s{i} {{ stroke: {colour}; }}"
    for i, colour in enumerate(PALETTE)
)


Panel = tuple[str, Sequence[str], float]
"""Title of a plot, SVG elements relative to its upper left corner, and its height in pixels."""


def pictures(retrieval: Sequence[Row], peers: Sequence[Row]) -> dict[str, str]:
    """Draw the pictures for which there are rows; returns name -> SVG."""
    panels = {"peers": list[Panel](), "quality": [*_quality(retrieval)]}
    for of_task in by_task(peers).values():
        panels["peers"] += _peer_map(of_task)

    # Draw no picture without rows.
    drawn = {}
    for name, of_picture in panels.items():
        if of_picture:
            drawn[name] = _picture(TITLES[name], of_picture)
    return drawn


def _picture(name: str, panels: Sequence[Panel]) -> str:
    """Draw panels one below the other on a white background."""
    drawn = list[str]()
    top = 0.0
    for title, parts, height in panels:
        head = f'<text class="head" x="{LEFT}" y="20">{escape(title)}</text>'
        inside = "\n".join([head, *parts])
        drawn.append(f'<g transform="translate(0 {top:g})">\n{inside}\n</g>')
        top += height
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {top:g}" '
        f'width="{WIDTH:g}" height="{top:g}">\n<title>{escape(name)}</title>\n'
        f'<style>{STYLE}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _quality(rows: Sequence[Row]) -> Iterator[Panel]:
    """Draw nDCG@10 against compression, averaged over the sets of the model with the most sets."""
    models = [model for _, model in by_task(rows)]  # once for each set
    if not models:
        return
    model = max(models, key=models.count)
    means = [row for row in _mean_by_method(rows, model) if row["method"] in METHODS]
    shown = [row for row in _lines_of(means) if row["ndcg@10_delta"] >= LOWEST]

    # Axes.
    height = 440.0
    ticks: dict[float, str] = {share: f"1/{share}" for share in SHARES}
    ticks[1] = "float32"
    x = Axis("memory a vector", 1, SHARES[-1], LEFT, WIDTH - RIGHT - LEGEND, named=ticks)
    highest = max(2, ceil(max(values_of(shown, "ndcg@10_delta"))))
    y = Axis("nDCG@10, points against float32", LOWEST, highest, height - FOOT, TOP, linear=True)

    # Points, and a line through those of each method.
    lines = dict[tuple[str, str], list[tuple[float, float]]]()
    points = list[Point]()
    for row in sorted(shown, key=lambda row: float(row["compression"])):
        stage = _stage(row)
        at = (row["compression"], row["ndcg@10_delta"])
        lines.setdefault((row["method"], stage), []).append(at)
        tooltip = f"{row['method']}, {stage}: {at[1]:+.2f}"
        points.append(Point(*at, _series(row["method"]), "", tooltip, shape=SHAPES[stage]))
    drawn = [Line("zero", [(1, 0), (SHARES[-1], 0)])]
    for (method, stage), places in lines.items():
        ours = " ours" if method == SLIMDEX else ""
        drawn.append(Line(f"s{_series(method)}{DASHED[stage]}{ours}", places))

    # Legend and title.
    present = set(values_of(shown, "method"))
    legend = _legend([name for name in METHODS if name in present])
    count = models.count(model)
    title = f"mean of {count} sets, {model}" if count > 1 else f"{means[0]['set']}, {model}"
    yield title, [*plot(points, drawn, x, y), *legend], height


def _stage(row: Row) -> str:
    """Describe whether answers have the order of the codes or of better vectors."""
    return RESCORED if row["effort"] else CODES_ONLY


def _mean_by_method(rows: Sequence[Row], model: str) -> list[Row]:
    """Return rows of one model, averaged over its sets.

    Only methods measured on all of them are included, distinguished by name, size, kind, k and
    effort; candidates that depend on the size of a set are left out.
    """
    of_model = rows_where(rows, model=model)
    sets = set(values_of(of_model, "set"))
    sized = [row for row in without_errors(of_model) if row.get("compression")]
    groups = group_rows(sized, "method", "k", "beta", "gamma", "kind", "effort")

    # A mean over fewer sets would not compare with the others.
    means = []
    for members in groups.values():
        if set(values_of(members, "set")) == sets:
            mean = fmean(values_of(members, "ndcg@10_delta"))
            means.append(members[0] | {"ndcg@10_delta": mean})
    return means


def _lines_of(means: Sequence[Row]) -> list[Row]:
    """Return the rows of each method's lines, rescored and by codes alone.

    Rows that a smaller row of the same line beats are left out.
    """
    staged = [row | {"stage": _stage(row)} for row in means]
    shown = []
    for line in group_rows(staged, "method", "stage").values():
        shown += front(line)
    return shown


def _legend(methods: Sequence[str]) -> Iterator[str]:
    """Draw the colours of methods and the two kinds of lines, beside the plot."""
    entries = [(name, _series(name), RESCORED) for name in methods]
    entries += [(stage, GREY, stage) for stage in SHAPES]
    for row, (name, number, stage) in enumerate(entries):
        outline = Point(0, 0, number, "", "", shape=SHAPES[stage]).outline
        top = TOP + 10 + row * LEGEND_LINE
        yield (
            f'<g transform="translate({WIDTH - LEGEND:g} {top:g})">'
            f'<polyline class="s{number}{DASHED[stage]}" points="-14,0 14,0"/>'
            f'<path class="s{number}" d="{outline}"/>'
            f'<text x="22" y="4">{escape(name)}</text></g>'
        )


def _series(method: str) -> int:
    """Return the number of a method's colour in `PALETTE`."""
    return METHODS.index(method) if method in METHODS else OTHERS


def _peer_map(rows: Sequence[Row]) -> Iterator[Panel]:
    """Draw the median latency and the memory of each peer's fastest setting at an agreement.

    The agreement is the highest that most peers reach; peers that do not reach it are left out.
    """
    for least in (FASTEST_AT, *LOWER):
        fastest = fastest_at(rows, least)
        reached = [row for row in fastest if row["agreement@10"] >= least]
        if 2 * len(reached) > len(fastest):
            break
    else:
        return  # most peers reach none of them

    # Points.
    height = 380.0
    points = []
    for row in reached:
        name = row["method"]
        size = row["process_row_bytes"]
        milliseconds = row["p50_ms_one"]
        series = OURS if name.startswith(SLIMDEX) else OTHERS
        tooltip = f"{name}: {size:,.0f} bytes a vector, {milliseconds:.2f} ms"
        points.append(Point(max(size, 1), milliseconds, series, name, tooltip, shape=0))

    # Axes and title.
    sizes = [point.x for point in points]
    times = [point.y for point in points]
    x = Axis.over("private bytes a vector, by growth of the process", sizes, LEFT, WIDTH - RIGHT)
    y = Axis.over("median ms a query, one thread", times, height - FOOT, TOP)
    first = rows[0]
    title = f"{first['set']}, {first['model']}: {first['documents']:,} vectors; agreement {least}"
    yield title, plot(points, (), x, y), height
