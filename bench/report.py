"""`python -m bench report`: one page that opens anywhere, and its pictures as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from indexes.progress import Progress, silent

from .charts import Chart, all_charts
from .results import Row
from .sts_charts import study_charts
from .sts_tables import reduction_tables, study_tables
from .tables import Table, beside_peers, codes_alone, every_row, headline

Charts = dict[str, tuple[str, Chart]]
"""Name -> what it says, and the chart."""
TEMPLATE = Path(__file__).parent / "page.html"
DRAW = "window.vegaEmbed = vegaEmbed;"
"""What the page needs of the scripts."""
PICTURE_SCALE = 2
"""Pixels of a PNG for each of the chart's."""
LEAD = (
    "Every row compares a way to keep vectors with the uncompressed float32 search over the same "
    "vectors: nDCG@10 in points, its 95% interval paired by query. Point at anything to see its "
    "row; click a column's head to sort."
)


def write_report(
    out: Path,
    retrieval: Sequence[Row],
    peers: Sequence[Row],
    sts: Sequence[Row] = (),
    reduction: Sequence[Row] = (),
    progress: Progress = silent,
) -> list[Path]:
    """Write `index.html` and a PNG for each chart into a folder; returns their paths.

    The page holds its data and scripts, and asks no network for anything.
    """
    out.mkdir(parents=True, exist_ok=True)
    charts = all_charts(retrieval, peers) | study_charts(sts)
    tables = [*headline(retrieval), *beside_peers(peers), *codes_alone(retrieval)]
    tables += [*study_tables(sts), *reduction_tables(reduction)]
    if retrieval or peers:
        tables.append(every_row([*retrieval, *peers]))
    page = out / "index.html"
    page.write_text(_page(charts, tables), encoding="utf-8")
    return [page, *_pictures(out, charts, progress)]


def write_pictures(
    out: Path,
    retrieval: Sequence[Row],
    peers: Sequence[Row],
    sts: Sequence[Row],
    names: Sequence[str],
) -> list[Path]:
    """Write the PNGs of these names into a folder, those that the rows allow."""
    out.mkdir(parents=True, exist_ok=True)
    charts = all_charts(retrieval, peers) | study_charts(sts)
    return _pictures(out, {name: charts[name] for name in names if name in charts}, silent)


def _pictures(out: Path, charts: Charts, progress: Progress) -> list[Path]:
    paths = []
    for done, (name, (_, chart)) in enumerate(charts.items(), start=1):
        picture = vl_convert.vegalite_to_png(chart.to_dict(), scale=PICTURE_SCALE)
        paths.append(out / f"{name}.png")
        paths[-1].write_bytes(picture)
        progress("pictures", done, len(charts))
    return paths


def _page(charts: Charts, tables: Sequence[Table]) -> str:
    specs = {name: chart.to_dict() for name, (_, chart) in charts.items()}
    template = jinja2.Environment(autoescape=True).from_string(TEMPLATE.read_text("utf-8"))
    return template.render(
        lead=LEAD,
        scripts=Markup(_inline(vl_convert.javascript_bundle(DRAW))),
        charts=[(name, title) for name, (title, _) in charts.items()],
        specs=Markup(_inline(json.dumps(specs))),
        tables=tables,
    )


def _inline(script: str) -> str:
    """A script as it may stand inside HTML, where "</script" would end it."""
    return script.replace("</script", "<\\/script")
