from __future__ import annotations

from typing import Any

import pytest

from slimdex.bench.reporting.findings import (
    codes_at,
    default_row,
    fastest_at,
    front,
    lines_of,
    mean_by_method,
    one_percent,
    resident_bytes,
    shared_sets,
    small_row,
    tasks,
    uncompressed_row,
)
from slimdex.bench.rows import Row

BASE: Row = {
    "set": "a",
    "model": "m",
    "documents": 5000,
    "queries": 100,
    "dim": 384,
    "method": "slimdex",
    "k": 192,
    "beta": 0.0,
    "gamma": 0.25,
    "kind": "pq",
    "effort": 200,
    "ram_row_bytes": 24.0,
    "compression": 64.0,
    "ndcg@10_delta": 0.5,
}


def row(**changes: Any) -> Row:
    return BASE | changes


def test_tasks_are_ordered_by_model_and_size() -> None:
    rows = [row(set="b", documents=9), row(set="a"), row(model="l", set="c"), row(set="b")]
    assert tasks([rows[0], rows[1], rows[2]]) == [("c", "l"), ("b", "m"), ("a", "m")]


def test_which_rows_the_readme_tells_of() -> None:
    rows = [
        row(method="float32", k=384, kind="flat", effort=0),
        *(row(effort=effort) for effort in (0, 100, 200)),
        *(row(k=96, effort=effort) for effort in (0, 50, 200)),
        *(row(**{"effort": 200} | change) for change in ({"gamma": 0.0}, {"kind": "sq8"})),
        row(method="rotation"),
    ]
    assert (uncompressed_row(rows), default_row(rows), small_row(rows)) == (
        rows[0],
        rows[3],
        rows[5],
    )
    assert default_row(rows[7:]) is None
    assert one_percent(row(documents=300)) == 10


def test_means_are_over_all_sets_or_none() -> None:
    rows = [
        row(**{"ndcg@10_delta": 1.0}),
        row(set="b", **{"ndcg@10_delta": -0.5}),
        row(k=96),  # measured on one set only
        row(k=64, error="broke"),
        row(set="c", model="other"),
    ]
    (mean,) = mean_by_method(rows, "m")
    assert mean["k"] == 192
    assert mean["ndcg@10_delta"] == pytest.approx(0.25)
    assert mean["worst_delta"] == -0.5
    assert len(mean_by_method(rows, "other")) == 1


def test_codes_are_compared_on_sets_that_all_of_them_have() -> None:
    rows = [
        row(method=method, set=name, effort=0)
        for method, names in (("slimdex", "abc"), ("OPQ+PQ", "ab"), ("PCA", "abc"))
        for name in names
    ]
    rows.append(row(method="int8", set="a", effort=0, error="broke"))
    rows.append(row(method="BERT-whitening", set="c", effort=0))  # has no place in the table
    assert shared_sets(rows, "m") == ["a", "b"]
    assert {r["method"] for r in mean_by_method(rows, "m", ["a", "b"])} >= {"OPQ+PQ", "slimdex"}
    assert shared_sets([], "m") == []


def test_a_front_has_nothing_that_costs_more_and_gives_less() -> None:
    pairs = [(48, -1), (24, 0), (24, -2), (8, -3)]
    rows = [row(ram_row_bytes=b, **{"ndcg@10_delta": d}) for b, d in pairs]
    assert front(rows) == [rows[3], rows[1]]


def test_lines_show_every_rescored_size_and_the_front_of_codes() -> None:
    def measured(ram: float, delta: float, effort: int) -> Row:
        return row(ram_row_bytes=ram, effort=effort, **{"ndcg@10_delta": delta})

    rescored = [measured(12, 0.5, 50), measured(12, 0.4, 200), measured(24, 0.1, 200)]
    codes = [measured(12, -9, 0), measured(24, -5, 0), measured(48, -6, 0)]
    shown = lines_of([*rescored, *codes])
    assert shown == [rescored[2], rescored[0], codes[0], codes[1]]


def test_codes_at_a_share_are_one_setting_of_each_method() -> None:
    def codes(method: str, compression: float, delta: float, **more: Any) -> Row:
        return row(method=method, compression=compression, effort=0, **more) | {
            "ndcg@10_delta": delta
        }

    means = [
        codes("slimdex", 32, -2.0, kind="PQ48"),  # the setting that was fixed beforehand
        codes("slimdex", 32, -1.0, kind="PQ96x4fs"),  # is not given up for a luckier one
        codes("ST binary", 32, -5.0),
        codes("OPQ+PQ", 32, -3.0, kind="OPQ48,PQ48"),
        codes("OPQ+PQ", 64, -9.0, kind="OPQ24,PQ24"),
        codes("RaBitQ", 27.4, -0.1),
        codes("int8", 4, -0.0),
        row(compression=32),  # rescored
        codes("BERT-whitening", 32, 3.0),  # a reducer's setting is no method of its own
    ]
    told = [(r["method"], r["ndcg@10_delta"]) for r in codes_at(means, 32)]
    assert told == [("RaBitQ", -0.1), ("slimdex", -2.0), ("OPQ+PQ", -3.0), ("ST binary", -5.0)]
    assert [r["method"] for r in codes_at(means, 4)] == ["int8"]


def test_the_fastest_that_is_good_enough() -> None:
    def peer(method: str, recall: float, ms: float) -> Row:
        return {"method": method, "agreement@10": recall, "p50_ms_one": ms}

    rows = [
        peer("graph", 0.95, 0.1),
        peer("graph", 0.991, 0.3),
        peer("graph", 0.999, 0.9),
        peer("coarse", 0.5, 0.01),
        peer("coarse", 0.8, 0.02),
    ]
    assert fastest_at(rows) == [rows[4], rows[1]]


def test_what_is_resident_counts_the_fixed_part() -> None:
    told = row(ram_fixed_bytes=50_000, process_row_bytes=99, process_files_row_bytes=1)
    assert resident_bytes(told) == 24 + 10
    assert resident_bytes(told | {"ram_row_bytes": None}) == 100
