"""Tables of the studies' rows, the same in README, docs, the report and on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from slimdex.retrieval.encoders.models import DEFAULT_MODEL, FAST_MODEL

from ..datasets import IDENTIFIERS
from ..experiments.similarity_study import SEVEN
from ..rows import Row
from .retrieval_tables import fastest_at, is_default
from .table import (
    BY_TASK,
    NOT_MEASURED,
    SET_AND_MODEL,
    Cell,
    Column,
    Declared,
    Rows,
    Table,
    by_way,
    columns_named,
    difference,
    failures,
    grouped,
    measured,
    of_way,
    tabulated,
    together,
)

FEWEST_JUDGED = 100
"""Queries below which a table says nothing of the quality of answers."""


def _judged(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name] if row.get("queries", FEWEST_JUDGED) >= FEWEST_JUDGED else None


def _defaults(rows: Rows) -> list[Row]:
    """Rows of the default index, of the largest set."""
    defaults = [row for row in measured(rows) if is_default(row)]
    most = max((row["documents"] for row in defaults), default=0)
    return [row for row in defaults if row["documents"] == most]


def _stores(rows: Rows) -> list[Row]:
    """Fastest row of each store, of those on one processor with the most of them."""
    groups = grouped(measured(rows), *BY_TASK, "processor").values()
    own = max(groups, key=lambda each: len({row["method"] for row in each}), default=[])
    return fastest_at(own, by="p50_ms_total_one")


TEXT_TO_DOCUMENTS = (
    Column("text to documents, p50 ms", "p50_ms_total_one", ".2f"),
    Column("p99 ms", "p99_ms_total_one", ".2f"),
)
STORE = (
    Column("store, MB", "store_bytes", ",.0f", 1e6),
    Column("and its files", "store_files_bytes", ",.0f", 1e6),
)
DISK_AND_BUILD = (
    Column("disk, bytes each", "disk_row_bytes", ",.0f"),
    Column("build s", "build_s", ",.1f"),
)
search = together(
    Declared(
        "The default index",
        (
            *columns_named("", "model"),
            *TEXT_TO_DOCUMENTS,
            Column("of that encoding", "p50_ms_encode_one", ".2f"),
            Column("all threads, p50 ms", "p50_ms_total_all", ".2f"),
            Column("codes, MB", "code_bytes", ",.1f", 1e6),
            *STORE,
            Column("memory, MB", "memory_bytes", ",.0f", 1e6),
            *DISK_AND_BUILD,
        ),
        "{set}, {documents:,} documents",
        lines=_defaults,
    ),
    Declared(
        "Beside other stores",
        (
            Column("", "method"),
            Column("agreement", _judged("agreement@10"), ".3f"),
            Column("nDCG@10", _judged("ndcg@10"), ".2f"),
            *TEXT_TO_DOCUMENTS,
            Column("searches/s", "searches_per_s_one", ",.0f"),
            *STORE,
            *DISK_AND_BUILD,
        ),
        lambda rows: (
            "{set}, {documents:,} documents, {model}".format_map(_stores(rows)[0]) + failures(rows)
        ),
        lines=_stores,
    ),
)


def _encoders_note(rows: Rows) -> str:
    """Describe the texts, and failures."""
    first = measured(rows)[0]
    texts = f"{first['texts']}: {first['short_texts']:,} and {first['long_texts']:,} texts"
    return texts + failures(rows, "encoder")


encoders = Declared(
    "{model}",
    (
        Column("", "encoder"),
        Column("short texts/s", "short_texts_per_s", ",.0f"),
        Column("long texts/s", "long_texts_per_s", ",.1f"),
        Column("tokens/s", "long_tokens_per_s", ",.0f"),
        Column("one text, p50 ms", "p50_ms_single", ".1f"),
        Column("memory, MB", "peak_bytes", ",.0f", 1e6),
        Column("STS average", "sts_average", ".2f"),
    ),
    _encoders_note,
    ("model",),
    sort="-short_texts_per_s",
)
start = together(
    Declared(
        "{documents:,} documents, {model}",
        (
            Column("", "method"),
            Column("s, median", "alone_s", ".2f"),
            Column("first use, s", "first_s", ".1f"),
        ),
        lambda rows: f"{measured(rows)[0]['processes']} processes each{failures(rows)}",
        ("model", "documents"),
        lines=lambda rows: [row for row in measured(rows) if "processes" in row],
    ),
    Declared(
        "{documents:,} documents, {model}, alone and beside busy processes",
        (
            Column("", "method"),
            Column("alone, ms", "alone_s", ",.1f", 1e-3),
            Column("beside, ms", "busy_s", ",.1f", 1e-3),
            Column("processor time alone, ms", "alone_cpu_s", ",.1f", 1e-3),
            Column("processor time beside, ms", "busy_cpu_s", ",.1f", 1e-3),
        ),
        "one busy process on each processor",
        ("model", "documents"),
        lines=lambda rows: [row for row in measured(rows) if "busy_s" in row],
    ),
)
indexes = Declared(
    "{set}: {documents:,} documents, {model}",
    (
        Column("", lambda row: row.get("condition", row["way"])),
        Column("allowed, %", "allowed_share", ".2f", 0.01),
        Column("candidates", "candidates", ",d"),
        Column("agreement", "agreement@10", ".3f"),
        Column("vector to documents, p50 ms", "p50_ms_hits", ".2f"),
        Column("p99 ms", "p99_ms_hits", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_text", ".2f"),
    ),
    "{rows:,} rows of kind {kind} with k={k}, {ram_row_bytes:.0f} bytes each in memory",
    ("set", "model"),
)
serve = together(
    Declared(
        "{documents:,} documents, {model}",
        (
            Column("asked", "way"),
            Column("by", "method"),
            Column("callers", "callers", "d"),
            Column("requests a second", "searches_per_s", ",.0f"),
            Column("p50 ms", "p50_ms", ".1f"),
            Column("MB of the process", "memory_bytes", ",.0f", 1e6),
        ),
        "each caller asks and waits",
        ("model", "documents"),
        where={"what": "serve"},
    ),
    Declared(
        "Memory of the service, {documents:,} documents, {model}",
        (
            Column("MB", "part"),
            Column("after a search", "idle_bytes", ",.0f", 1e6),
            Column("private", "idle_private_bytes", ",.0f", 1e6),
            Column("after 64 callers", "loaded_bytes", ",.0f", 1e6),
            Column("private", "loaded_private_bytes", ",.0f", 1e6),
        ),
        "private: written; other pages are those of files, which the system can evict",
        ("model", "documents"),
        where={"what": "memory"},
    ),
)


def _of_most_processes(rows: Rows) -> list[Row]:
    """Rows of the largest number of processes."""
    most = max((row["processes"] for row in measured(rows)), default=0)
    return [row for row in measured(rows) if row["processes"] == most]


processes = Declared(
    "",
    (
        Column("documents a commit", "changed", "d"),
        Column("", "method"),
        Column("commits/s", "commits_per_s", ",.1f"),
        Column("commit, p50 ms", "p50_ms_changes", ",.1f"),
        Column("search meanwhile, p50 ms", "p50_ms", ",.1f"),
        *columns_named(",d", "refused"),
        Column("unseen, open process", "unseen_share", ".0%"),
    ),
    lines=_of_most_processes,
)

BASE = "float32"
WAYS = ("rrf", "0.05", "0.1", "0.3", "0.5")
WEIGHTS = ("0.25", "0.5", "0.75", "1")
GAMMAS = ("0.125", "0.25", "0.5")


def of_default_encoder(rows: Rows) -> list[Row]:
    """Rows of the default encoder; another's for sets that it was not measured on."""
    own = [row for row in rows if _without_precision(row["model"]) == DEFAULT_MODEL]
    models = {row["set"]: row["model"] for row in (*rows, *own)}
    return [row for row in rows if row["model"] == models[row["set"]]]


