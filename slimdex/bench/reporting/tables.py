"""Tables of the studies' rows, the same in README, docs, the report and on the terminal.

A new table is a line in `TABLES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

from slimdex.retrieval.encoders.models import DEFAULT_MODEL, FAST_MODEL

from ..datasets import IDENTIFIERS
from ..experiments.similarity_study import SEVEN
from ..rows import Row
from .choices import (
    by_size,
    default_row,
    exact_row,
    fastest_at,
    is_default,
    label,
    most_compared,
    small_row,
)
from .table_columns import (
    BY_TASK,
    SET_AND_MODEL,
    Cell,
    Column,
    Rows,
    Table,
    TableDeclaration,
    by_way,
    columns_named,
    difference,
    failures,
    group_rows,
    make_table,
    of_way,
    rows_where,
    values_of,
    with_column,
    without_errors,
)

VECTORS = ("openvino", "torch")
FAISS = ("faiss-cpu",)


def _in_three_sizes(rows: Rows) -> list[Row]:
    """Return float32's row of each set; its `ways` are slimdex's rows at 1/64 and 1/128.

    Sets that lack one of the three are left out.
    """
    lines = []
    for of_set in group_rows(without_errors(rows), "set").values():
        exact = exact_row(of_set)
        ways = {"usual": default_row(of_set), "small": small_row(of_set)}
        if exact is not None and None not in ways.values():
            lines.append(exact | {"ways": ways})
    return lines


quality = TableDeclaration(
    experiment="retrieval",
    title="Quality",
    columns=(
        *columns_named("", "set"),
        *columns_named(",.0f", "documents"),
        Column("float32", "ndcg@10", ".2f"),
        Column("1/64", of_way("usual", "ndcg@10"), ".2f"),
        Column("difference", of_way("usual", difference)),
        Column("1/128", of_way("small", "ndcg@10"), ".2f"),
        Column("difference", of_way("small", difference)),
    ),
    apart=": {model}",
    by=("model",),
    prepared=by_size,
    lines=_in_three_sizes,
    libraries=FAISS,
)


def with_mapped(row: Row) -> float | None:
    """Return the bytes per vector by which the process grew: private, and pages of index files.

    None for older rows, whose mapped pages include those of the index's input.
    """
    mapped = row.get("mapped_row_bytes")
    return None if mapped is None else float(row["process_row_bytes"] + mapped)


PEERS = (
    Column("", "method"),
    Column("agreement", "agreement@10", ".3f"),
    Column("p50 ms", "p50_ms_one", ".2f"),
    Column("p50 ms capped", "p50_ms_capped", ".2f"),
    Column("batch, queries/s", "queries_per_s", ",.0f"),
    Column("build s", "build_s", ".2f"),
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
    Column("disk", "disk_row_bytes", ",.0f"),
)


def _fastest(rows: Rows) -> list[Row]:
    """Return the row of each method in the encoder's own order, at its fastest setting."""
    return [row for row in fastest_at(rows) if "whitened" not in row["method"]]


def _measured_peers_columns(rows: Rows) -> list[Column]:
    """Return the columns for which at least one row has a figure."""
    fastest = _fastest(rows)
    columns = []
    for column in PEERS:
        cells = map(column.cell, fastest)
        if any(cell.shown for cell in cells):
            columns.append(column)
    return columns


def _peers_note(rows: Rows) -> str:
    """Describe the set, the limit of memory of the capped times, and failures."""
    note = "{set}, {documents:,} vectors".format_map(rows[0])
    capped = with_column("cap_bytes")(rows)
    for cap in sorted(set(values_of(capped, "cap_bytes"))):
        note += f"; capped: at most {cap // 10**6} MB beyond Python's"
    return note + failures(rows)


