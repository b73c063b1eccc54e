"""Findings in the rows, shared by tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from slimdex.indexes.options import CANDIDATES

from ..experiments.measured_methods import DEFAULTS, UNCOMPRESSED, part
from ..rows import Row

SLIMDEX = "slimdex"
CODES_ONLY, RESCORED = "codes only", "rescored"
CODES = {4: "fp16", 8: "sq8", 16: "PQ{half}x4fs", 32: "PQ{eighth}"}
"""Share of float32 -> kind of slimdex's codes, with half the dimensions and no rescoring."""
FASTEST_AT = 0.99
"""Agreement with exact search at which approximate indexes are compared."""
LOWER = (0.98, 0.95)
"""Agreements at which they are compared too, since not all reach the first one."""

METHODS = (
    *(SLIMDEX, UNCOMPRESSED, "float16", "ST int8", "ST binary", "int8", "int4", "PQ", "OPQ+PQ"),
    *("RaBitQ", "PCA", "truncate", "random projection"),
)
"""Methods that are compared by quality and memory."""


def tasks(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """List (set, model) of the rows, by model in the order of the rows, then by size."""
    sizes = {(r["model"], r["documents"], r["set"]) for r in rows}
    return [(name, model) for model, _, name in sorted(sizes)]


def of_task(rows: Iterable[Row], task: tuple[str, str]) -> list[Row]:
    """Rows of a set and model that were measured without an error."""
    return [r for r in rows if (r["set"], r["model"]) == task and "error" not in r]


def is_slimdex(row: Row, of: int, effort: Callable[[Row], int]) -> bool:
    """Return whether a row is slimdex by default except for k = d / of and its candidates."""
    settings = (row.get("beta"), row.get("gamma"), row.get("kind"))
    return (
        row["method"] == SLIMDEX
        and settings == (DEFAULTS.beta, DEFAULTS.gamma, DEFAULTS.kind)
        and row["k"] == part(row["dim"], of)
        and row["effort"] == effort(row)
    )


def default_row(rows: Sequence[Row]) -> Row | None:
    """Row of slimdex as `slimdex build` makes it: 1/64 of float32."""
    return next((r for r in rows if is_slimdex(r, 2, lambda _: CANDIDATES)), None)


def is_default(row: Row) -> bool:
    """Return whether a row of `bench search` is of the default index.

    Older rows, which have no `code_bytes`, were measured without words and passages.
    """
    return row["method"] == SLIMDEX and not row["effort"] and bool(row.get("code_bytes"))


def small_row(rows: Sequence[Row]) -> Row | None:
    """Row of slimdex at 1/128 with 1% of the documents as candidates."""
    return next((r for r in rows if is_slimdex(r, 4, one_percent)), None)


def one_percent(row: Row) -> int:
    """Number of candidates that is 1% of the documents."""
    return max(int(row["documents"]) // 100, 10)


def uncompressed_row(rows: Sequence[Row]) -> Row | None:
    """Row of exact float32 search, if there is one."""
    return next((r for r in rows if r["method"] == UNCOMPRESSED), None)


def stage(row: Row) -> str:
    """Describe whether answers have the order of the codes or of better vectors."""
    return RESCORED if row["effort"] else CODES_ONLY


def label(row: Row) -> str:
    """Describe a row's method in a few words.

    >>> label({"method": "slimdex", "k": 192, "kind": "pq", "effort": 200})
    'slimdex k=192 pq, 200 rescored'
    >>> label({"method": "ST binary", "effort": 4})
    'ST binary, effort 4'
    """
    if row.get("k") is None:
        return f"{row['method']}, effort {row['effort']}" if row["effort"] else str(row["method"])
    words = f"{row['method']} k={row['k']} {row['kind']}"
    return f"{words}, {row['effort']} rescored" if row["effort"] else words


def front(rows: Iterable[Row]) -> list[Row]:
    """Rows that no smaller one beats in quality, from the smallest to the best."""
    found: list[Row] = []
    for row in sorted(rows, key=lambda r: (r["ram_row_bytes"], -r["ndcg@10_delta"])):
        if not found or row["ndcg@10_delta"] > found[-1]["ndcg@10_delta"]:
            found.append(row)
    return found


def shared_sets(rows: Sequence[Row], model: str) -> list[str]:
    """Sets of a model on which all its kinds of codes were measured.

    Some quantisers train for minutes, so a large set may lack them.
    """
    mine = [r for r in rows if r["model"] == model and "error" not in r and not r["effort"]]
    sets: dict[tuple[str, Any], set[str]] = {}
    for row in mine:
        if row["method"] in METHODS:
            sets.setdefault((row["method"], row.get("kind")), set()).add(row["set"])
    common = set.intersection(*sets.values()) if sets else set()
    return [name for name, m in tasks(rows) if m == model and name in common]


def mean_by_method(
    rows: Sequence[Row], model: str, names: Collection[str] | None = None
) -> list[Row]:
    """Rows of one model averaged over its sets, or those of these names.

    Only methods measured on all of them are included, distinguished by name, size, kind, k and
    effort; candidates that depend on the size of a set are left out.
    """
    sets = {r["set"] for r in rows if r["model"] == model and (names is None or r["set"] in names)}
    grouped: dict[Any, list[Row]] = {}
    for row in rows:
        if row["model"] != model or row["set"] not in sets:
            continue
        if "error" not in row and row.get("compression"):
            key = [row.get(n) for n in ("method", "k", "beta", "gamma", "kind", "effort")]
            grouped.setdefault(tuple(key), []).append(row)
    means = []
    for members in grouped.values():
        if {r["set"] for r in members} == sets:
            deltas = [r["ndcg@10_delta"] for r in members]
            mean = {"ndcg@10_delta": sum(deltas) / len(deltas), "worst_delta": min(deltas)}
            means.append(members[0] | mean)
    return means


def lines_of(means: Sequence[Row]) -> list[Row]:
    """Rows of each method's line: the best of every size, if answers are rescored.

    By codes alone, only rows that no smaller one of the method beats.
    """
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in means:
        lines.setdefault((row["method"], stage(row)), []).append(row)
    shown = []
    for (_, how), line in lines.items():
        if how == CODES_ONLY:
            shown += front(line)
        else:
            best = {r["ram_row_bytes"]: r for r in sorted(line, key=lambda r: r["ndcg@10_delta"])}
            shown += best.values()
    return shown


def codes_at(means: Sequence[Row], of: int) -> list[Row]:
    """Codes alone of about 1/of, the best of each method, best first.

    slimdex's setting is fixed, not chosen by the labels: half the dimensions, default beta and
    gamma, and the kind in `CODES` for the size.
    """
    best: dict[str, Row] = {}
    for row in means:
        fits = of / 1.5 <= row["compression"] < of * 4 / 3  # RaBitQ's 1/27 counts as 1/32
        if row["effort"] or not fits or row["method"] not in METHODS or row.get("kind") == "flat":
            continue
        if row["method"] == SLIMDEX:
            kind = CODES[of].format(half=part(row["dim"], 2), eighth=part(row["dim"], 2) // 4)
            if (row["k"], row["kind"]) != (part(row["dim"], 2), kind):
                continue
        kept = best.get(row["method"])
        if kept is None or row["ndcg@10_delta"] > kept["ndcg@10_delta"]:
            best[row["method"]] = row
    return sorted(best.values(), key=lambda r: -r["ndcg@10_delta"])


def fastest_at(rows: Sequence[Row], least: float = FASTEST_AT, by: str = "p50_ms_one") -> list[Row]:
    """Fastest row of each method that reaches the agreement, by a median.

    If none does, the row that is nearest to it.
    """

    def rank(row: Row) -> tuple[float, float]:
        return max(least - row["agreement@10"], 0.0), row[by]

    best: dict[str, Row] = {}
    for row in (r for r in rows if "error" not in r):
        if row["method"] not in best or rank(row) < rank(best[row["method"]]):
            best[row["method"]] = row
    return sorted(best.values(), key=lambda r: r[by])


def resident_bytes(row: Row) -> float:
    """Bytes per vector in memory, with its share of the fixed cost, as the index reports.

    If the index does not report them, the growth of the process, including pages of mapped files.
    """
    if not is_told(row):
        return float(row["process_row_bytes"] + row["process_files_row_bytes"])
    return float(row["ram_row_bytes"] + (row["ram_fixed_bytes"] or 0) / row["documents"])


def is_told(row: Row) -> bool:
    """Return whether the index reports its own size."""
    return row["ram_row_bytes"] is not None
