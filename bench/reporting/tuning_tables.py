"""Tables of `slimdex bench tune`: choice, target, coverage and growth, every set by every model."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, difference, number, text

Rows = Sequence[Row]


def tuning(rows: Rows) -> list[Table]:
    """A table for each part that has rows."""
    parts = {
        "metric": _metric,
        "target": _target,
        "coverage": _coverage,
        "growth": _growth,
    }
    made = [
        table(mine)
        for part, table in parts.items()
        if (mine := [row for row in rows if row["what"] == part])
    ]
    return [table for table in made if table.rows]


def _by_task(rows: Rows) -> dict[tuple[str, str], dict[str, Row]]:
    """Set and model -> way -> row."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["set"], row["model"]), {})[row["way"]] = row
    return found


def _names(task: tuple[str, str]) -> list[Cell]:
    return [text(name) for name in task]


def _metric(rows: Rows) -> Table:
    """(beta, gamma) of each way, judged by queries that did not choose it."""
    heads = ["set", "model", "queries", "default", "chosen without labels", "difference"]
    heads += ["chosen by labels", "difference", "best", "difference"]
    lines = []
    for task, ways in _by_task(rows).items():
        line = [*_names(task), number(ways["default"]["queries"], ",d")]
        line.append(number(ways["default"]["ndcg@10"], ".2f"))
        for way in ("unlabelled", "labels", "oracle"):
            row = ways[way]
            line += [text(f"({row['beta']:g}, {row['gamma']:g})"), difference(row)]
        lines.append(line)
    note = "nDCG@10 by exact search; differences from the default (0, 0.25)"
    return Table("beta and gamma", note, heads, lines)


def _target(rows: Rows) -> Table:
    """What is chosen for an agreement of .99, and the least that real queries need."""
    heads = ["set", "model", "", "k", "candidates", "kB in memory", "proved", "real agreement"]
    heads += ["nDCG@10"]
    lines = []
    for task, ways in _by_task(rows).items():
        for way, row in ways.items():
            if "error" in row:
                lines.append([*_names(task), text(way), *[Cell("", "")] * 3, text("nothing")])
                lines[-1] += [Cell("", "")] * 2
                continue
            lines.append(
                [
                    *_names(task),
                    text(f"{way}: {row['kind']}"),
                    number(row["k"], "d"),
                    number(row["candidates"], ",d"),
                    number(row["ram_bytes"] / 1e3, ",.0f"),
                    number(row.get("bound"), ".4f"),
                    number(row["recall@10_total"], ".4f"),
                    number(row["ndcg@10"], ".2f"),
                ]
            )
    return Table("An agreement of 0.99", "real queries, which tuning did not see", heads, lines)


def _coverage(rows: Rows) -> Table:
    """Each set's trials together."""
    heads = ["set", "model", "queries made of", "trials", "bound too high", "real agreement"]
    heads += ["less the mean bound"]
    lines = []
    for task in dict.fromkeys((row["set"], row["model"]) for row in rows):
        mine = [row for row in rows if (row["set"], row["model"]) == task]
        trials, high = (sum(row[name] for row in mine) for name in ("trials", "too_high"))
        found = [row["recall@10_total"] for row in mine]
        room = [row["recall@10_total"] - row["bound"] for row in mine]
        lines.append(
            [
                *_names(task),
                text(mine[0]["way"].split(",")[0]),
                number(trials, ",d"),
                number(high / trials, ".2%"),
                Cell(f"{min(found):.3f} to {max(found):.3f}", min(found)),
                Cell(f"{min(room):.3f} to {max(room):.3f}", min(room)),
            ]
        )
    return Table("Coverage of the bound", "500 queries each, 95%", heads, lines)


def _growth(rows: Rows) -> Table:
    """An index fitted on a twentieth, by topic, after the rest was added."""
    heads = ["set", "model", "refit", "fitted anew", "agreement of its own", "lost, measured"]
    heads += ["lost, by health", "nDCG@10", "difference from fresh"]
    told = _by_task(rows)
    fitted = {task: ways for task, ways in told.items() if "loss_said" in ways["never"]}
    lines = [
        [
            *_names(task),
            text(way),
            text("yes" if row["refitted"] else "no"),
            number(row["recall@10_total"], ".4f"),
            number(row["loss"], ".4f"),
            number(row.get("loss_said"), ".4f"),
            number(row["ndcg@10"], ".2f"),
            difference(row),
        ]
        for task, ways in fitted.items()
        for way, row in ways.items()
    ]
    note = "fitted on a twentieth, of one topic"
    if few := len(told) - len(fitted):
        note += f"; {few} others had too few documents at first, and are fitted anew in any case"
    return Table("Growth", note, heads, lines)