peers = TableDeclaration(
    experiment="peers",
    title="Peers: Search by vector",
    columns=_measured_peers_columns,
    apart=", {set}, {model}",
    note=_peers_note,
    by=BY_TASK,
    prepared=by_size,
    lines=_fastest,
    marks="peers",
    libraries=FAISS,
    chosen=most_compared,
)
EVERY = (
    *SET_AND_MODEL,
    Column("method", label),
    *columns_named("g", "beta", "gamma"),
    Column("bytes", "ram_row_bytes", ",.1f"),
    Column("fixed KB", lambda row: row["ram_fixed_bytes"], ",.0f", 1000),
    Column("disk", "disk_row_bytes", ",.0f"),
    Column("nDCG@10", "ndcg@10", ".2f"),
    Column("diff.", "ndcg@10_delta", "+.2f"),
    Column("low", "ndcg@10_low", "+.2f"),
    Column("high", "ndcg@10_high", "+.2f"),
    Column("MRR@10", "mrr@10", ".2f"),
    Column("recall@10", "recall@10", ".2f"),
    Column("recall@100", "recall@100", ".2f"),
    Column("agreement@10", "agreement@10", ".3f"),
    Column("p50 ms", "p50_ms_one", ".3f"),
    Column("p95", "p95_ms_one", ".3f"),
    Column("p99", "p99_ms_one", ".3f"),
    Column("queries/s", "queries_per_s", ",.0f"),
    Column("fit s", "fit_s", ".2f"),
    Column("build s", "build_s", ".2f"),
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
)
EVERY_NOTE = (
    "Bytes a vector from the structures; disk: bytes a vector. Intervals: 95%, paired with "
    "float32. Milliseconds: one query on one thread, pages in the system's cache. Private, and "
    "mapped: bytes a vector that the process grew, without and with pages of the index's files."
)


def every_row(rows: Sequence[Row]) -> Table:
    """All rows with the most important columns."""
    return make_table("All rows", EVERY_NOTE, EVERY, without_errors(rows))


FEWEST_JUDGED = 100
"""Queries below which a table says nothing of the quality of answers."""


def _if_enough_queries(name: str) -> Callable[[Row], Any]:
    """Return a function that reads a column of a row; None if too few queries were judged."""

    def value(row: Row) -> Any:
        has_enough = row.get("queries", FEWEST_JUDGED) >= FEWEST_JUDGED
        return row[name] if has_enough else None

    return value


def _defaults(rows: Rows) -> list[Row]:
    """Return the rows of the default index, of the largest set."""
    defaults = [row for row in without_errors(rows) if is_default(row)]
    most = max(values_of(defaults, "documents"), default=0)
    return rows_where(defaults, documents=most)


def _stores(rows: Rows) -> list[Row]:
    """Return the fastest row of each store, on the set and processor with the most stores."""
    return fastest_at(most_compared(rows, "processor"), by="p50_ms_total_one")


