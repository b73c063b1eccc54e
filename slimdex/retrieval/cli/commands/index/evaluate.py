"""`slimdex eval`."""

from __future__ import annotations

from typing import Annotated, Any

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions
from ...options.quality import LabelOptions


def evaluate(
    index: Dir,
    *,
    labels: LabelOptions,
    by_itself: Annotated[
        bool, "--self", "Without labels: take sentences of the documents as queries."
    ] = False,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Measure quality, time and memory, compared with uncompressed exact search."""
    from slimdex.retrieval.quality.evaluation.measures import evaluate as measure
    from slimdex.retrieval.quality.evaluation.measures import evaluate_self

    if by_itself != (labels.queries is None) or by_itself != (labels.qrels is None):
        raise InputError("eval: expected either --queries and --qrels, or --self")
    given = labels.read()
    with Index(index, opening).opened() as collection, console.progress():
        if given:
            report = measure(collection, *given, drop_self=labels.drop_self)
        else:
            report = evaluate_self(collection, sample=labels.sample)
    if as_json:
        console.print_json(report)
    else:
        _show(report)


def _show(report: dict[str, Any]) -> None:
    from slimdex.retrieval.quality.evaluation.measures import COLUMNS, LABELS, explained

    console.line(f"{report['queries']:,} queries, {report['documents']:,} documents")
    console.line("")
    console.show_measures({name: report[name] for name in COLUMNS if name in report}, LABELS)
    console.line("")
    for text in explained(report):
        console.prose(text)
