"""Tables of the docs: some columns and lines of full tables, which `slimdex bench report` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from slimdex.retrieval.encoders.models import DEFAULT_MODEL, FAST_MODEL

from ..datasets import IDENTIFIERS
from ..engines.registry import finds_in_files
from ..rows import Row
from . import study_tables as full
from .retrieval_tables import (
    BESIDE_PEERS,
    SLIMDEX,
    fastest_at,
    is_default,
    of_task,
    tasks,
)
from .table import (
    DIFFERENCE,
    NOT_MEASURED,
    Cell,
    Column,
    Declared,
    Rows,
    Table,
    by_way,
    columns_named,
    grouped,
    measured,
    of_way,
    tabulated,
    together,
)


def _of(columns: Sequence[Column], *heads: str) -> tuple[Column, ...]:
    """Columns by their heads; of several with one head the first."""
    return tuple(next(column for column in columns if column.head == head) for head in heads)


PEERS = _of(
    BESIDE_PEERS,
    *("", "agreement", "p50 ms", "p50 ms capped", "batch, queries/s", "build s"),
    *("private", "and mapped", "disk"),
)


def most_compared(rows: Rows) -> Rows:
    """Rows of the set and model with the most methods."""
    each = [of_task(rows, task) for task in tasks(rows)]
    return max(each, key=lambda own: len({row["method"] for row in own}), default=[])


def peers(rows: Rows) -> list[Table]:
    """Methods in the encoder's own order beside each other, on the set with the most of them.

    Those that keep vectors in memory have one table, those that find them in files another;
    slimdex is in both.
    """
    lines = [row for row in fastest_at(most_compared(rows)) if "whitened" not in row["method"]]
    ours = [row for row in lines if row["method"].startswith(SLIMDEX)]
    in_files = [row for row in lines if finds_in_files(row["method"])]
    columns = [c for c in PEERS if any(c.cell(row).shown for row in lines)]
    note = "{set}, {documents:,} vectors".format_map(lines[0])
    return [
        tabulated("Vectors in memory", note, columns, [r for r in lines if r not in in_files]),
        tabulated("Vectors in files", note, columns, [r for r in lines if r in ours + in_files]),
    ]


STORE = (
    Column("store, MB", "store_bytes", ",.0f", 1e6),
    Column("and its files", "store_files_bytes", ",.0f", 1e6),
)


FEWEST_JUDGED = 100
"""Queries below which a table says nothing of the quality of answers."""


def _judged(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name] if row.get("queries", FEWEST_JUDGED) >= FEWEST_JUDGED else None


def _defaults(rows: Rows) -> list[Row]:
    """Rows of the default index, of the largest set."""
    found = [row for row in measured(rows) if is_default(row)]
    most = max((row["documents"] for row in found), default=0)
    return [row for row in found if row["documents"] == most]


def _stores(rows: Rows) -> list[Row]:
    """Fastest row of each store, of those on one processor with the most of them."""
    groups = grouped(measured(rows), *full.search.by).values()
    own = max(groups, key=lambda each: len({row["method"] for row in each}), default=[])
    return fastest_at(own, by="p50_ms_total_one")


search = together(
    Declared(
        "The default index",
        (
            *columns_named("", "model"),
            *_of(full.search.columns, "text to documents, p50 ms", "p99 ms"),
            *_of(full.search.columns, "of that encoding", "all threads, p50 ms", "codes, MB"),
            *STORE,
            *_of(full.search.columns, "memory, MB", "disk, bytes each", "build s"),
        ),
        "{set}, {documents:,} documents",
        lines=_defaults,
    ),
    Declared(
        "Beside other stores",
        (
            *_of(full.search.columns, ""),
            Column("agreement", _judged("agreement@10"), ".3f"),
            Column("nDCG@10", _judged("ndcg@10"), ".2f"),
            *_of(full.search.columns, "text to documents, p50 ms", "p99 ms", "searches/s"),
            *STORE,
            *_of(full.search.columns, "disk, bytes each", "build s"),
        ),
        lambda rows: "{set}, {documents:,} documents, {model}".format_map(_stores(rows)[0]),
        lines=_stores,
    ),
)
encoders = replace(
    full.encoders,
    columns=_of(
        full.encoders.columns,
        *("", "short texts/s", "long texts/s", "one text, p50 ms", "memory, MB", "STS average"),
    ),
)
indexes = replace(
    full.indexes,
    columns=(
        *_of(full.indexes.columns, "", "allowed, %", "candidates", "agreement"),
        Column("vector to documents, p50 ms", "p50_ms_hits", ".2f"),
        Column("p99 ms", "p99_ms_hits", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_text", ".2f"),
    ),
)


def of_default_encoder(rows: Rows) -> list[Row]:
    """Rows of the default encoder; another's for sets that it was not measured on."""
    own = [row for row in rows if _without_precision(row["model"]) == DEFAULT_MODEL]
    models = {row["set"]: row["model"] for row in (*rows, *own)}
    return [row for row in rows if row["model"] == models[row["set"]]]


