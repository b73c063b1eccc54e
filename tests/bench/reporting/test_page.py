"""Tables, pictures and the page, from rows that were measured in the test."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import vl_convert

from slimdex.bench.data.paired_measures import Judge
from slimdex.bench.engines.engine_specs import Method
from slimdex.bench.experiments import measured_methods as grids
from slimdex.bench.experiments.retrieval_study import Task, exact_answers, measured
from slimdex.bench.reporting.charts.panels import named
from slimdex.bench.reporting.charts.search import all_charts
from slimdex.bench.reporting.experiments import read_all
from slimdex.bench.reporting.findings import resident_bytes
from slimdex.bench.reporting.page import write_page, write_report
from slimdex.bench.reporting.sections import (
    marked,
    section,
    sections_with_rows,
    write_section,
)
from slimdex.bench.reporting.tables.retrieval import beside_peers, codes_alone, every_row, headline
from slimdex.bench.reporting.tables.studies import answers, hybrid, tuning
from slimdex.bench.rows import FOLDER, ResultsFile, Row, read_rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from tests.bench.conftest import ABOUT

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def retrieval_rows(task: Task) -> list[Row]:
    judge = Judge(task.dataset, *exact_answers(task))
    methods = [
        grids.uncompressed(48),
        Method("slimdex", Settings(k=24, kind="pq"), (0, 200)),
        Method("slimdex", Settings(k=12, kind="pq"), (0, 10)),
        Method("slimdex", Settings(k=24, kind="sq8", candidates=0)),
        Method("int4", Settings(48, 0.0, 0.0, "sq4", 0, "identity")),
        Method("PCA", Settings(24, 1.0, 0.0, "flat", 0)),
        Method("truncate", Settings(24, 0.0, 0.0, "flat", 0, "truncate")),
        Method("whitening", Settings(24, 1.0, 0.5, "pq"), (0, 200)),
    ]
    rows = [r for m in methods for r in measured(task, m, m.efforts, judge)]
    failed = {"set": "words", "model": "words", "documents": 800, "method": "x", "error": "broke"}
    return [{"key": str(i)} | row | ABOUT for i, row in enumerate([*rows, failed])]


@pytest.fixture(scope="module")
def peer_rows(peers: tuple[list[Method], Path]) -> list[Row]:
    return list(ResultsFile(peers[1]).rows.values())


def test_tables_say_what_the_rows_say(retrieval_rows: list[Row], peer_rows: list[Row]) -> None:
    (table,) = headline(retrieval_rows)
    (line,) = table.rows
    exact, usual = retrieval_rows[0], retrieval_rows[2]
    assert [cell.shown for cell in line[:4]] == ["words", "words", "800", "60"]
    assert line[4].value == exact["ndcg@10"]
    assert line[5].value == usual["ndcg@10"]
    delta, low, high = (usual[f"ndcg@10_{n}"] for n in ("delta", "low", "high"))
    assert line[6].shown == f"{delta:+.2f} ({low:+.2f} to {high:+.2f})"
    (codes,) = codes_alone(retrieval_rows)
    shares = [(row[0].shown, row[1].shown) for row in codes.rows]
    assert sorted(shares) == [("1/8", "int4 k=48 sq4"), ("1/8", "slimdex k=24 sq8")]
    other = [row | {"set": "others", "documents": 9} for row in peer_rows]
    failed = peer_rows[0] | {"method": "hnswlib", "error": "broke"}
    first, second = beside_peers([*peer_rows, *other, failed])
    names = [row[0].shown for row in second.rows]
    assert sorted(names) == ["FAISS HNSW", "float32", "slimdex 1/64", "slimdex 1/64, whitened"]
    assert second.note == "words, words: 800 vectors; failed: hnswlib (broke)"
    assert first.note.startswith("others, words: 9 vectors; not measured: hnswlib, usearch f32")
    assert len(every_row(retrieval_rows).rows) == len(retrieval_rows) - 1
    assert headline(retrieval_rows[:1]) == []


def test_a_readme_section_stands_between_its_marks(
    retrieval_rows: list[Row], peer_rows: list[Row], tmp_path: Path
) -> None:
    for name, rows in (("retrieval", retrieval_rows), ("peers", peer_rows)):
        ResultsFile(tmp_path / f"{name}-words.jsonl").replace(rows)
    text = section("results", tmp_path)
    path = tmp_path / "README.md"
    path.write_text("before\n\n<!-- results: begin -->\nold\n<!-- results: end -->\n\nafter\n")
    assert write_section(path, "results", text)
    assert path.read_text() == f"before\n\n{text}\n\nafter\n"
    assert not write_section(path, "results", text)
    assert text.count("\n| words |") == 1
    assert "Measured on 2 threads of P, Python 3, faiss-cpu 1, torch 2, numpy 2, at" in text
    path.write_text("no marks")
    with pytest.raises(InputError, match="expected <!-- results: begin -->"):
        write_section(path, "results", text)
    assert path.read_text() == "no marks"


def test_long_tables_are_folded_and_short_ones_are_not() -> None:
    tables = tuning(read_rows(FOLDER, "tune"))
    text = section("tune", FOLDER)
    for table in tables:
        note = f" ({table.note})" if table.note else ""
        folded = f"<details><summary><b>{table.title}</b></summary>\n\n{table.markdown()}\n\n</det"
        shown = f"**{table.title}**{note}\n\n{table.markdown()}"
        assert (folded if len(table.rows) > 20 else shown) in text
    assert 0 < text.count("<details>") == text.count("</details>") < len(tables)


def test_a_way_that_was_not_measured_is_a_dash() -> None:
    known = read_rows(FOLDER, "hybrid")
    (whole,) = answers(known)
    (part,) = answers([row for row in known if row["way"] != "words"])
    column = whole.heads.index("BM25")
    assert {row[column].shown for row in part.rows} == {"–"}
    assert [row[:column] for row in part.rows] == [row[:column] for row in whole.rows]


def test_times_under_load_are_not_shown() -> None:
    tables = {}
    for load in (0.5, 8.0):
        rows = [row | {"load": load} for row in read_rows(FOLDER, "hybrid")]
        (tables[load],) = (table for table in hybrid(rows) if table.title == "What words cost")
    column = tables[0.5].heads.index("s to build")
    assert all(float(row[column].shown) >= 0 for row in tables[0.5].rows)
    assert {row[column].shown for row in tables[8.0].rows} == {"–"}
    assert [row[:4] for row in tables[0.5].rows] == [row[:4] for row in tables[8.0].rows]


def test_the_lead_says_nothing_of_an_index_without_words(tmp_path: Path) -> None:
    row = {"key": "1", "method": "slimdex", "effort": 0, "p50_ms_total_one": 1.0}
    ResultsFile(tmp_path / "search-a.jsonl").append(row)
    assert section("default", tmp_path) == "<!-- default: begin -->\n\n<!-- default: end -->"


@pytest.mark.parametrize("name", sections_with_rows(FOLDER))
def test_the_readme_is_up_to_date(name: str) -> None:
    (page,) = (page for page, names in marked(ROOT).items() if name in names)
    assert section(name, FOLDER) in page.read_text("utf-8"), "run `slimdex bench tables`"


def test_every_chart_is_drawn(retrieval_rows: list[Row], peer_rows: list[Row]) -> None:
    charts = all_charts(retrieval_rows, peer_rows)
    assert set(charts) == {"quality", "pareto", "k", "surface", "peers", "agreement"}
    for name, figure in charts.items():
        svg = vl_convert.vegalite_to_svg(figure.picture().to_dict())
        assert figure.title
        assert svg.count("<path") > 5, name
    assert set(all_charts(retrieval_rows, [])) == set(charts) - {"peers", "agreement"}


def test_names_stand_where_they_have_room() -> None:
    points = [
        {"name": "slimdex", "x": 29.0, "y": 0.2},
        {"name": "graph", "x": 1684.0, "y": 0.22},
        {"name": "the same graph", "x": 1680.0, "y": 0.23},
        {"name": "at the edge", "x": 6000.0, "y": 9.0},
    ]
    assert [p["side"] for p in named(points, "name", "x", "y")] == [
        "right",
        "right",
        "left",
        "left",
    ]


def test_what_is_far_better_than_float32_is_not_cut_off(retrieval_rows: list[Row]) -> None:
    better = [r | {"ndcg@10_delta": 6.4} if r["method"] == "slimdex" else r for r in retrieval_rows]
    for rows, ends in ((better, {"quality": 7, "pareto": 7}), (retrieval_rows, {})):
        figures = all_charts(rows, [])
        for name, usual in (("quality", 2), ("pareto", 3), ("k", 2)):
            domains = re.findall(
                r'"domain": \[-1[25], (\d+)\]', json.dumps(figures[name].in_page())
            )
            assert {int(top) for top in domains} == {ends.get(name, usual)}, name
    ((title, _),) = figures["quality"].in_page()
    assert title == "words, words"


@contextmanager
def opened(page: Path, width: int = 1280) -> Iterator[Page]:
    """The page in a browser without a network; it has to draw all charts and report no error."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        size: ViewportSize = {"width": width, "height": 800}
        tab = browser.new_context(offline=True, viewport=size).new_page()
        tab.set_default_timeout(600_000)  # a slow machine fails no test by time
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda r: said.append(r.url) if r.url.startswith("http") else None)
        tab.goto(page.as_uri())
        tab.wait_for_function("document.body.dataset.drawn")
        assert said == []
        yield tab
        browser.close()