def without_identifiers(rows: Rows) -> list[Row]:
    """Rows of all sets but those that ask for identifiers, which words alone can find."""
    return [row for row in rows if not row["set"].endswith(IDENTIFIERS)]


def _without_precision(model: str) -> str:
    return model.partition(" ")[0]


hybrid = Declared(
    "",
    (
        *columns_named("", "set"),
        *columns_named(",d", "documents"),
        Column("float32", "ndcg@10", ".2f"),
        Column("BM25", of_way("words", "ndcg@10_delta"), "+.2f"),
        Column("float32 and BM25", of_way("float32 rule", "ndcg@10_delta"), "+.2f"),
        Column("default", of_way("rule", difference)),
        Column("from float32 and BM25", of_way("rule codes", "ndcg@10_delta"), "+.2f"),
    ),
    where={"what": "queries"},
    lines=lambda rows: by_way(BASE)(of_default_encoder(rows)),
)
fusion = Declared(
    "{model}",
    (
        *columns_named("", "set"),
        Column("float32", "ndcg@10", ".2f"),
        *(
            Column("off" if way == "meaning" else way, of_way(way, "ndcg@10_delta"), "+.2f")
            for way in ("meaning", *WAYS, "rule")
        ),
        Column("by labels", of_way("auto", "ndcg@10_delta"), "+.2f"),
        Column("labels choose", of_way("auto", "fusion")),
    ),
    by=("model",),
    where={"what": "queries"},
    lines=by_way(BASE),
)
weight_intervals = Declared(
    "Constant weights of BM25, and gamma",
    (
        *SET_AND_MODEL,
        *columns_named(",d", "documents", "queries"),
        Column("semantic", "ndcg@10", ".2f"),
        Column("default", of_way("rule", difference)),
        Column("left out", of_way("left out", difference)),
        *(Column(w, of_way(f"weight {w}", "ndcg@10_delta"), "+.2f") for w in WEIGHTS),
        *(Column(f"gamma {g}", of_way(f"gamma {g}", difference)) for g in GAMMAS),
    ),
    "nDCG@10 times 100; differences from exact semantic search, with 95% intervals",
    where={"what": "queries"},
    lines=by_way(BASE),
)
"""In the report only: the pages have `weights` and `gammas`."""


