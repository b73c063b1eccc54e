"""The tables of `slimdex bench hybrid`: each fusion beside meaning alone, and what words cost."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text

WAYS = ("meaning", "words", "rrf", "0.1", "0.3", "0.5", "auto")
BASE = "meaning"


def hybrid(rows: Sequence[Row]) -> list[Table]:
    """nDCG@10 of each way, how often names come first, and time and bytes."""
    return [table for table in (_quality(rows), _names(rows), _costs(rows)) if table.rows]


def _by_set(rows: Sequence[Row], what: str) -> dict[tuple[str, str], dict[str, Row]]:
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row["what"] == what:
            found.setdefault((row["set"], row["model"]), {})[row["way"]] = row
    return found


def _quality(rows: Sequence[Row]) -> Table:
    heads = ["set", "model", "documents", "queries", "meaning"]
    heads += [*WAYS[1:], "auto is"]
    lines = []
    for (name, model), by_way in _by_set(rows, "queries").items():
        best = by_way[BASE]
        line = [
            text(name),
            text(model),
            number(best["documents"], ",d"),
            number(best["queries"], ",d"),
            number(best["ndcg@10"], ".2f"),
        ]
        line += [_difference(by_way[way], way == "auto") for way in WAYS if way != BASE]
        lines.append([*line, text(by_way["auto"]["fusion"])])
    note = "nDCG@10 times 100, and differences from meaning alone"
    return Table("Words beside meaning", note, heads, lines)


def _names(rows: Sequence[Row]) -> Table:
    heads = ["set", "model", "names asked for", *WAYS, "auto is"]
    lines = []
    for (name, model), by_way in _by_set(rows, "names").items():
        line = [text(name), text(model), number(by_way[BASE]["queries"], ",d")]
        line += [number(by_way[way]["first_share"], ".1%") for way in WAYS]
        lines.append([*line, text(by_way["auto"]["fusion"])])
    return Table("Names", "share of them that come first", heads, lines)


def _costs(rows: Sequence[Row]) -> Table:
    heads = ["set", "model", "words: bytes on disk", "of them read", "s to index"]
    heads += ["codes: bytes in memory", "vectors: bytes on disk", "s to build"]
    heads += ["words, p50 ms", "meaning", "to documents by meaning", "by both"]
    lines = []
    for (name, model), by_way in _by_set(rows, "queries").items():
        row = by_way[BASE]
        lines.append(
            [
                text(name),
                text(model),
                number(row["words_row_bytes"], ",.0f"),
                number(row["words_memory_row_bytes"], ",.0f"),
                number(row["words_s"], ".1f"),
                number(row["ram_row_bytes"], ",.0f"),
                number(row["disk_row_bytes"], ",.0f"),
                number(row["build_s"], ".1f"),
                number(row["p50_ms_words"], ".2f"),
                number(row["p50_ms_meaning"], ".2f"),
                number(row["p50_ms_documents"], ".2f"),
                number(row["p50_ms_fused"], ".2f"),
            ]
        )
    note = "bytes a vector; searches by vectors that are there"
    return Table("What words cost", note, heads, lines)


def _difference(row: Row, with_interval: bool) -> Cell:
    delta = row["ndcg@10_delta"]
    if not with_interval:
        return Cell(f"{delta:+.2f}", delta)
    low, high = row["ndcg@10_low"], row["ndcg@10_high"]
    return Cell(f"{delta:+.2f} ({low:+.2f} to {high:+.2f})", delta)
