"""Tables of searches from disk, and of settled experiments whose rows the papers' tables need."""

from __future__ import annotations

from collections.abc import Sequence

from .similarity import row_name
from .table import (
    BY_TASK,
    DOCUMENTS,
    Column,
    Declared,
    Rows,
    measured,
)

COSINE = 0.5
"""Threshold of the papers' entailment."""
entailment = Declared(
    "{model}",
    (
        Column("", row_name),
        Column("accuracy", "accuracy", ".1f"),
        Column("threshold", "threshold", ".2f"),
        Column(f"accuracy at {COSINE}", "accuracy_fixed", ".1f"),
    ),
    "{pairs:,} pairs; {accuracy_majority:.1f}% are not entailed",
    ("model",),
)
MEASURES = {"MRR@10": "mrr@10", "nDCG@10": "ndcg@10"}
reduction = Declared(
    "{model}, {d} dimensions",
    (
        Column("", "reducer"),
        Column("k", "k", "d"),
        Column("Pearson of similarities", "similarity_pearson", ".2f"),
        Column("STS Pearson", "sts_pearson", ".2f"),
        Column("STS Spearman", "sts_spearman", ".2f"),
        *(Column(f"scifact, {head}", f"scifact {name}", ".2f") for head, name in MEASURES.items()),
    ),
    by=("model",),
)


def _cold_columns(rows: Rows) -> Sequence[Column]:
    told = measured(rows)
    names = dict.fromkeys(n for row in told for n in row if n.startswith("cached_"))
    held = [name for name in names if any(row.get(name) for row in told[1:])]
    return (
        Column("index's files", "way"),
        Column("memory limit, MB", "limit_bytes", ",.0f", 1e6),
        Column("encoding, p50 ms", "p50_ms_encode", ",.2f"),
        Column("text to documents, p50 ms", "p50_ms_total", ",.2f"),
        Column("p95 ms", "p95_ms_total", ",.2f"),
        Column("p99 ms", "p99_ms_total", ",.2f"),
        Column("read from disk, KB a query", "read_query_bytes", ",.0f", 1e3),
        *(Column(f"{n.split('_')[1]} in memory, KB", n, ",.0f", 1e3) for n in held),
        Column("process, MB", "memory_bytes", ",.0f", 1e6),
        Column("and of files", "memory_files_bytes", ",.0f", 1e6),
    )


cold = Declared("{set}, {model}", _cold_columns, DOCUMENTS, BY_TASK)
