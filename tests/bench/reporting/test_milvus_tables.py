"""Rows of a study of Milvus as a table, by hand."""

from __future__ import annotations

from typing import Any

from slimdex.bench.reporting.milvus_tables import served


def row(method: str, recall: float, **more: Any) -> dict[str, Any]:
    facts = {"set": "words", "model": "m", "documents": 1000, "method": method, "kind": "sq8"}
    figures = {"recall@10_total": recall, "ndcg@10": 55.5, "p50_ms": 4.0, "ram_row_bytes": 200}
    return facts | figures | {"versions": {"milvus": "milvus_lite-3.2"}} | more


def test_the_worst_of_the_conditions_that_hold_for_a_share() -> None:
    rows = [
        row("slimdex", 0.999),
        row("slimdex", 0.9, condition="a", share=0.1),
        row("slimdex", 0.7, condition="b", share=0.1),
        row("slimdex", 0.8, condition="c", share=0.5),
        row("Milvus HNSW", 0.95),
    ]
    (table,) = served(rows)
    assert table.title == "Milvus Lite 3.2: words, m"
    assert table.heads[-2:] == ["agreement, 10%", "agreement, 50%"]
    shown = [[cell.shown for cell in line] for line in table.rows]
    assert shown == [
        ["slimdex", "sq8", "200", "55.50", "0.9990", "4.00", "0.7000", "0.8000"],
        ["Milvus HNSW", "sq8", "200", "55.50", "0.9500", "4.00", "", ""],
    ]
