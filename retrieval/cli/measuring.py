"""Measuring commands: what an index holds, finds, loses and could find, each a command of `app`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import P99, Agreement, Dir, Disk, Json, Model, Ram, Trust, Wait

if TYPE_CHECKING:
    from ..collection.open_index import OpenIndex
    from ..collection.targets import Target


def info(
    index: Dir,
    by_step: Annotated[
        bool,
        typer.Option(
            "--losses", help="Show what each step finds and loses, from full vectors to codes."
        ),
    ] = False,
    queries: Annotated[
        Path | None, typer.Option(help="With --losses: queries that have labels, as for eval.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="With --losses: labels of the queries, as for eval.")
    ] = None,
    drop_self: Annotated[
        bool,
        typer.Option("--drop-self", help="Leave out the document that has the query's own id."),
    ] = False,
    sample: Annotated[
        int,
        typer.Option(
            help="With --losses, without labels: how many queries to make of the documents."
        ),
    ] = 500,
    model: Model = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Show what an index holds, how it was made and what it costs; or where quality is lost."""
    from slimdex.indexes.errors import InputError

    from ..collection.collection import Collection
    from ..commands import Info
    from . import console
    from .performing import Index
    from .reports import info_lines

    if (queries is None) != (qrels is None) or (queries and not by_step):
        raise InputError("info: expected --queries and --qrels with --losses, or none of the two")
    if by_step:
        opened = Collection.open(
            index, read_only=True, model=model, trust_remote_code=trust_remote_code, wait=wait
        )
        with opened as collection:
            _losses(collection.core, queries, qrels, drop_self, sample, as_json)
        return
    at = Index(index, wait, model=model, trust_remote_code=trust_remote_code)
    facts = at.do(Info())
    if as_json:
        console.print_json(facts)
    else:
        for line in facts.pop("notes"):
            console.note(line)
        console.show_pairs(info_lines(facts))


def health(
    index: Dir,
    sample: Annotated[
        int, typer.Option(help="Queries made of the documents: more give a closer bound.")
    ] = 2000,
    model: Model = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Measure how far the documents are from those the index was fitted on, and what that costs."""
    from ..commands import Health
    from . import console
    from .performing import Index
    from .reports import health_lines

    at = Index(index, wait, model=model, trust_remote_code=trust_remote_code)
    report = at.do(Health(sample))
    noun = report.pop("noun")
    if as_json:
        console.print_json(report)
    else:
        console.show_pairs(health_lines(report, noun))
        for line in report["advice"]:
            console.note(line)


def tune(
    index: Dir,
    agreement: Agreement = None,
    ram: Ram = None,
    disk: Disk = None,
    p99_ms: P99 = None,
    queries: Annotated[
        Path | None,
        typer.Option(help="Real queries, as from a log: .txt with one per line, or any source."),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(help="Labels of the queries: query, document, score (BEIR or TREC)."),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Apply the settings to the index, and record what is proved."),
    ] = False,
    model: Model = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Find the settings of least memory that agree with exact search, and prove that they do."""
    from slimdex.indexes.errors import InputError

    from ..collection.collection import Collection
    from ..evaluation import read_qrels
    from ..sources.source import read_pairs
    from . import console
    from .tuned import show_tuning

    if qrels is not None and queries is None:
        raise InputError("tune: --qrels without --queries; expected both")
    target = target_asked(agreement, ram, disk, p99_ms)
    labels = read_qrels(qrels) if qrels else None
    asked = read_pairs(str(queries)) if queries else None
    opened = Collection.open(
        index, read_only=not apply, model=model, trust_remote_code=trust_remote_code, wait=wait
    )
    with opened as collection, console.progress():
        tuning = collection.tune(target, queries=asked, labels=labels, apply=apply)
    if as_json:
        console.print_json(tuning.as_dict())
        return
    show_tuning(tuning)
    if tuning.chosen is not None:
        console.line(
            f"{index} has these settings now" if apply else "the same with --apply puts it in force"
        )


def evaluate(
    index: Dir,
    queries: Annotated[Path | None, typer.Option(help="Queries: any source with ids.")] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Labels: query, document, score (BEIR or TREC).")
    ] = None,
    drop_self: Annotated[
        bool,
        typer.Option("--drop-self", help="Leave out the document that has the query's own id."),
    ] = False,
    by_itself: Annotated[
        bool,
        typer.Option("--self", help="Without labels: take sentences of the documents as queries."),
    ] = False,
    sample: Annotated[
        int, typer.Option(help="With --self: how many queries to make of the documents.")
    ] = 500,
    model: Model = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Measure quality, time and memory, compared with uncompressed exact search."""
    from slimdex.indexes.errors import InputError

    from ..collection.collection import Collection
    from ..evaluation import LABELS, evaluate_self, explained, read_qrels
    from ..evaluation import evaluate as measure
    from ..sources.source import read_pairs
    from . import console

    if by_itself != (queries is None) or by_itself != (qrels is None):
        raise InputError("eval: expected either --queries and --qrels, or --self")
    labelled = (read_pairs(str(queries)), read_qrels(qrels)) if queries and qrels else None
    opened = Collection.open(
        index, read_only=True, model=model, trust_remote_code=trust_remote_code, wait=wait
    )
    with opened as collection, console.progress():
        if labelled:
            report = measure(collection.core, *labelled, drop_self=drop_self)
        else:
            report = evaluate_self(collection.core, sample=sample)
    if as_json:
        console.print_json(report)
    else:
        console.line(f"{report['queries']:,} queries, {report['documents']:,} documents")
        console.out.print()
        console.show_measures({name: report[name] for name in ("index", "exact")}, LABELS)
        console.out.print()
        for text in explained(report):
            console.prose(text)


def target_asked(
    agreement: float | None, ram: str | None, disk: str | None, p99_ms: float | None = None
) -> Target:
    """What `--agreement`, `--ram`, `--disk` and `--p99-ms` say."""
    from ..collection.targets import Target
    from .sizes import parsed_size

    return Target(
        Target.agreement if agreement is None else agreement,
        None if ram is None else parsed_size(ram, "--ram"),
        None if disk is None else parsed_size(disk, "--disk"),
        p99_ms,
    ).checked()


def _losses(
    core: OpenIndex,
    queries: Path | None,
    qrels: Path | None,
    drop_self: bool,
    sample: int,
    as_json: bool,
) -> None:
    from ..evaluation import read_qrels
    from ..losses import losses
    from ..sources.source import read_pairs
    from . import console
    from .reports import loss_explanations, loss_heads, loss_rows

    asked = (read_pairs(str(queries)), read_qrels(qrels)) if queries and qrels else (None, None)
    with console.progress():
        report = losses(core, *asked, drop_self=drop_self, sample=sample)
    if as_json:
        console.print_json(report)
        return
    console.line(
        f"{report['queries']:,} queries ({report['pool']}), {report['documents']:,} documents"
    )
    console.out.print()
    console.show_table(loss_heads(report), loss_rows(report))
    console.out.print()
    for text in loss_explanations(report):
        console.prose(text)
