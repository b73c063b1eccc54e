"""Facts about an index: `slimdex info` and `eval`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.errors import counted

from . import console
from .click_commands import Answer
from .options import Dir, Labels, OpenOptions, open_index, user_queries

if TYPE_CHECKING:
    from ..index import Index
    from ..ingest.addition_report import AdditionReport

HEALTH_QUERIES = 2000
"""Queries of `info --health`: the agreement is within .01 of its limit in 19 of 20 cases."""


def info(
    index: Dir,
    *,
    health: Annotated[
        bool,
        "Also measure how far the documents are from those of the fit, and what that costs: a "
        "pass over all vectors.",
    ] = False,
    opening: OpenOptions,
) -> Answer:
    """Show what an index holds, how it was made and what it costs."""
    from ..quality.info import facts  # loads numpy and FAISS, as opening an index does

    opened = open_index(index, opening)
    report = opened.read(facts)
    if health:
        from ..quality.health import health as measure  # loads what measures an index

        with console.progress():
            report["health"] = measure(opened, HEALTH_QUERIES)

    def show() -> None:
        for line in report.pop("notes"):
            console.note(line)
        console.show_pairs(info_lines(report | report.pop("health", {})))

    return Answer(report, show)


def evaluate(
    index: Dir,
    *,
    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None,
    qrels: Labels = None,
    drop_self: Annotated[bool, "Leave out the document that has the query's own id."] = False,
    opening: OpenOptions,
) -> Answer:
    """Measure quality, time and memory, compared with uncompressed exact search.

    Without labelled queries, it makes queries of the documents.
    """
    # Loads what measures an index, for which `info` need not wait.
    from ..quality.evaluation import evaluate as measure
    from ..quality.evaluation import evaluate_self

    labelled = user_queries(queries, qrels)
    opened = open_index(index, opening)
    with console.progress():
        if labelled:
            report = measure(opened, labelled.queries, labelled.labels or {}, drop_self=drop_self)
        else:
            report = evaluate_self(opened)
    return Answer(report, partial(show_evaluation, report))


def facts_after(index: Index, added: AdditionReport) -> dict[str, Any]:
    """Print the notes of an addition; returns the facts of `Collection.info` with its counts."""
    from ..quality.info import facts  # loaded with the change before

    for line in added.notes:
        console.note(line)
    return index.read(facts) | {
        "added": added.documents,
        "replaced": added.replaced,
        "unchanged": added.unchanged,
        "refitted": added.refitted,
        "unread": added.unread,
        "file_notes": added.file_notes,
    }


def info_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return names and values in words, for the facts of `Collection.info` that have a value.

    >>> info_lines({"settings": {"k": 192, "beta": 0.0}, "certificate": None})
    {'settings': 'k=192, beta=0'}
    """
    lines = {}
    for name, value in facts.items():
        if name == "certificate" and value:
            value = value["said"]
        if text := _plain(value):
            lines[name] = text
    return lines


def _plain(value: Any) -> str:
    """Format a value in words.

    >>> _plain({"model": "m", "revision": None, "cut": True, "head": ["Dense", "Norm"], "n": 1800})
    'model=m, cut=yes, head=Dense Norm, n=1,800'
    >>> _plain(0.1234567), _plain(1953.7), _plain(None)
    ('0.1235', '1,954', '')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={_plain(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else str(value)


def show_evaluation(report: Mapping[str, Any]) -> None:
    """Print what a search finds and costs beside exact search."""
    from ..quality.evaluation import COLUMNS, LABELS  # loaded: it made the report
    from ..quality.recall_trials import SENTENCE

    documents = counted(report["documents"], "document")
    console.line(f"{report['queries']:,} queries, {documents}")
    console.line("")
    columns = [name for name in COLUMNS if name in report]
    rows = []
    for measure in report[columns[0]]:
        numbers = [_plain(report[column][measure]) for column in columns]
        rows.append((LABELS.get(measure, measure), *numbers))
    console.show_table(["", *columns], rows)
    if proved := report.get("proved"):
        console.line("")
        console.prose(
            f"Proved: agreement@10 with exact search at least {proved['bound']:.4f} with "
            f"{100 * (1 - proved['error']):.4g}% confidence, by {report['queries']:,} queries: "
            f"{proved['pool']}; {SENTENCE}."
        )