@pytest.mark.slow
def test_the_page_works_in_a_browser_without_a_network(
    retrieval_rows: list[Row], peer_rows: list[Row], tmp_path: Path
) -> None:
    page, *pictures = write_report(
        tmp_path / "out", {"retrieval": retrieval_rows, "peers": peer_rows}
    )
    assert len(pictures) == 6
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)
    with opened(page) as tab:
        assert tab.evaluate("document.body.dataset.drawn") == "7"
        for name in ("quality", "pareto", "k", "surface", "peers", "agreement"):
            assert tab.locator(f"#{name}-0 svg .mark-group path").count() > 0, name
        # Sorting by bytes, up and then down; the rows that say nothing are last going up.
        table = tab.locator("table").last
        head = table.locator("th", has_text="bytes").first
        column = "rows => rows.map(r => Number(r.cells[5].dataset.value))"
        for click in ("ascending", "descending"):
            head.click()
            assert head.get_attribute("aria-sort") == click
            values = table.locator("tbody tr").evaluate_all(column)
            assert values == sorted(values, reverse=click == "descending")
        # Pointing at a mark shows its row.
        tab.locator("#peers-0 .mark-symbol path").first.hover()
        tip = tab.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        assert "agreement" in tip.inner_text()


@pytest.fixture(scope="module")
def own_page(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Row]], Path]:
    """The rows of the project's own results, and the page that shows them."""
    rows = read_all(FOLDER)
    return rows, write_page(tmp_path_factory.mktemp("page"), rows)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_window_and_begins_with_the_verdict(
    width: int, own_page: tuple[dict[str, list[Row]], Path]
) -> None:
    rows, page = own_page
    with opened(page, width) as tab:
        _fits(tab, width)
        _begins_with_the_verdict(tab, rows)
        _has_contents(tab)


