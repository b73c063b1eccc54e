"""Every table and figure of the sources is there, as the source has it, and says what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.reporting.experiments import read_all
from slimdex.bench.reporting.tables.papers import (
    OURS,
    PROTOCOLS,
    PublishedTable,
    compared,
    correlation,
    our_row,
    published,
)
from slimdex.bench.rows import FOLDER
from tests.bench.data.test_pairs import DATA
from tests.bench.reporting.source_tables import (
    autoencoder_rows,
    huang_rows,
    su_2022_rows,
    su_rows,
    without_model,
)

SOURCES = {
    "su": ("002_cab755d7df4c5fa3.txt", {"Table 1", "Table 2", "Figure 1"}, su_rows),
    "huang": (
        "004_a690894c00a3c46b.txt",
        {"Table 1", "Table 2", "Table 3", "Figure 1", "Figure 2", "Figure 3"},
        huang_rows,
    ),
    "beta-gamma": ("001_0621ddb1a9bc417e.txt", {"BERT-P4", "SimBERT-P1"}, su_2022_rows),
    "autoencoder": ("003_2e31f28d3474b848.txt", {"PCA and autoencoder"}, autoencoder_rows),
}
"""Source -> its text beside the evaluation data, all that it reports, and what reads a table."""
SEEDS = DATA.parents[1] / "seeds"
TABLES = published().tables


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_left_out(source: str) -> None:
    found = {t.label for t in TABLES if t.source == source}
    found |= {f.label for f in published().figures if f.source == source}
    assert found == SOURCES[source][1]


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.source}, {table.label}")
def test_what_stands_beside_a_line_was_measured(table: PublishedTable) -> None:
    rows = read_all(FOLDER)
    assert any(system.ours for system in table.systems) or "not at hand" in table.why
    for system in table.systems:
        assert len(system.figures) == len(table.columns)
        assert system.protocol in PROTOCOLS
        assert not system.ours or our_row(system, rows) is not None, system.ours


def test_each_table_says_why_ours_differ_and_each_figure_what_ours_is() -> None:
    assert all(table.why for table in TABLES)
    assert all(figure.ours for figure in published().figures)
    docs = Path(__file__).parents[3] / "docs" / "research"
    assert all((docs / f.picture).is_file() for f in published().figures if f.picture)


def test_ours_stand_below_theirs() -> None:
    rows = read_all(FOLDER)
    (first,) = [t for t in TABLES if (t.source, t.label) == ("su", "Table 1")]
    lines = compared(first, rows).rows
    place = next(i for i, line in enumerate(lines) if line[0].shown == "BERT-base-first-last-avg")
    assert lines[place][1].shown == "59.04"
    ours = next(
        r
        for r in rows["sts"]
        if (r["model"], r["pooling"], r["fit"]) == ("distilbert-base-cased-gec", "mean@1,-1", "")
    )
    assert lines[place + 1][0].shown == f"{OURS}distilbert-base-cased-gec, mean@1,-1"
    theirs = [correlation(ours, name, "wmean") for name in first.columns]
    assert [cell.value for cell in lines[place + 1][1:]] == theirs
    assert theirs != [ours[name] for name in first.columns]


@pytest.mark.shared
@pytest.mark.skipif(not SEEDS.is_dir(), reason="no texts of the sources beside the checkout")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.source}, {table.label}")
def test_published_figures_are_the_sources_own(table: PublishedTable) -> None:
    """Row by row and column by column, as the source's own table has them."""
    file, _, rows_of = SOURCES[table.source]
    rows = rows_of((SEEDS / file).read_text(encoding="utf-8"), table.label)
    assert len(rows) == len(table.systems)
    for system, (name, figures) in zip(table.systems, rows, strict=True):
        ours = without_model(system.name) if table.source == "su" else system.name
        theirs = [figures[column.removesuffix(" zh")] for column in table.columns]
        assert ours == name
        assert list(system.figures) == pytest.approx(theirs, nan_ok=True), name
