"""Text and tables for the reports of `info`, `health`, `tune` and `migrate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slimdex.indexes.options import AUTO

from . import console

if TYPE_CHECKING:
    from ..quality.migration import Migration
    from ..quality.tuning.targets import Tuning

UNKNOWN = "not known"
VERDICTS = {
    "holds": "which still holds",
    "not proved": "which is no longer proved: the lower bound is below it",
    "broken": "which no longer holds: agreement@10 is below it",
    None: "by queries that were given, which can't be compared with these",
}
"""State of the certified agreement."""


def info_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return names and values in words, for the facts of `Collection.info` that have a value.

    >>> info_lines({"settings": {"k": 192, "beta": 0.0, "candidates": None}, "certificate": None})
    {'settings': 'k=192, beta=0, candidates=auto'}
    """
    chosen = {name: facts.get(name) or {} for name in ("settings", "requested")}
    shown = dict(facts) | {
        name: {key: AUTO if value is None else value for key, value in values.items()}
        for name, values in chosen.items()
    }
    if certificate := facts.get("certificate"):
        shown["certificate"] = certificate["said"]
    if encoder := facts.get("encoder"):
        shown["encoder"] = {key: value for key, value in encoder.items() if key != "fingerprint"}
        if "prompts" in encoder:
            shown["encoder"]["prompts"] = [repr(text) for text in encoder["prompts"]]
    lines = {name: _plain(shown[name]) for name in facts}
    return {name: line for name, line in lines.items() if line}


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

    >>> _now_and_then(0.8262, 0.9209), _now_and_then(0.8262, None), _now_and_then(None, None)
    ('0.826, and 0.921 at the fit', '0.826, and not known at the fit', 'not known')
    """
    kept, error, agreed = report["variance_kept"], report["code_error"], report["agreement"]
    since = report["rows_since_fit"]
    lines = {
        noun: f"{report['rows']:,}, of which {since:,} came after the fit",
        "variance kept": _now_and_then(kept["now"], kept["at_fit"]),
        "code error": _now_and_then(error["old_rows"], error["at_fit"]),
        f"of new {noun}": _figure(error["new_rows"]),
        "agreement@10": (
            f"{agreed['estimate']:.4f} with exact search, at least {agreed['bound']:.4f} with "
            f"{100 * (1 - agreed['error']):.4g}% confidence, by {agreed['queries']:,} queries: "
            f"{agreed['pool']}"
        ),
    }
    if not since:
        del lines[f"of new {noun}"]
    if kept.get("refitted") is not None:
        lines["variance kept"] += f"; {kept['refitted']:.3f} by a new fit"
    if report["certified"] is not None:
        lines["certified"] = f"{report['certified']:.4g}, {VERDICTS[report['verdict']]}"
    if (refit := report["refit"]) is not None:
        lines["after a new fit"] = (
            f"agreement@10 {refit['estimate']:.4f}, at least {refit['bound']:.4f}, in "
            f"{refit['seconds']:.1f} s; of the ten that it ranks first, "
            f"{refit['found_of_its_order']:.4f} are found now"
        )
    return lines


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _now_and_then(now: float | None, then: float | None) -> str:
    if now is None:
        return UNKNOWN
    return f"{now:.3f}, and {_figure(then)} at the fit"


def show_evaluation(report: Mapping[str, Any]) -> None:
    """Print what a search finds and costs beside exact search, and explain each measure."""
    from ..quality.evaluation.measures import COLUMNS, LABELS, explained

    console.line(f"{report['queries']:,} queries, {report['documents']:,} documents")
    console.line("")
    console.show_measures({name: report[name] for name in COLUMNS if name in report}, LABELS)
    console.line("")
    for text in explained(report):
        console.prose(text)


def show_tuning(tuning: Tuning) -> None:
    """Print a row for each measured setting, then the choice and its reason."""
    if tuning.tried:
        heads = ["kind", "k", "candidates", "bytes", "agreement", "at least", "p50 ms", "p99 ms"]
        rows = [
            (
                tried.settings.kind,
                str(tried.settings.k),
                _candidates(tried.settings.candidates),
                f"{tried.ram:,}",
                f"{tried.estimate:.4f}",
                f"{tried.bound:.4f}",
                f"{tried.p50_ms:.2f}",
                f"{tried.p99_ms:.2f}",
                tried.verdict,
            )
            for tried in tuning.tried
        ]
        console.show_table([*heads, ""], rows)
        console.line("")
    for text in tuning.said:
        console.line(text)


def show_migration(found: Migration) -> None:
    """Print a row for each option, then the advice and its reason."""
    rows = [
        (
            option.name,
            f"{100 * option.estimate:.1f}",
            f"{100 * option.bound:.1f}",
            "" if option.gain is None else f"{100 * option.gain:+.1f}",
            "" if option.gain_bound is None else f"{100 * option.gain_bound:+.1f}",
            f"{option.hours:.2f}",
        )
        for option in found.options
    ]
    console.show_table(["option", "nDCG@10", "at least", "gain", "gain at least", "hours"], rows)
    console.line("")
    console.line(
        f"by {found.queries:,} queries ({found.pool}) among {found.searched:,} documents that both "
        f"encoded; 95% confidence"
    )
    console.line(f"advice: {found.advice}: {found.why}")


def _candidates(number: int | None) -> str:
    return AUTO if number is None else f"{number:,}"