def without_identifiers(rows: Rows) -> list[Row]:
    """Rows of all sets but those that ask for identifiers, which words alone can find."""
    return [row for row in rows if not row["set"].endswith(IDENTIFIERS)]


hybrid = Declared(
    "",
    (
        *columns_named("", "set"),
        *columns_named(",d", "documents"),
        Column("float32", "ndcg@10", ".2f"),
        Column("BM25", of_way("words", "ndcg@10_delta"), "+.2f"),
        Column("float32 and BM25", of_way("float32 rule", "ndcg@10_delta"), "+.2f"),
        Column("default", of_way("rule", DIFFERENCE)),
        Column("from float32 and BM25", of_way("rule codes", "ndcg@10_delta"), "+.2f"),
    ),
    where={"what": "queries"},
    lines=lambda rows: by_way("float32")(of_default_encoder(rows)),
)
fusion = Declared(
    "{model}",
    (
        *columns_named("", "set"),
        Column("float32", "ndcg@10", ".2f"),
        *(
            Column("off" if way == "meaning" else way, of_way(way, "ndcg@10_delta"), "+.2f")
            for way in ("meaning", *full.WAYS, "rule")
        ),
        Column("by labels", of_way("auto", "ndcg@10_delta"), "+.2f"),
        full.AUTO_IS,
    ),
    by=("model",),
    where={"what": "queries"},
    lines=by_way("float32"),
)


def weights(rows: Rows) -> list[Table]:
    """Semantic nDCG@10 of each set and encoder, and what BM25 changes.

    By default, and by a constant that is chosen without the set.
    """
    return _by_encoder(rows, full.BASE, "rule", "left out")


def gammas(rows: Rows) -> list[Table]:
    """Semantic nDCG@10 of each set and encoder but word vectors, and what gamma 0.25 changes."""
    encoders = [row for row in rows if row["model"] != FAST_MODEL]
    return _by_encoder(without_identifiers(encoders), full.BASE, "gamma 0.25")


def _by_encoder(rows: Rows, *ways: str) -> list[Table]:
    """Table of a line for each set, with the differences of ways for each encoder.

    The mean is of the sets that all encoders have, without those of identifiers.
    """
    found = {(row["set"], _without_precision(row["model"]), row["way"]): row for row in rows}
    models = list(dict.fromkeys(model for _, model, way in found if way == ways[-1]))
    sets = list(dict.fromkeys(name for name, _, way in found if way == ways[-1]))
    sets.sort(key=lambda name: name.endswith(IDENTIFIERS))
    compared = [
        name
        for name in sets
        if not name.endswith(IDENTIFIERS) and all((name, m, ways[-1]) in found for m in models)
    ]
    lines = [[Cell(name, name)] for name in (*sets, "mean")]
    heads = ["set"]
    for model in models:
        heads += [model, *(full.HEADS.get(way, way) for way in ways[1:])]
        for way in ways:
            column, form = ("ndcg@10", ".2f") if way == full.BASE else ("ndcg@10_delta", "+.2f")
            values = [found[name, model, way][column] for name in compared]
            every = [found.get((name, model, way), {}).get(column) for name in sets]
            for line, value in zip(lines, [*every, fmean(values)], strict=True):
                line.append(NOT_MEASURED if value is None else Cell(format(value, form), value))
    return [Table("", "", heads, lines)] if models else []


def _without_precision(model: str) -> str:
    return model.partition(" ")[0]


def _reduced(row: Row) -> str:
    """Name the reducer of a row of `bench sts`, fitted on the target."""
    if row["fit"] != "target":
        return "" if row["fit"] else "none"
    if row["reducer"] == "flow":
        return "flow"
    return ("whitened" if row["beta"] else "rotated") + (" and cut" if row["k"] else "")


def _average(way: str) -> Column:
    """Average of a way, and its change against no reducer."""

    def cell(row: Row) -> Cell:
        value, plain = row["average"], row["plain"]
        return Cell(f"{value:.2f} ({value - plain:+.2f})", value)

    return Column(way, of_way(way, cell))


def _by_reducer(rows: Rows) -> list[Row]:
    """First row of each model and pooling, without a reducer, and the rows of its reducers."""
    lines = []
    for own in grouped(rows, "model", "pooling").values():
        plain = next(row for row in own if not row["fit"])
        ways = {_reduced(row): row | {"plain": plain["average"]} for row in own}
        if "whitened" in ways:
            lines.append(plain | {"ways": ways})
    return lines


code = replace(
    full.rules,
    note="{queries} questions",
    lines=lambda rows: [row for row in measured(rows) if not row["way"].startswith("without")],
)
similarity = Declared(
    "",
    (
        *columns_named("", "model", "pooling"),
        Column("none", "average", ".2f"),
        *map(_average, ("whitened", "whitened and cut", "rotated and cut", "flow")),
    ),
    lines=_by_reducer,
)
