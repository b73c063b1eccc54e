"""Verdicts: summaries of rows in a sentence, for the page and the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ..experiments.cold_study import CACHED, DROPPED
from ..experiments.measured_methods import UNCOMPRESSED
from ..experiments.similarity_study import TARGET
from ..rows import Row
from ..starting.start_study import PACKAGES, SEARCH
from .findings import (
    FASTEST_AT,
    SLIMDEX,
    default_row,
    fastest_at,
    of_task,
    resident_bytes,
    tasks,
    uncompressed_row,
)
from .tables.lists import fastest_of
from .tables.table import failures, grouped

AUTO = "slimdex auto"


def retrieval_line(rows: Sequence[Row]) -> str:
    """Verdict on one set, or the reason why there is none."""
    return verdict(rows, ()) or _no_result(rows)


def peers_line(rows: Sequence[Row]) -> str:
    """Verdict on one set compared with peers, or the reason why there is none."""
    return verdict((), rows) or _no_result(rows)


def _no_result(rows: Sequence[Row]) -> str:
    said = failures([row for row in rows if SLIMDEX in row["method"]], "method")
    return f"{rows[0]['set']}: no result{said}"


def tune_line(rows: Sequence[Row]) -> str:
    """Main figure of each part that was measured."""
    found = {(row["what"], row["way"]): row for row in rows if "error" not in row}
    said = []
    if usual := found.get(("metric", "default")):
        ways = [("unlabelled", "without labels"), ("labels", "with labels"), ("oracle", "best")]
        gains = [f"{found['metric', way]['ndcg@10_delta']:+.2f} {name}" for way, name in ways]
        said.append(f"nDCG@10 {usual['ndcg@10']:.2f} by default, {', '.join(gains)}")
    if tuned := found.get(("target", "tuned")):
        said.append(
            f"proved {tuned['bound']:.4f} with {tuned['ram_bytes']:,} bytes, real queries find "
            f"{tuned['recall@10_total']:.4f}"
        )
    trials = [row for row in rows if row["what"] == "coverage"]
    if trials:
        high, count = (sum(row[name] for row in trials) for name in ("too_high", "trials"))
        said.append(f"bound too high in {high:,} of {count:,} trials")
    return f"{rows[0]['set']}: {'; '.join(said) or 'nothing reaches the target'}"


def lists_line(rows: Sequence[Row]) -> str:
    """Fastest of each kind of index, as measured last."""
    *_, last = grouped(rows, "documents", "queries_of").values()
    kinds = grouped(last, "method").values()
    best = sorted(map(fastest_of, kinds), key=lambda row: float(row["p50_ms"]))
    said = (f"{row['method']} {row['p50_ms']:.2f} ms at {row['agreement@10']:.4f}" for row in best)
    return f"{last[0]['set']}, {last[0]['documents']:,} documents: {', '.join(said)}"


def search_line(rows: Sequence[Row]) -> str:
    """Time of slimdex from a text to documents, and of the fastest other store at the agreement."""
    told = sorted((row for row in rows if "error" not in row), key=_whole_time)
    own = [row for row in told if row["method"].startswith(SLIMDEX)]
    if not own:
        return f"{rows[0]['set']}: no result, {SLIMDEX} failed or was not measured"
    ours = next((row for row in own if row["method"] == SLIMDEX), own[0])
    over = _whole_time(ours) - ours["p50_ms_encode_one"]
    line = f"{ours['set']}: {ours['method']} takes {_whole_time(ours):.2f} ms from a text to"
    line += f" documents, {over:.2f} more than encoding it, and {_held(ours)} MB beside the encoder"
    others = [row for row in told if not row["method"].startswith(SLIMDEX)]
    reached = [row for row in others if row["agreement@10"] >= FASTEST_AT]
    if not reached:
        return line
    best = reached[0]
    line += f"; the fastest other at agreement {FASTEST_AT:g}, {best['method']},"
    return f"{line} {_whole_time(best):.2f} ms and {_held(best)} MB"


def default_line(row: Row) -> str:
    """Summary of a row of `bench search` for the default index; "" for others.

    Older rows, which have no `code_bytes`, were measured without words and passages.
    """
    if row["method"] != SLIMDEX or row["effort"] or not row.get("code_bytes"):
        return ""
    held = ("memory", "memory_files", "store", "store_files")
    whole, files, grown, grown_files = (f"{row[f'{name}_bytes'] / 1e6:,.0f}" for name in held)
    return (
        f"With {row['model']}, a search of the {row['documents']:,} documents of {row['set']} "
        f"takes **{_whole_time(row):.2f} ms from the text to its documents**, "
        f"{row['p50_ms_encode_one']:.2f} ms of it for encoding (medians, one thread of "
        f"{row['processor']}, load {row['load']:.1f} before). The codes of its {row['rows']:,} "
        f"passages take **{row['code_bytes'] / 1e6:.1f} MB** "
        f"({row['code_bytes'] / row['rows']:.0f} bytes each instead of float32's "
        f"{4 * row['dim']:,}), all that the index and its libraries hold in memory is **{grown} "
        f"MB**, and **{grown_files} MB** are pages of their files, which the system may drop. The "
        f"process, with Python and the encoder, holds {whole} MB and {files} MB of pages of files. "
        f"On disk a document takes {row['disk_row_bytes']:,.0f} bytes, with its text and words."
    )


def _whole_time(row: Row) -> float:
    return float(row["p50_ms_total_one"])


def _held(row: Row) -> str:
    """Megabytes of the library and its index, including pages of files."""
    return f"{(row['store_bytes'] + row['store_files_bytes']) / 1e6:,.0f}"


def cold_line(rows: Sequence[Row]) -> str:
    """Times of a query with files in memory and on disk, and bytes read."""
    told = {row["way"]: row for row in rows if "error" not in row and row["limit_bytes"] is None}
    if not {CACHED, DROPPED} <= set(told):
        return f"{rows[0]['set']}: no result, {rows[0].get('error', 'not measured')}"
    warm, best = told[CACHED], told[DROPPED]
    return (
        f"{best['set']}: from a text to documents {best['p50_ms_total']:.1f} ms with the index's"
        f" files dropped from memory, {warm['p50_ms_total']:.1f} with them there;"
        f" {best['read_query_bytes'] / 1e3:,.0f} KB are read from disk for a query"
    )


def encode_line(rows: Sequence[Row]) -> str:
    """Speed of slimdex by default, and of the fastest other encoder, of one model."""
    told = [row for row in rows if "error" not in row]
    ours = next((row for row in told if row["encoder"] == AUTO), None)
    if ours is None:
        return f"{rows[0]['model']}: no result, {AUTO} failed"
    line = f"{ours['model']}: slimdex encodes {ours['short_texts_per_s']:,.0f} short texts a second"
    line += f" and {ours['long_texts_per_s']:,.0f} long ones"
    others = [row for row in told if not row["encoder"].startswith(SLIMDEX)]
    if not others:
        return line
    best = max(others, key=lambda row: float(row["short_texts_per_s"]))
    short, long = (ours[n] / best[n] for n in ("short_texts_per_s", "long_texts_per_s"))
    return f"{line}, {short:.2f} and {long:.2f} times the rate of {best['encoder']}"


def sts_line(rows: Sequence[Row]) -> str:
    """A model's first pooling as it is, whitened, and cut to half, each fitted on the sets."""
    plain = next((row for row in rows if not row["fit"]), None)
    if plain is None:
        name = f"{rows[0]['model']}, {rows[0]['language']}"
        return f"{name}: no result, nothing without a reducer"
    count = len(plain["sets"])
    line = f"{plain['model']}, {plain['language']}: Spearman x 100 averages"
    line += f" {plain['average']:.2f} over {count} set{'s' if count > 1 else ''} with the vectors"
    line += f" as they are ({plain['pooling']})"
    half, width = round(plain["width"] / 8) * 4, plain["width"]
    ways = {(1.0, 1.0, None): "whitened", (0.0, 0.0, half): f"in {half} of {width} dimensions"}
    for (beta, gamma, k), how in ways.items():
        same = {"fit": TARGET, "reducer": "whitening", "pooling": plain["pooling"]}
        same |= {"beta": beta, "gamma": gamma, "k": k}
        found = next((r for r in rows if all(r[name] == v for name, v in same.items())), None)
        if found:
            change = found["average"] - plain["average"]
            line += f", {found['average']:.2f} {how} ({change:+.2f})"
    return line


