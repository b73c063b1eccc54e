"""Facts about an index: `slimdex info`, `health` and `eval`."""

from __future__ import annotations

from typing import Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions
from ...options.quality import LabelOptions


def info(
    index: Dir,
    *,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Show what an index holds, how it was made and what it costs."""
    from ... import reports

    facts = Index(index, opening).do(lambda collection: collection.info())
    if as_json:
        console.print_json(facts)
        return
    for line in facts.pop("notes"):
        console.note(line)
    console.show_pairs(reports.info_lines(facts))


def health(
    index: Dir,
    *,
    sample: Annotated[int, "Queries made of the documents: more give a closer bound."] = 2000,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Measure how far the documents are from those the index was fitted on, and what that costs."""
    from ...reports import health_lines

    opened = Index(index, opening)
    report = opened.do(lambda collection: collection.health(sample=sample))
    if as_json:
        console.print_json(report)
        return
    console.show_pairs(health_lines(report, opened.opened().index.snapshot.noun))
    for line in report["advice"]:
        console.note(line)


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

    from ... import reports

    if by_itself != (labels.queries is None) or by_itself != (labels.qrels is None):
        raise InputError("eval: expected either --queries and --qrels, or --self")
    given = labels.read()
    with Index(index, opening).opened() as collection, console.progress():
        if given:
            report = measure(collection.index, *given, drop_self=labels.drop_self)
        else:
            report = evaluate_self(collection.index, sample=labels.sample)
    if as_json:
        console.print_json(report)
    else:
        reports.show_evaluation(report)
