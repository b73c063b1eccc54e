"""Facts about an index: `slimdex info`, `health` and `eval`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.errors import InputError
from slimdex.indexes.options import AUTO

from . import console
from .click_commands import Answer
from .options import Dir, Labels, OpenOptions, open_index

if TYPE_CHECKING:
    from ..index import Index
    from ..ingest.addition_report import AdditionReport
    from ..quality.labels import Qrels

CERTIFICATE_STATES = {
    "holds": "which still holds",
    "not proved": "which is no longer proved: the lower bound is below it",
    "broken": "which no longer holds: agreement@10 is below it",
    None: "by queries that were given, which can't be compared with these",
}
"""Verdicts on the certified agreement, in words."""


@dataclass(frozen=True)
class LabelOptions:
    """Queries to measure quality with: labelled, or made of the documents."""

    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None
    qrels: Labels = None
    drop_self: Annotated[bool, "Leave out the document that has the query's own id."] = False
    sample: Annotated[int, "Without labels: how many queries to make of the documents."] = 500

    def read(self) -> tuple[list[tuple[str, str]], Qrels] | None:
        """Read the queries and their labels; None without --queries or without --qrels."""
        if self.queries is None or self.qrels is None:
            return None
        # Loads readers of all formats, which --self does without.
        from ..quality.labels import read_qrels
        from ..sources.source import read_pairs

        return read_pairs(str(self.queries)), read_qrels(self.qrels)


def info(index: Dir, *, opening: OpenOptions) -> Answer:
    """Show what an index holds, how it was made and what it costs."""
    from ..quality.info import facts  # loads numpy and FAISS, as opening an index does

    report = open_index(index, opening).read(facts)

    def show() -> None:
        for line in report.pop("notes"):
            console.note(line)
        console.show_pairs(info_lines(report))

    return Answer(report, show)


def health(
    index: Dir,
    *,
    sample: Annotated[int, "Queries made of the documents: more give a closer bound."] = 2000,
    opening: OpenOptions,
) -> Answer:
    """Measure how far the documents are from those the index was fitted on, and what that costs."""
    # Loads what measures an index, for which `info` need not wait.
    from ..quality.health import health as measure

    opened = open_index(index, opening)
    with console.progress():
        report = measure(opened, sample)

    return Answer(report, lambda: console.show_pairs(health_lines(report, opened.snapshot.noun)))


def evaluate(
    index: Dir,
    *,
    labels: LabelOptions,
    by_itself: Annotated[
        bool, "--self", "Without labels: take sentences of the documents as queries."
    ] = False,
    opening: OpenOptions,
) -> Answer:
    """Measure quality, time and memory, compared with uncompressed exact search."""
    # As for `health`.
    from ..quality.evaluation import evaluate as measure
    from ..quality.evaluation import evaluate_self

    # --self excludes both files; without it, both are required.
    if by_itself != (labels.queries is None) or by_itself != (labels.qrels is None):
        raise InputError("eval: expected either --queries and --qrels, or --self")
    queries_and_labels = labels.read()
    opened = open_index(index, opening)
    with console.progress():
        if queries_and_labels:
            report = measure(opened, *queries_and_labels, drop_self=labels.drop_self)
        else:
            report = evaluate_self(opened, sample=labels.sample)
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
        "file_notes": added.file_notes,
    }


def info_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return names and values in words, for the facts of `Collection.info` that have a value.

    >>> info_lines({"settings": {"k": 192, "beta": 0.0, "candidates": None}, "certificate": None})
    {'settings': 'k=192, beta=0, candidates=auto'}
    """
    # Make the values readable: auto instead of None, for instance, and no fingerprint.
    shown = dict(facts)
    for name in ("settings", "requested"):
        settings = facts.get(name) or {}
        shown[name] = {key: AUTO if value is None else value for key, value in settings.items()}
    if certificate := facts.get("certificate"):
        shown["certificate"] = certificate["said"]
    if encoder := facts.get("encoder"):
        shown["encoder"] = dict(encoder)
        shown["encoder"].pop("fingerprint", None)
        if "prompts" in encoder:
            shown["encoder"]["prompts"] = [*map(repr, encoder["prompts"])]

    # Keep the order of the facts.
    lines = {}
    for name in facts:
        value = _plain(shown[name])
        if value:
            lines[name] = value
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


def health_lines(report: Mapping[str, Any], noun: str = "documents") -> dict[str, str]:
    """Return names and values in words, for the report of `Collection.health`.

    `noun` is what it counts: documents, or passages if texts are cut.
    """
    variance = report["variance_kept"]
    error = report["code_error"]
    agreement = report["agreement"]
    new_rows = report["rows_since_fit"]
    lines = {
        noun: f"{report['rows']:,}, of which {new_rows:,} came after the fit",
        "variance kept": _now_and_then(variance["now"], variance["at_fit"]),
        "code error": _now_and_then(error["old_rows"], error["at_fit"]),
        f"of new {noun}": _figure(error["new_rows"]),
        "agreement@10": (
            f"{agreement['estimate']:.4f} with exact search, at least {agreement['bound']:.4f} "
            f"with {100 * (1 - agreement['error']):.4g}% confidence, by "
            f"{agreement['queries']:,} queries: {agreement['pool']}"
        ),
    }

    # Leave out what does not apply, and add what is known.
    if not new_rows:
        del lines[f"of new {noun}"]
    if variance.get("refitted") is not None:
        lines["variance kept"] += f"; {variance['refitted']:.3f} by a new fit"
    if report["certified"] is not None:
        lines["certified"] = f"{report['certified']:.4g}, {CERTIFICATE_STATES[report['verdict']]}"
    return lines


def _figure(value: float | None) -> str:
    """Format a figure of the health report; None is unknown."""
    return "not known" if value is None else f"{value:.3f}"


def _now_and_then(now: float | None, then: float | None) -> str:
    """Format a figure, and that of the fit.

    >>> _now_and_then(0.8262, 0.9209), _now_and_then(0.8262, None), _now_and_then(None, None)
    ('0.826, and 0.921 at the fit', '0.826, and not known at the fit', 'not known')
    """
    return _figure(now) + ("" if now is None else f", and {_figure(then)} at the fit")


def show_evaluation(report: Mapping[str, Any]) -> None:
    """Print what a search finds and costs beside exact search."""
    from ..quality.evaluation import COLUMNS, LABELS  # loaded: it made the report
    from ..store.state import SENTENCE

    console.line(f"{report['queries']:,} queries, {report['documents']:,} documents")
    console.line("")
    console.show_measures({name: report[name] for name in COLUMNS if name in report}, LABELS)
    if proved := report.get("proved"):
        console.line("")
        console.prose(
            f"Proved: agreement@10 with exact search at least {proved['bound']:.4f} with "
            f"{100 * (1 - proved['error']):.4g}% confidence, by {report['queries']:,} queries: "
            f"{proved['pool']}; {SENTENCE}."
        )