def verdict(retrieval: Sequence[Row], peers: Sequence[Row]) -> str:
    """Quality, memory and time compared with float32, and with peers if there are any."""
    quality, speed = _quality(retrieval), _speed(peers) or _time(retrieval)
    if not quality:
        return speed and f"Slimdex: {speed}."
    return f"{quality}; {speed}."


def fine_print(retrieval: Sequence[Row]) -> str:
    """Bytes on disk, which the verdict leaves out."""
    disk = [ours["disk_row_bytes"] for _, ours in _pairs(retrieval)]
    if not disk:
        return ""
    low, high = f"{min(disk):,.0f}", f"{max(disk):,.0f}"
    size = low if low == high else f"{low} to {high}"
    return f"Beside that memory slimdex keeps {size} bytes a vector on disk."


def _quality(rows: Sequence[Row]) -> str:
    pairs = _pairs(rows)
    if not pairs:
        return ""
    begin = f"In 1/{pairs[0][1]['compression']:.0f} of float32's memory slimdex answers"
    if len(pairs) == 1:
        ((exact, ours),) = pairs
        how = {1: "better", 0: "as well", -1: "worse"}[_side(ours)]
        figures = f"nDCG@10 {ours['ndcg@10']:.2f} against {exact['ndcg@10']:.2f}"
        return f"{begin} {how} on {ours['set']} ({figures})"
    deltas = [ours["ndcg@10_delta"] for _, ours in pairs]
    better, same, worse = ([_side(ours) for _, ours in pairs].count(side) for side in (1, 0, -1))
    counts = f"better on {better or 'none'} of {len(pairs)} collections, as well on"
    counts += f" {same or 'none'} and worse on {worse or 'none'}"
    mean = f"{sum(deltas) / len(deltas):+.2f} points on average"
    return f"{begin} {counts} (nDCG@10 {mean}, {min(deltas):+.2f} to {max(deltas):+.2f})"