def _fits(tab: Page, width: int) -> None:
    """Nothing is wider than the window; charts are as wide as their place, and can be read."""
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    wide = "all => all.map(e => e.clientWidth / e.parentElement.clientWidth)"
    shares = tab.locator(".chart svg.marks").evaluate_all(wide)
    assert len(shares) == tab.locator(".panel").count() > 30
    assert min(shares) > 0.95
    assert max(shares) <= 1.0
    right = "all => Math.max(...all.map(e => e.getBoundingClientRect().right))"
    assert tab.locator(".chart svg text, .key li, .caption").evaluate_all(right) <= width
    letters = "all => Math.min(...all.map(e => parseFloat(getComputedStyle(e).fontSize)))"
    assert tab.locator(".chart svg text").evaluate_all(letters) >= 10
    # Names in the first chart stand clear of each other, at both widths.
    boxes = "all => all.map(e => e.getBoundingClientRect()).map(b => [b.x, b.y, b.right, b.bottom])"
    names = tab.locator("#peers-0 .mark-text.role-mark text").evaluate_all(boxes)
    assert len(names) == 11
    for one, other in combinations(names, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


def _begins_with_the_verdict(tab: Page, rows: dict[str, list[Row]]) -> None:
    told = tab.locator(".verdict").inner_text()
    reached = [r for r in rows["peers"] if "error" not in r and r["agreement@10"] >= 0.99]
    reached.sort(key=lambda row: row["p50_ms_one"])
    ours = next(r for r in reached if r["method"].startswith("slimdex"))
    other = next(r for r in reached if "slimdex" not in r["method"] and r["method"] != "float32")
    assert f"answers in {ours['p50_ms_one']:.2f} ms with {resident_bytes(ours):,.0f} bytes" in told
    assert f"{other['method']}, takes {other['p50_ms_one']:.2f} ms" in told
    lines = headline(rows["retrieval"])[0].rows
    deltas = [float(line[6].value) for line in lines]
    assert f"of {len(lines)} collections" in told
    assert f"{sum(deltas) / len(deltas):+.2f} points on average, {min(deltas):+.2f} to" in told
    order = tab.locator(".verdict, .panel, nav").evaluate_all("all => all.map(e => e.className)")
    assert order[:3] == ["verdict", "panel", ""]
    # Colours that panels share are told once, above them.
    assert tab.locator("figure:has(#k-0) .key li").all_inner_texts() == [
        "slimdex",
        "PCA",
        "BERT-whitening",
        "truncate",
        "random projection",
    ]
    assert tab.locator(".key").count() == 3
    assert tab.locator(".chart").first.get_attribute("id") == "peers-0"


def _has_contents(tab: Page) -> None:
    """Every heading is in the contents, and each of them leads to its own."""
    links = tab.locator("nav a").evaluate_all(
        "all => all.map(a => [a.textContent, document.querySelector(a.hash).textContent])"
    )
    assert [text for text, _ in links] == [heading for _, heading in links]
    headings = tab.locator("h2[id]").all_inner_texts()
    assert [text for text, _ in links] == headings
    assert len(set(headings)) == len(headings) > 20
    tab.locator("nav a", has_text="All rows").click()
    top = tab.locator("#all-rows").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < 800
