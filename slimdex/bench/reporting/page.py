"""`slimdex bench report`: one self-contained page, and its pictures as files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from slimdex.indexes.execution.progress import progress

from ..rows import Row
from .charts.panels import Figure
from .charts.search import all_charts
from .charts.similarity import study_charts
from .experiments import EXPERIMENTS, SETTLED
from .tables import retrieval as tables
from .tables.table import Table
from .verdict import fine_print, verdict

Measured = Mapping[str, Sequence[Row]]
"""Experiment -> its rows."""
TEMPLATE = Path(__file__).parent / "page.html"
DRAW = "window.vegaEmbed = vegaEmbed;"
"""Part of the scripts that the page uses."""
PICTURE_SCALE = 2
"""Pixels of a PNG for each pixel of the chart."""
LEAD = (
    "Every row compares a way to keep vectors with the uncompressed float32 search over the same "
    "vectors: nDCG@10 in points, its 95% interval paired by query; better and worse are said "
    "where that leaves out zero. Point at anything to see its row; click a column's head to sort."
)
SETTINGS = (
    "Above, quality is that of slimdex by default, and time that of its fastest setting that keeps "
    "the exact search's own order."
)


@dataclass(frozen=True)
class Part:
    """A table in the page, and its anchor in the contents."""

    anchor: str
    table: Table


def write_report(out: Path, rows: Measured) -> list[Path]:
    """Write `index.html` and a PNG for each figure into a folder; returns their paths.

    The page contains its data and scripts, and loads nothing from a network.
    """
    page = write_page(out, rows)
    return [page, *_pictures(out, _figures(rows))]


def write_page(out: Path, rows: Measured) -> Path:
    """Write `index.html` alone."""
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(_page(rows, _figures(rows)), encoding="utf-8")
    return page


def write_pictures(out: Path, rows: Measured, names: Sequence[str]) -> list[Path]:
    """Write the PNGs of these names into a folder, if there are rows for them."""
    out.mkdir(parents=True, exist_ok=True)
    figures = _figures(rows)
    return _pictures(out, {name: figures[name] for name in names if name in figures})


def _figures(rows: Measured) -> dict[str, Figure]:
    search = all_charts(rows.get("retrieval", ()), rows.get("peers", ()))
    return search | study_charts(rows.get("sts", ()))


def _pictures(out: Path, figures: Mapping[str, Figure]) -> list[Path]:
    paths = []
    for done, (name, figure) in enumerate(figures.items(), start=1):
        picture = vl_convert.vegalite_to_png(figure.picture().to_dict(), scale=PICTURE_SCALE)
        paths.append(out / f"{name}.png")
        paths[-1].write_bytes(picture)
        progress("pictures", done, len(figures))
    return paths


def _page(rows: Measured, figures: Mapping[str, Figure]) -> str:
    panels = {name: figure.in_page() for name, figure in figures.items()}
    specs = {f"{n}-{i}": spec for n, own in panels.items() for i, (_, spec) in enumerate(own)}
    template = jinja2.Environment(autoescape=True).from_string(TEMPLATE.read_text("utf-8"))
    return template.render(
        verdict=_verdict(rows),
        lead=_lead(rows),
        scripts=Markup(_inline(vl_convert.javascript_bundle(DRAW))),
        figures=figures,
        captions={name: [title for title, _ in own] for name, own in panels.items()},
        specs=Markup(_inline(json.dumps(specs))),
        parts=_parts(rows),
    )


def _verdict(rows: Measured) -> str:
    """Verdict of the search if it was measured, else of the first experiment that has one."""
    search = verdict(rows.get("retrieval", ()), rows.get("peers", ()))
    return search or next((table.note for table in _studies(rows) if table.note), "")


def _lead(rows: Measured) -> str:
    """Describe the figures, and the share of memory that is on disk."""
    retrieval, peers = rows.get("retrieval", ()), rows.get("peers", ())
    if not retrieval and not peers:
        return ""
    settings = SETTINGS if retrieval and peers else ""
    return " ".join(filter(None, [fine_print(retrieval), settings, LEAD]))


def _parts(rows: Measured) -> list[Part]:
    retrieval, peers = rows.get("retrieval", ()), rows.get("peers", ())
    found = [*tables.headline(retrieval), *tables.beside_peers(peers)]
    found += [*tables.codes_alone(retrieval), *_studies(rows)]
    if retrieval or peers:
        found.append(tables.every_row([*retrieval, *peers]))
    parts: dict[str, Part] = {}
    for table in filter(lambda table: table.rows, found):
        anchor = re.sub(r"\W+", "-", table.title.lower()).strip("-")
        anchor += f"-{len(parts)}" if anchor in parts else ""
        parts[anchor] = Part(anchor, table)
    return list(parts.values())


def _studies(rows: Measured) -> list[Table]:
    """Tables of the other experiments."""
    studies = (study for study in (*EXPERIMENTS, *SETTLED) if study.title)
    return [table for study in studies for table in study.in_page(rows.get(study.name, ()))]


def _inline(script: str) -> str:
    """Escape a script for HTML, in which "</script" would end it."""
    return script.replace("</script", "<\\/script")
