"""Tables, pictures and the page, from rows that were measured in the test."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slimdex.bench.reporting.charts import named
from slimdex.bench.reporting.experiments import read_all
from slimdex.bench.reporting.findings import default_row, uncompressed_row
from slimdex.bench.reporting.page import write_report
from slimdex.bench.reporting.sections import (
    default_line,
    marked,
    section,
    sections_with_rows,
    start_line,
    write_section,
)
from slimdex.bench.reporting.tables.retrieval import beside_peers, codes_alone, every_row, headline
from slimdex.bench.reporting.tables.studies import answers, hybrid, tuning
from slimdex.bench.rows import FOLDER, ResultsFile, Row, read_rows
from slimdex.indexes.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def retrieval_rows() -> list[Row]:
    """Stored rows of a set, and one that failed."""
    rows = [row for row in read_rows(FOLDER, "retrieval") if row["set"] == "scifact"]
    return [*rows, rows[-1] | {"key": "x", "method": "x", "error": "broke"}]


@pytest.fixture(scope="module")
def peer_rows() -> list[Row]:
    return [row for row in read_rows(FOLDER, "peers") if row["set"] == "debian-desc"]


def test_tables_say_what_the_rows_say(retrieval_rows: list[Row], peer_rows: list[Row]) -> None:
    (table,) = headline(retrieval_rows)
    (line,) = table.rows
    exact, usual = uncompressed_row(retrieval_rows), default_row(retrieval_rows)
    assert exact is not None
    assert usual is not None
    assert [cell.shown for cell in line[:4]] == ["scifact", "all-MiniLM-L6-v2", "5,183", "300"]
    assert line[4].value == pytest.approx(exact["ndcg@10"])
    assert line[5].value == pytest.approx(usual["ndcg@10"])
    delta, low, high = (usual[f"ndcg@10_{n}"] for n in ("delta", "low", "high"))
    assert line[6].shown == f"{delta:+.2f} ({low:+.2f} to {high:+.2f})"
    (codes,) = codes_alone(retrieval_rows)
    shares = [(row[0].shown, row[1].shown) for row in codes.rows]
    assert {share for share in shares if share[0] == "1/8"} == {
        ("1/8", "slimdex k=192 sq8"),
        ("1/8", "int4 k=384 sq4"),
    }
    other = [row | {"set": "others", "documents": 9} for row in peer_rows]
    failed = peer_rows[0] | {"method": "hnswlib", "error": "broke"}
    first, second = beside_peers([*peer_rows, *other, failed])
    names = [row[0].shown for row in second.rows]
    assert sorted(names) == sorted({row["method"] for row in peer_rows})
    assert [table.title[-8:] for table in (first, second)] == [": others", "ian-desc"]
    assert second.note == "all-MiniLM-L6-v2: 60,523 vectors; failed: hnswlib (broke)"
    assert first.note.startswith("all-MiniLM-L6-v2: 9 vectors; not measured: FAISS IVF-PQ")
    for method, *cells in second.rows:
        own = [row for row in peer_rows if row["method"] == method.shown]
        enough = [row["p50_ms_one"] for row in own if row["agreement@10"] >= 0.95]
        shown = cells[second.heads.index("p50 ms at 0.95") - 1].shown
        assert shown == (f"{min(enough):.2f}" if enough else "")
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
    assert text.count("\n| scifact |") == 1
    assert "Measured on 2 threads of " in text
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


def test_the_default_index_is_summed_up_from_text_to_documents() -> None:
    times = {"p50_ms_total_one": 6.0, "p50_ms_encode_one": 4.5, "processor": "P", "load": 0.26}
    memory = {"store_bytes": 20_000_000, "store_files_bytes": 15_400_000, "code_bytes": 1_200_000}
    memory |= {"memory_bytes": 90_000_000, "memory_files_bytes": 130_000_000}
    sizes = {"documents": 1234, "rows": 50_000, "dim": 384, "disk_row_bytes": 1431.4}
    row = {"set": "a", "model": "m", "method": "slimdex", "effort": 0} | times | memory | sizes
    assert default_line(row) == (
        "With m, a search of the 1,234 documents of a takes **6.00 ms from the text to its "
        "documents**, 4.50 ms of it for encoding (medians, one thread of P, load 0.3 before). The "
        "codes of its 50,000 passages take **1.2 MB** (24 bytes each instead of float32's 1,536), "
        "all that the index and its libraries hold in memory is **20 MB**, and **15 MB** are pages "
        "of their files, which the system may drop. The process, with Python and the encoder, "
        "holds 90 MB and 130 MB of pages of files. On disk a document takes 1,431 bytes, with its "
        "text and words."
    )
    for other in ({"effort": 2000}, {"method": "graph"}, {"code_bytes": None, "error": "broke"}):
        assert default_line(row | other) == ""


def test_a_search_in_a_new_process_stands_beside_those_of_others() -> None:
    rows: list[Row] = [
        {"method": "slimdex search", "documents": 5367, "start_s": 0.612},
        {"method": "txtai", "documents": 5367, "start_s": 5.0},
        {"method": "Chroma", "documents": 5367, "error": "no chromadb"},
    ]
    said = "slimdex search in a new process, 5,367 documents: 0.61 s; txtai 5.00 s"
    assert start_line(rows) == said


def test_an_index_without_words_is_not_summed_up(tmp_path: Path) -> None:
    row = {"key": "1", "method": "slimdex", "effort": 0, "p50_ms_total_one": 1.0}
    ResultsFile(tmp_path / "search-a.jsonl").append(row)
    assert section("default", tmp_path) == "<!-- default: begin -->\n\n<!-- default: end -->"


@pytest.mark.parametrize("name", sections_with_rows(FOLDER))
def test_the_readme_is_up_to_date(name: str) -> None:
    (page,) = (page for page, names in marked(ROOT).items() if name in names)
    assert section(name, FOLDER) in page.read_text("utf-8"), "run `slimdex bench tables`"


def test_names_of_points_are_placed_where_they_have_room() -> None:
    points = [
        {"name": "slimdex", "x": 29.0, "y": 0.2},
        {"name": "graph", "x": 1684.0, "y": 0.22},
        {"name": "the same graph", "x": 1680.0, "y": 0.23},
        {"name": "at the edge", "x": 6000.0, "y": 9.0},
    ]
    sides = [point["side"] for point in named(points, "name", "x", "y")]
    assert sides == ["right", "right", "left", "below, to the left"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page, *paths = write_report(tmp_path_factory.mktemp("out"), read_all(FOLDER))
    assert [path.name for path in paths] == ["peers.png", "quality.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_works_without_a_network_and_fits_the_window(width: int, page: Path) -> None:
    """Its contents lead to every heading, and a click on a column's head sorts by it."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        size: ViewportSize = {"width": width, "height": 800}
        tab = browser.new_context(offline=True, viewport=size).new_page()
        tab.set_default_timeout(600_000)  # a slow machine fails no test by time
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda r: problems.append(r.url) if r.url.startswith("http") else None)
        tab.goto(page.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        loaded = "all => all.map(image => image.complete && image.naturalWidth > 0)"
        assert tab.locator("img").evaluate_all(loaded) == [True, True]
        links = tab.locator("nav a").evaluate_all(
            "all => all.map(a => [a.textContent, document.querySelector(a.hash).textContent])"
        )
        headings = tab.locator("h2[id]").all_inner_texts()
        assert links == [[heading, heading] for heading in headings]
        assert len(set(headings)) == len(headings) > 20
        table = tab.locator("table").last
        head = table.locator("th", has_text="bytes").first
        column = "rows => rows.map(row => Number(row.cells[5].dataset.value))"
        for click in ("ascending", "descending"):
            head.click()
            assert head.get_attribute("aria-sort") == click
            values = table.locator("tbody tr").evaluate_all(column)
            told = [value for value in values if value]
            assert told == sorted(told, reverse=click == "descending")
        browser.close()
    assert problems == []