def weights(rows: Rows) -> list[Table]:
    """Semantic nDCG@10 of each set and encoder, and what BM25 changes.

    By default, and by a constant that is chosen without the set.
    """
    return _by_encoder(rows, {BASE: BASE, "rule": "default", "left out": "left out"})


def gammas(rows: Rows) -> list[Table]:
    """Semantic nDCG@10 of each set and encoder but word vectors, and what gamma 0.25 changes."""
    encoders = [row for row in rows if row["model"] != FAST_MODEL]
    return _by_encoder(without_identifiers(encoders), {BASE: BASE, "gamma 0.25": "gamma 0.25"})


def _by_encoder(rows: Rows, heads_of: dict[str, str]) -> list[Table]:
    """Table of a line for each set, with the differences of ways for each encoder.

    `heads_of` has the columns of ways. The mean is of the sets that all encoders have, without
    those of identifiers.
    """
    found = {(row["set"], _without_precision(row["model"]), row["way"]): row for row in rows}
    last = [*heads_of][-1]
    models = list(dict.fromkeys(model for _, model, way in found if way == last))
    sets = list(dict.fromkeys(name for name, _, way in found if way == last))
    sets.sort(key=lambda name: name.endswith(IDENTIFIERS))
    compared = [
        name
        for name in sets
        if not name.endswith(IDENTIFIERS) and all((name, m, last) in found for m in models)
    ]
    lines = [[Cell(name, name)] for name in (*sets, *(["mean"] if compared else []))]
    heads = ["set"]
    for model in models:
        for way, head in heads_of.items():
            heads.append(model if way == BASE else head)
            column, form = ("ndcg@10", ".2f") if way == BASE else ("ndcg@10_delta", "+.2f")
            values = [found.get((name, model, way), {}).get(column) for name in sets]
            if compared:
                values.append(fmean(found[name, model, way][column] for name in compared))
            for line, value in zip(lines, values, strict=True):
                line.append(NOT_MEASURED if value is None else Cell(format(value, form), value))
    return [Table("", "", heads, lines)] if models else []