def _speed(rows: Sequence[Row]) -> str:
    """Speed on the largest collection with peers."""
    found = [of_task(rows, task) for task in tasks(rows)]
    mine = max(filter(None, found), key=lambda own: int(own[0]["documents"]), default=[])
    own, others, exact = _nearest(mine), _others(mine), uncompressed_row(mine)
    if own is None or exact is None:
        return ""
    said = f"it reaches agreement {own['agreement@10']:.3f} with exact search at most, in"
    if own["agreement@10"] >= FASTEST_AT:
        said = f"at agreement {FASTEST_AT:g} with exact search it answers in"
    float32 = f"{UNCOMPRESSED} takes {_costs(exact)}"
    if others:
        fastest = f"the fastest other, {others[0]['method']}, takes {_costs(others[0])}"
        float32 = f"{fastest} and {UNCOMPRESSED} {_costs(exact)}"
    return f"{said} {_costs(own)} bytes a vector, where {float32} {_place(exact)}"


def _time(rows: Sequence[Row]) -> str:
    """Time on the largest collection, if no peers were measured."""
    pairs = _pairs(rows)
    if not pairs:
        return ""
    exact, ours = max(pairs, key=lambda pair: int(pair[0]["documents"]))
    times = f"{ours['p50_ms_one']:.2f} ms, {UNCOMPRESSED}'s {exact['p50_ms_one']:.2f} ms"
    place = f"({exact['documents']:,} vectors, one thread)" if len(pairs) == 1 else _place(exact)
    return f"a query takes {times} {place}"


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Rows of the uncompressed search and default slimdex, of every set and model with both."""
    found = []
    for task in tasks(rows):
        mine = of_task(rows, task)
        exact, ours = uncompressed_row(mine), default_row(mine)
        if exact and ours:
            found.append((exact, ours))
    return found


def _nearest(mine: Sequence[Row]) -> Row | None:
    """Fastest setting of slimdex that reaches the agreement, or the one nearest to it."""
    own = [row for row in fastest_at(mine) if row["method"].startswith(SLIMDEX)]
    reached = [row for row in own if row["agreement@10"] >= FASTEST_AT]
    return reached[0] if reached else max(own, key=lambda r: float(r["agreement@10"]), default=None)


def _others(mine: Sequence[Row]) -> list[Row]:
    """Peers that reach the agreement, the fastest first."""
    reached = [row for row in fastest_at(mine) if row["agreement@10"] >= FASTEST_AT]
    return [r for r in reached if r["method"] != UNCOMPRESSED and SLIMDEX not in r["method"]]


def _costs(row: Row) -> str:
    return f"{row['p50_ms_one']:.2f} ms with {resident_bytes(row):,.0f}"


def _place(row: Row) -> str:
    return f"({row['set']}, {row['documents']:,} vectors, one thread)"


def _side(row: Row) -> int:
    """Return 1 if the 95% interval is above float32, -1 if it is below, 0 if it contains it."""
    return int(row["ndcg@10_low"] > 0) - int(row["ndcg@10_high"] < 0)


def hybrid_line(rows: Sequence[Row]) -> str:
    """Fusion that tuning chose, and its difference from exact search by meaning alone."""
    found = []
    for row in rows:
        if row["way"] == "auto":
            low, high = row["ndcg@10_low"], row["ndcg@10_high"]
            found.append(
                f"{row['what']}: auto is {row['fusion']}, {row['ndcg@10_delta']:+.1f} nDCG@10 "
                f"({low:+.1f} to {high:+.1f}), first right {row['first_share']:.1%}"
            )
    return "; ".join(found)


def migrate_line(rows: Sequence[Row]) -> str:
    """Share of the old encoder's quality that the largest samples' maps retain."""
    largest = max((row["share"] for row in rows), default=0)
    kept = [row["ndcg@10"] / row["old ndcg@10"] for row in rows if row["share"] == largest]
    if not kept:
        return "no result"
    return (
        f"maps fitted on {largest:.0%} of the documents retain {min(kept):.0%} to {max(kept):.0%} "
        f"of the old encoder's nDCG@10, by {len(kept)} pairs of encoders"
    )


def start_line(rows: Sequence[Row]) -> str:
    """Seconds of a search in a new process, by slimdex and by other libraries."""
    found = {row["method"]: row["start_s"] for row in rows if "error" not in row}
    if SEARCH not in found:
        return f"no result{failures(rows, 'method')}"
    others = [f"{name} {found[name]:.2f} s" for name in PACKAGES if name in found]
    said = f"{SEARCH} in a new process, {rows[0]['documents']:,} documents: {found[SEARCH]:.2f} s"
    return "; ".join([said, *others])
