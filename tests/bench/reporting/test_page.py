"""Tables, pictures and the page, from rows that were measured in the test."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from slimdex.bench.reporting import tables
from slimdex.bench.reporting.choices import default_row, exact_row
from slimdex.bench.reporting.page import write_report
from slimdex.bench.reporting.sections import (
    pages_with_marks,
    read_all,
    section,
    sections_with_rows,
    write_section,
)
from slimdex.bench.rows import FOLDER, ResultsFile, Row, read_rows
from slimdex.errors import InputError
from tests.browsing import PHONE, launched, watched

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def retrieval_rows() -> list[Row]:
    """Stored rows of a set, and one that failed."""
    rows = [row for row in read_rows(FOLDER, "retrieval") if row["set"] == "scifact"]
    return [*rows, rows[-1] | {"key": "x", "method": "x", "error": "broke"}]


@pytest.fixture(scope="module")
def peer_rows() -> list[Row]:
    return [row for row in read_rows(FOLDER, "peers") if row["set"] == "debian-desc"]


def test_tables_say_what_the_rows_say(retrieval_rows: list[Row], peer_rows: list[Row]) -> None:
    (table,) = tables.quality(retrieval_rows)
    (line,) = table.rows
    exact, usual = exact_row(retrieval_rows), default_row(retrieval_rows)
    assert exact is not None
    assert usual is not None
    assert [cell.shown for cell in line[:2]] == ["scifact", "5,183"]
    assert line[2].value == pytest.approx(exact["ndcg@10"])
    assert line[3].value == pytest.approx(usual["ndcg@10"])
    delta, low, high = (usual[f"ndcg@10_{n}"] for n in ("delta", "low", "high"))
    assert line[4].shown == f"{delta:+.2f} ({low:+.2f} to {high:+.2f})"
    assert len(tables.every_row(retrieval_rows).rows) == len(retrieval_rows) - 1
    assert tables.quality(retrieval_rows[:1]) == []


def test_peers_are_at_their_fastest_setting_that_finds_enough(peer_rows: list[Row]) -> None:
    other = [row | {"set": "others", "documents": 9} for row in peer_rows]
    failed = peer_rows[0] | {"method": "hnswlib", "error": "broke"}
    rows = [*peer_rows, *other, failed]
    small, table = tables.peers(rows)
    assert small.note == "others, 9 vectors"
    assert table.note == "debian-desc, 60,523 vectors; failed: hnswlib (broke)"
    for name, agreed, took, *_ in table.rows:
        of_method = [row for row in peer_rows if row["method"] == name.shown]
        enough = [row["p50_ms_one"] for row in of_method if row["agreement@10"] >= 0.99]
        if enough:
            assert took.value == min(enough)
        else:
            assert agreed.value == max(row["agreement@10"] for row in of_method)
    methods = {row["method"] for row in peer_rows}
    assert {row[0].shown for row in table.rows} == {m for m in methods if "whitened" not in m}


def test_tables_of_similarity_and_stores() -> None:
    rows = read_rows(FOLDER, "sts")
    (similarity,) = tables.similarity(rows)
    found = {(line[0].shown, line[1].shown): line for line in similarity.rows}
    for row in rows:
        line = found.get((row["model"], row["pooling"]))
        if line and not row["fit"]:
            assert line[2].value == row["average"]
        if line and row["fit"] == "target" and row["beta"] == 1:
            assert line[4 if row["k"] else 3].value == row["average"]
    (stores,) = tables.stores(read_rows(FOLDER, "search"))
    assert len({line[0].shown for line in stores.rows}) == len(stores.rows) > 5


def test_a_mean_is_of_the_sets_that_all_encoders_have_without_identifiers() -> None:
    points = {
        ("a", "m (bf16)"): (40.0, 5.0),
        ("a", "n"): (20.0, 1.0),
        ("b", "m (bf16)"): (80.0, -3.0),
        ("c-identifiers", "m (bf16)"): (10.0, 70.0),
        ("c-identifiers", "n"): (20.0, 50.0),
        ("d", "m"): (60.0, 2.0),
        ("d", "n"): (50.0, 4.0),
    }
    rows: list[Row] = []
    for (name, model), (exact, gain) in points.items():
        known = {"set": name, "model": model}
        rows.append(known | {"way": "float32", "ndcg@10": exact, "ndcg@10_delta": 0.0})
        for way in ("rule", "left out"):
            rows.append(known | {"way": way, "ndcg@10": exact + gain, "ndcg@10_delta": gain})
    (table,) = tables.weights(rows)
    assert table.heads == ["set", "m", "default", "left out", "n", "default", "left out"]
    shown = {line[0].shown: [cell.shown for cell in line[1:]] for line in table.rows}
    assert list(shown) == ["a", "b", "d", "c-identifiers", "mean"]
    assert shown["b"] == ["80.00", "-3.00", "-3.00", "–", "–", "–"]
    assert shown["mean"] == ["50.00", "+3.50", "+3.50", "35.00", "+2.50", "+2.50"]
    (alone,) = tables.weights([row for row in rows if row["set"] == "c-identifiers"])
    assert [[cell.shown for cell in line] for line in alone.rows] == [
        ["c-identifiers", "10.00", "+70.00", "+70.00", "20.00", "+50.00", "+50.00"]
    ]


def test_a_readme_section_stands_between_its_marks(
    retrieval_rows: list[Row], peer_rows: list[Row], tmp_path: Path
) -> None:
    for name, rows in (("retrieval", retrieval_rows), ("peers", peer_rows)):
        ResultsFile(tmp_path / f"{name}-words.jsonl").replace(rows)
    text = section("peers", tmp_path)
    path = tmp_path / "README.md"
    path.write_text("before\n\n<!-- peers: begin -->\nold\n<!-- peers: end -->\n\nafter\n")
    assert write_section(path, "peers", text)
    assert path.read_text() == f"before\n\n{text}\n\nafter\n"
    assert not write_section(path, "peers", text)
    assert text.count("\n| hnswlib |") == 1
    assert "Measured on 2 threads of " in text
    path.write_text("no marks")
    with pytest.raises(InputError, match="expected <!-- peers: begin -->"):
        write_section(path, "peers", text)
    assert path.read_text() == "no marks"


@pytest.mark.parametrize("name", sections_with_rows(FOLDER))
def test_the_readme_is_up_to_date(name: str) -> None:
    (page,) = (page for page, names in pages_with_marks(ROOT).items() if name in names)
    assert section(name, FOLDER) in page.read_text("utf-8"), "run `slimdex bench tables`"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page, *paths = write_report(tmp_path_factory.mktemp("out"), read_all(FOLDER))
    assert [path.name for path in paths] == ["peers.svg", "quality.svg"]
    assert all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in paths)
    return page


def test_the_page_works_without_a_network_and_fits_the_window(page: Path) -> None:
    """Its contents lead to every heading, and a click on a column's head sorts by it."""
    for browser in launched():
        with watched(browser, ("file:", "data:"), offline=True, **PHONE) as tab:
            tab.goto(page.as_uri())
            width = PHONE["viewport"]["width"]
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