def repositories(rows: Rows) -> list[Table]:
    """For each model, NDCG@10 of each repository by the fusion and by all rules."""
    columns = [
        *columns_named("", "set"),
        *columns_named(",d", "queries", "documents", "rows"),
        Column("fusion", of_way("fusion", "ndcg@10"), ".2f"),
        Column("ranked as code", "ndcg@10", ".2f"),
        Column("difference", difference),
    ]
    lines = [row for row in by_way("all")(rows) if "documents" in row]
    return [
        tabulated(f"Repositories, {model}", "by files", columns, own)
        for (model,), own in grouped(lines, "model").items()
    ]


rules = Declared(
    "Rules of ranking, {model}",
    (
        Column("rule", "way"),
        Column("NDCG@10", "ndcg@10", ".2f"),
        Column("difference", difference),
    ),
    "{queries} questions",
    ("model",),
    where={"set": "every"},
)


def with_rules(rows: Rows) -> list[Row]:
    """Rows of single rules and of all, not those without one."""
    return [row for row in rows if not row["way"].startswith("without")]


COUNTS = {
    "documents": "documents",
    "kills": "kills",
    "faults": "failed calls",
    "power_losses": "losses of power",
    "flips": "flipped bits",
    "searches": "searches",
    "changes": "changes",
}
LONGEST = {"longest_search_s": "longest search, s", "longest_change_s": "longest change, s"}
SWEEP = (
    Column("test", lambda row: row["what"].removeprefix("test_").replace("_", " ")),
    *(Column(head, name, ",d") for name, head in COUNTS.items()),
    *(Column(head, name, ".1f") for name, head in LONGEST.items()),
)


def sweep(rows: Rows) -> list[Table]:
    """A line for each test of `make sweep`, with sums and maxima of its cases."""
    sums = [
        {"what": what}
        | {name: sum(row.get(name, 0) for row in own) or None for name in COUNTS}
        | {name: max(row.get(name, 0) for row in own) or None for name in LONGEST}
        for (what,), own in grouped(rows, "what").items()
    ]
    return [tabulated("", "", SWEEP, sums)]


SU = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
"""Columns of Su et al.'s Tables 1 and 2."""
BY_SUBTASKS = ("average wmean", "average by subtasks")
"""Column of a row, and its name in tables."""


def similarity_by_set(rows: Sequence[Row]) -> list[Table]:
    """For each model and language: poolings without a reducer and whitened, every set.

    Figures are over all pairs of a set; the last column is the average by the papers' weighting.
    """
    tables = []
    for (model, language), own in grouped(rows, "model", "language").items():
        sets = own[0]["sets"]
        averaged = [*(SU if set(sets) == set(SEVEN) else sets), "average"]
        averaged += BY_SUBTASKS[:1] if BY_SUBTASKS[0] in own[0] else ()
        plain = {row["pooling"]: row for row in own if not row["fit"]}
        lines = [
            [Cell(row_name(row), row_name(row)), *_cells(row, plain[row["pooling"]], averaged)]
            for row in own
        ]
        heads = [name.replace(*BY_SUBTASKS) for name in ["", *averaged]]
        tables.append(Table(f"{model}, {language}", "", heads, lines))
    return tables


def row_name(row: Row) -> str:
    """Name of a row: the pooling, and the reducer of its vectors."""
    name: str = row["pooling"]
    if row["fit"]:
        pair = (row["beta"], row["gamma"])
        if row["reducer"] == "flow":
            name += ", flow"
        else:
            name += ", whitened" if pair == (1.0, 1.0) else f", ({pair[0]:g}, {pair[1]:g})"
        name += f" on {row['fit']}" + (f", k={row['k']}" if row["k"] else "")
    return name


def _cells(row: Row, plain: Row, names: Sequence[str]) -> list[Cell]:
    """Figures, each with its change against no reducer."""
    cells = []
    for name in names:
        change = "" if row is plain else f" ({row[name] - plain[name]:+.2f})"
        cells.append(Cell(f"{row[name]:.2f}{change}", row[name]))
    return cells


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
        value = row["average"]
        plain = row["plain"]
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


similarity = Declared(
    "",
    (
        *columns_named("", "model", "pooling"),
        Column("none", "average", ".2f"),
        *map(_average, ("whitened", "whitened and cut", "rotated and cut", "flow")),
    ),
    lines=_by_reducer,
)