def _stores_note(rows: Rows) -> str:
    """Describe the set and the encoder, and failures."""
    first = _stores(rows)[0]
    return "{set}, {documents:,} documents, {model}".format_map(first) + failures(rows)


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
default_index = TableDeclaration(
    experiment="search",
    title="Search: The default index",
    columns=(
        *columns_named("", "model"),
        *TEXT_TO_DOCUMENTS,
        Column("of that encoding", "p50_ms_encode_one", ".2f"),
        Column("all threads, p50 ms", "p50_ms_total_all", ".2f"),
        Column("codes, MB", "code_bytes", ",.1f", 1e6),
        *STORE,
        Column("memory, MB", "memory_bytes", ",.0f", 1e6),
        *DISK_AND_BUILD,
    ),
    note="{set}, {documents:,} documents",
    lines=_defaults,
    marks="search",
    libraries=("openvino", "duckdb", *FAISS),
)
stores = TableDeclaration(
    experiment="search",
    title="Search: Beside other stores",
    columns=(
        Column("", "method"),
        Column("agreement", _if_enough_queries("agreement@10"), ".3f"),
        Column("nDCG@10", _if_enough_queries("ndcg@10"), ".2f"),
        *TEXT_TO_DOCUMENTS,
        Column("searches/s", "searches_per_s_one", ",.0f"),
        *STORE,
        *DISK_AND_BUILD,
    ),
    note=_stores_note,
    lines=_stores,
    marks="search",
)
indexes = TableDeclaration(
    experiment="index",
    title="Index: {set}: {documents:,} documents, {model}",
    columns=(
        Column("", lambda row: row.get("condition", row["way"])),
        Column("candidates", "candidates", ",d"),
        Column("agreement", "agreement@10", ".3f"),
        Column("vector to documents, p50 ms", "p50_ms_hits", ".2f"),
        Column("p99 ms", "p99_ms_hits", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_text", ".2f"),
    ),
    note="{rows:,} rows of kind {kind} with k={k}, {ram_row_bytes:.0f} bytes each in memory",
    by=("set", "model"),
    marks="index",
    libraries=("duckdb", *FAISS),
)


def _encoders_note(rows: Rows) -> str:
    """Describe the texts, and failures."""
    first = without_errors(rows)[0]
    texts = f"{first['texts']}: {first['short_texts']:,} and {first['long_texts']:,} texts"
    return texts + failures(rows, "encoder")


encoders = TableDeclaration(
    experiment="encode",
    title="Encoding: {model}",
    columns=(
        Column("", "encoder"),
        Column("short texts/s", "short_texts_per_s", ",.0f"),
        Column("tokens/s", "long_tokens_per_s", ",.0f"),
        Column("one text, p50 ms", "p50_ms_single", ".1f"),
        Column("memory, MB", "peak_bytes", ",.0f", 1e6),
        Column("STS average", "sts_average", ".2f"),
    ),
    note=_encoders_note,
    by=("model",),
    sort="-short_texts_per_s",
    marks="encoding",
    libraries=("openvino", "torch", "sentence-transformers", "onnxruntime"),
)
BASE = "float32"
WAYS = ("rrf", "0.05", "0.1", "0.3", "0.5")
WEIGHTS = ("0.25", "0.5", "0.75", "1")
GAMMAS = ("0.125", "0.25", "0.5")
TANTIVY = ("tantivy",)


def of_default_encoder(rows: Rows) -> list[Row]:
    """Return the rows of the default encoder, or another's for sets it was not measured on."""
    of_default = [row for row in rows if _without_precision(row["model"]) == DEFAULT_MODEL]

    # Keep the last model of each set: the default encoder, if it was measured.
    models = {row["set"]: row["model"] for row in (*rows, *of_default)}
    return [row for row in rows if row["model"] == models[row["set"]]]


def without_identifiers(rows: Rows) -> list[Row]:
    """Return the rows of all sets but those for identifiers, which words alone can find."""
    return [row for row in rows if not row["set"].endswith(IDENTIFIERS)]


def _without_precision(model: str) -> str:
    return model.partition(" ")[0]


hybrid = TableDeclaration(
    experiment="hybrid",
    title="Hybrid",
    columns=(
        *columns_named("", "set"),
        *columns_named(",d", "documents"),
        Column("float32", "ndcg@10", ".2f"),
        Column("BM25", of_way("words", "ndcg@10_delta"), "+.2f"),
        Column("default", of_way("rule", difference)),
        Column("from float32 and BM25", of_way("rule codes", "ndcg@10_delta"), "+.2f"),
    ),
    where={"what": "queries"},
    prepared=of_default_encoder,
    lines=by_way(BASE),
    marks="hybrid",
    libraries=("tantivy", *FAISS),
    chosen=without_identifiers,
)
fusion = TableDeclaration(
    experiment="hybrid",
    title="Fusion: {model}",
    columns=(
        *columns_named("", "set"),
        Column("float32", "ndcg@10", ".2f"),
        Column("off", of_way("meaning", "ndcg@10_delta"), "+.2f"),
        *(Column(way, of_way(way, "ndcg@10_delta"), "+.2f") for way in (*WAYS, "rule")),
        Column("by labels", of_way("auto", "ndcg@10_delta"), "+.2f"),
        Column("labels choose", of_way("auto", "fusion")),
    ),
    by=("model",),
    where={"what": "queries"},
    lines=by_way(BASE),
    libraries=("tantivy", *FAISS),
)


def _encoders_of(rows: Rows, last: str) -> list[str]:
    """Return the encoders that were measured by the way `last`."""
    models = values_of(rows_where(rows, way=last), "model")
    return [*dict.fromkeys(map(_without_precision, models))]


def _by_encoder(
    marks: str, title: str, ways: dict[str, str], chosen: Callable[[Rows], Rows]
) -> TableDeclaration:
    """Declare a table with a line for each set, and a column of each way for each encoder.

    `ways` maps ways to heads of columns, in which "{model}" stands for the encoder. The mean is
    over the sets that all encoders have, without those of identifiers.
    """
    last = [*ways][-1]  # a set and encoder with this way have all ways

    def columns(rows: Rows) -> list[Column]:
        """Return the column of the set's name, and those of each encoder."""
        all_columns = [*columns_named("", "set")]
        for model in _encoders_of(rows, last):
            for way, head in ways.items():
                is_base = way == BASE
                name = "ndcg@10" if is_base else "ndcg@10_delta"
                form = ".2f" if is_base else "+.2f"
                column = Column(head.format(model=model), of_way((model, way), name), form)
                all_columns.append(column)
        return all_columns

    def lines(rows: Rows) -> list[Row]:
        """Return a line for each set, and one of the means."""
        # Set -> (encoder, way) -> row.
        sets = dict[str, dict[Any, Row]]()
        for row in rows:
            key = (_without_precision(row["model"]), row["way"])
            sets.setdefault(row["set"], {})[key] = row
        models = _encoders_of(rows, last)

        # Make a line for each set that an encoder has; sets of identifiers come last.
        set_lines = list[Row]()
        compared = []
        for set_name in sorted(sets, key=lambda name: name.endswith(IDENTIFIERS)):
            rows_by_way = sets[set_name]
            has_way = [(model, last) in rows_by_way for model in models]
            if any(has_way):
                set_lines.append({"set": set_name, "ways": rows_by_way})
            if models and all(has_way) and not set_name.endswith(IDENTIFIERS):
                compared.append(rows_by_way)
        if not compared:
            return set_lines

        # Average over the sets that all encoders have.
        means = {}
        for key in product(models, ways):
            of_key = [rows_by_way[key] for rows_by_way in compared]
            means[key] = {
                "ndcg@10": fmean(values_of(of_key, "ndcg@10")),
                "ndcg@10_delta": fmean(values_of(of_key, "ndcg@10_delta")),
            }
        return [*set_lines, {"set": "mean", "ways": means}]

    return TableDeclaration(
        experiment="weight",
        title=title,
        columns=columns,
        lines=lines,
        marks=marks,
        libraries=TANTIVY,
        chosen=chosen,
    )


def _without_word_vectors(rows: Rows) -> list[Row]:
    """Return the rows of sets without identifiers, except those by word vectors."""
    return without_identifiers([row for row in rows if row["model"] != FAST_MODEL])


def _with_identifiers(rows: Rows) -> list[Row]:
    """Return the rows of the encoders that were also measured on sets of identifiers."""
    of_identifiers = [row for row in rows if row["set"].endswith(IDENTIFIERS)]
    models = set(values_of(of_identifiers, "model"))
    return [row for row in rows if row["model"] in models]


weights = _by_encoder(
    marks="weight",
    title="Weight",
    ways={BASE: "{model}", "rule": "default", "left out": "left out"},
    chosen=_with_identifiers,
)
"""Semantic nDCG@10, and what BM25 changes: by default, and by a constant chosen without the set."""
gammas = _by_encoder(
    marks="gammas",
    title="Gamma",
    ways={"gamma 0.25": "{model}"},
    chosen=_without_word_vectors,
)
"""Change of semantic nDCG@10 by gamma 0.25."""
weight_intervals = TableDeclaration(
    experiment="weight",
    title="Weight: Constant weights of BM25, and gamma",
    columns=(
        *SET_AND_MODEL,
        *columns_named(",d", "documents", "queries"),
        Column("semantic", "ndcg@10", ".2f"),
        Column("default", of_way("rule", difference)),
        Column("left out", of_way("left out", difference)),
        *(Column(w, of_way(f"weight {w}", "ndcg@10_delta"), "+.2f") for w in WEIGHTS),
        *(Column(f"gamma {g}", of_way(f"gamma {g}", difference)) for g in GAMMAS),
    ),
    note="nDCG@10 times 100; differences from exact semantic search, with 95% intervals",
    where={"what": "queries"},
    lines=by_way(BASE),
)


def _with_rules(rows: Rows) -> list[Row]:
    """Return the rows of single rules and of all rules, without those of all but one."""
    return [row for row in rows if not row["way"].startswith("without")]


def _by_rule(rows: Rows) -> list[Row]:
    """Return a line for each rule; its `ways` are the rows of the models."""
    lines = []
    for (way,), of_rule in group_rows(without_errors(rows), "way").items():
        lines.append({"way": way, "ways": {row["model"]: row for row in of_rule}})
    return lines


def _points_or_difference(row: Row) -> Cell:
    """Show nDCG@10 of the fusion, and what a rule changes."""
    points: float = row["ndcg@10"]
    return Cell(f"{points:.2f}", points) if row["way"] == "fusion" else difference(row)


def _rules_columns(rows: Rows) -> list[Column]:
    """Return the column of the rules, and one for each model."""
    models = dict.fromkeys(values_of(rows, "model"))
    columns = [Column(model, of_way(model, _points_or_difference)) for model in models]
    return [Column("rule", "way"), *columns]


rules = TableDeclaration(
    experiment="code",
    title="Code: Rules of ranking",
    columns=_rules_columns,
    note="{queries} questions",
    where={"set": "every"},
    lines=_by_rule,
    marks="code",
    libraries=("tantivy", "openvino"),
    chosen=_with_rules,
)
repositories = TableDeclaration(
    experiment="code",
    title="Code: Repositories, {model}",
    columns=(
        *columns_named("", "set"),
        *columns_named(",d", "queries", "documents", "rows"),
        Column("fusion", of_way("fusion", "ndcg@10"), ".2f"),
        Column("ranked as code", "ndcg@10", ".2f"),
        Column("difference", difference),
    ),
    note="by files",
    by=("model",),
    lines=lambda rows: [row for row in by_way("all")(rows) if "documents" in row],
)

SU = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
"""Columns of Su et al.'s Tables 1 and 2."""
BY_SUBTASKS = ("average wmean", "average by subtasks")
"""Column of a row, and its name in tables."""


def _reducer(row: Row) -> str:
    """Name the reducer of a row of `bench sts` if it is fitted on the target.

    "none" stands for no reducer, and "" for one that is fitted on other texts.
    """
    if row["fit"] != "target":
        return "" if row["fit"] else "none"
    if row["reducer"] == "flow":
        return "flow"
    return ("whitened" if row["beta"] else "rotated") + (" and cut" if row["k"] else "")


def _change(name: str, row: Row) -> Cell:
    """Return a figure, and its change against no reducer; see `_with_plain`."""
    value = row[name]
    change = "" if row["plain"] is None else f" ({value - row['plain'][name]:+.2f})"
    return Cell(f"{value:.2f}{change}", value)


_average = partial(_change, "average")


def _with_plain(rows: Rows) -> list[Row]:
    """Add a column `plain` to the rows: the row of the same pooling without a reducer.

    It is None for rows without a reducer.
    """
    plain = {row["pooling"]: row for row in rows if not row["fit"]}
    lines = []
    for row in rows:
        of_pooling = plain[row["pooling"]] if row["fit"] else None
        lines.append(row | {"plain": of_pooling})
    return lines


def _by_reducer(rows: Rows) -> list[Row]:
    """Return the row without a reducer for each model and pooling; `ways` maps reducers to rows.

    Poolings that were not whitened are left out.
    """
    lines = []
    for of_pooling in group_rows(rows, "model", "pooling").values():
        ways = {_reducer(row): row for row in _with_plain(of_pooling)}
        plain = next(row for row in of_pooling if not row["fit"])
        if "whitened" in ways:
            lines.append(plain | {"ways": ways})
    return lines


similarity = TableDeclaration(
    experiment="sts",
    title="Similarity",
    columns=(
        *columns_named("", "model", "pooling"),
        Column("none", "average", ".2f"),
        Column("whitened", of_way("whitened", _average)),
        Column("whitened and cut", of_way("whitened and cut", _average)),
        Column("rotated and cut", of_way("rotated and cut", _average)),
    ),
    lines=_by_reducer,
    marks="similarity",
    libraries=VECTORS,
)


def row_name(row: Row) -> str:
    """Name a row by the pooling, and the reducer of its vectors."""
    name: str = row["pooling"]
    if row["fit"]:
        pair = (row["beta"], row["gamma"])
        if row["reducer"] == "flow":
            name += ", flow"
        else:
            name += ", whitened" if pair == (1.0, 1.0) else f", ({pair[0]:g}, {pair[1]:g})"
        name += f" on {row['fit']}" + (f", k={row['k']}" if row["k"] else "")
    return name


def _sets(rows: Rows) -> list[Column]:
    """Return the columns of all sets, in the papers' order, and of averages."""
    sets = rows[0]["sets"]
    in_order = SU if set(sets) == set(SEVEN) else sets
    names = [*in_order, "average"]
    by_subtasks, head = BY_SUBTASKS
    if by_subtasks in rows[0]:
        names.append(by_subtasks)
    figures = (Column(name.replace(by_subtasks, head), partial(_change, name)) for name in names)
    return [Column("", row_name), *figures]


similarity_by_set = TableDeclaration(
    experiment="sts",
    title="Similarity: {model}, {language}",
    columns=_sets,
    by=("model", "language"),
    lines=_with_plain,
)
"""Figures over all pairs of a set; the last column is the average by the papers' weighting."""

COUNTS = {
    "documents": "documents",
    "kills": "kills",
    "faults": "failed calls",
    "power_losses": "losses of power",
    "flips": "flipped bits",
    "searches": "searches",
    "changes": "changes",
}
LONGEST = {"longest_search_s": "longest search", "longest_change_s": "longest change"}


def _by_test(rows: Rows) -> list[Row]:
    """Return a line for each test of `make sweep`, with sums and maxima of its cases.

    A sum or maximum of 0 is None.
    """
    lines = []
    for (what,), runs in group_rows(rows, "what").items():
        line = {"what": what}
        for name in COUNTS:
            line[name] = sum(row.get(name, 0) for row in runs) or None
        for name in LONGEST:
            line[name] = max(row.get(name, 0) for row in runs) or None
        lines.append(line)
    return lines


def _counts_and_times(row: Row) -> str:
    """Format a test's counts and longest times, without missing ones."""
    facts = []
    for name, things in COUNTS.items():
        if row[name]:
            facts.append(f"{row[name]:,d} {things}")
    for name, what in LONGEST.items():
        if row[name]:
            facts.append(f"{what} {row[name]:.1f} s")
    return ", ".join(facts)


sweep = TableDeclaration(
    experiment="sweep",
    title="Sweep",
    columns=(
        Column("test", lambda row: row["what"].removeprefix("test_").replace("_", " ")),
        Column("tried", _counts_and_times),
    ),
    lines=_by_test,
    marks="sweep",
    libraries=("duckdb", *FAISS),
)

TABLES = (
    quality,
    peers,
    default_index,
    stores,
    indexes,
    encoders,
    hybrid,
    fusion,
    weights,
    gammas,
    weight_intervals,
    rules,
    repositories,
    similarity,
    similarity_by_set,
    sweep,
)
EXPERIMENTS = tuple(dict.fromkeys(table.experiment for table in TABLES))


def tables_of(experiment: str, rows: Rows) -> list[Table]:
    """Make the tables of an experiment's rows."""
    tables = list[Table]()
    for declaration in TABLES:
        if declaration.experiment == experiment:
            tables += declaration(rows)
    return tables
