"""`slimdex info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions
from ...options.quality import LabelOptions

if TYPE_CHECKING:
    from slimdex.retrieval.open_index import OpenIndex


def info(
    index: Dir,
    *,
    by_step: Annotated[
        bool,
        "--losses",
        "Show what each step finds and loses, from full vectors to codes: by --queries "
        "and --qrels, or by a --sample of the documents.",
    ] = False,
    labels: LabelOptions,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Show what an index holds, how it was made and what it costs; or where quality is lost."""
    from slimdex.retrieval.encoders.choice.known_models import successor
    from slimdex.retrieval.operations.commands import Info

    from ... import reports

    if (labels.queries is None) != (labels.qrels is None) or (labels.queries and not by_step):
        raise InputError("info: expected --queries and --qrels with --losses, or neither")
    at = Index(index, opening)
    if by_step:
        with at.opened() as collection:
            _losses(collection, labels, as_json)
        return
    facts = at.do(Info())
    if as_json:
        console.print_json(facts)
        return
    for line in facts.pop("notes"):
        console.note(line)
    if (better := successor(str(facts["encoder"].get("model")))) is not None:
        console.note(f"{better.name} scores {better.score} on BEIR: see `slimdex models`")
    console.show_pairs(reports.info_lines(facts))


def _losses(core: OpenIndex, labels: LabelOptions, as_json: bool) -> None:
    from slimdex.retrieval.quality.evaluation.ablation import losses

    from ... import loss_report

    given = labels.read() or (None, None)
    with console.progress():
        report = losses(core, *given, drop_self=labels.drop_self, sample=labels.sample)
    if as_json:
        console.print_json(report)
        return
    console.line(
        f"{report['queries']:,} queries ({report['pool']}), {report['documents']:,} documents"
    )
    console.line("")
    console.show_table(loss_report.loss_heads(report), loss_report.loss_rows(report))
    console.line("")
    for text in loss_report.loss_explanations(report):
        console.prose(text)
