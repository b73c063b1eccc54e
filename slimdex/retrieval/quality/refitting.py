"""Refitting: checks a fit after an addition, and renews it if necessary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.reducers.linear import Linear
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.system.progress import listening

from ..index import Index
from ..ingest.adding import add, sync
from ..ingest.addition import Addition
from ..ingest.addition_report import AdditionReport
from ..ingest.encode import encode_waiting
from ..ingest.fitting import refit as fit_again
from ..sources.given_vectors import as_vectors
from ..sources.source_request import AnySources, added_sources, remember_sources
from ..sources.tabular.records import as_documents
from .health import drift, has_drifted
from .info import fit_advice, is_outgrown, kind_advice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..sources.given_vectors import DocumentVectors

REFIT = ("auto", "never", "always")
"""Actions of an addition on an outdated fit."""
WORTH = 10
"""A refit runs by itself if it takes at most this many times as long as the addition. The next one
comes when the documents have doubled again."""
TIMED_ROWS = 4096
"""Rows coded to estimate the time for all."""
FIXED_S = 1.0
"""Fixed time of a fit: eigenvectors, k-means, a commit's fsyncs."""


def check_refit(refit: str) -> None:
    """Raise `InputError` unless it is one of `REFIT`."""
    if refit not in REFIT:
        raise InputError(f"refit={refit!r}; expected {', '.join(REFIT[:-1])} or {REFIT[-1]}")


def add_then_refit(index: Index, refit: str, add: Callable[[], AdditionReport]) -> AdditionReport:
    """Add documents by calling `add`; then refit, or advise it, as `refit` says.

    `Collection.add` describes `refit`. The report has the notes of both steps.
    """
    check_refit(refit)
    before = index.snapshot.searchable_count
    start = perf_counter()
    report = add()
    if not (report.documents or report.encoded) or index.state.waits:
        return report
    notes, refitted = after_addition(index, before, perf_counter() - start, refit)
    return replace(report, notes=[*report.notes, *notes], refitted=refitted)


def add_documents_then_refit(
    index: Index,
    documents: Any,
    vectors: DocumentVectors | ArrayLike | None = None,
    refit: str = "auto",
    *,
    encode: bool = True,
) -> AdditionReport:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    document_vectors = None if vectors is None else as_vectors(vectors)
    addition = Addition(as_documents(documents), document_vectors)
    return add_then_refit(index, refit, lambda: add(index, addition, encode=encode))


def encode_then_refit(index: Index) -> AdditionReport:
    """Encode the rows that wait, as `Collection.encode` does; the caller reports the notes."""

    def encode() -> AdditionReport:
        report = encode_waiting(index)
        return replace(report, notes=[*report.notes, *report.text_notes()])

    return add_then_refit(index, "auto", encode)


def sync_then_refit(index: Index, sources: AnySources, refit: str = "auto") -> AdditionReport:
    """Sync with sources, as `Collection.sync` does; with the sources' notes."""
    if not sources.specs:
        raise InputError(
            f"{index.path}: its sources are not known here (they are remembered in the user's "
            "cache); expected files or folders"
        )
    notes = list[str]()
    with listening(note=notes.append):
        opened = sources.open()
        report = add_then_refit(index, refit, lambda: sync(index, opened))
    return replace(report, notes=[*notes, *report.notes])


def sync_and_remember(index: Index, sources: AnySources, refit: str = "auto") -> AdditionReport:
    """Sync with sources, and remember them for the next sync, beside those added before."""
    known = added_sources(index.path, index.state.origins)
    report = sync_then_refit(index, sources, refit)
    remember_sources(index.path, [*known.requests, *sources.requests], index.state.origins)
    return report


def after_addition(
    index: Index, before: int, seconds: float, refit: str = "auto"
) -> tuple[list[str], bool]:
    """Refit an index that an addition has outgrown, or advise it.

    Returns notes, and whether it was refitted. The addition is already committed; a refit is
    another commit. Measuring the drift takes a quarter of the time of adding a thousand documents,
    so it is measured only when the rows reach twice, four times, eight times ... those of the fit.

    `before` is the number of searchable rows before the addition, and `seconds` the time that the
    addition took: "auto" refits only if that takes less than `WORTH` times as long.
    """
    snapshot = index.snapshot
    fit = snapshot.state.fit
    if fit is None or fit.rows == snapshot.state.encoded:  # the addition was a fit
        return [], False

    # Go on only if the rows have just reached 2, 4, 8, ... times those of the fit.
    notes = kind_advice(snapshot)
    count = snapshot.searchable_count
    fitted = max(snapshot.state.fit_rows, 1)
    multiple_before = max(before - 1, 0) // fitted  # of the rows of the fit
    multiple_now = (count - 1) // fitted
    # A number gets more bits when it reaches another power of two.
    has_doubled = multiple_now.bit_length() > multiple_before.bit_length()
    is_due = is_outgrown(snapshot) and has_doubled
    if not count or (refit != "always" and not is_due):
        return notes, False

    # Refit if answers may suffer, and a refit is quick enough; otherwise advise it.
    drifted = has_drifted(index.read(drift))
    refit_time = refit_seconds(snapshot.index)
    is_quick = refit_time is not None and refit_time < WORTH * seconds
    if refit == "always" or (refit == "auto" and drifted and is_quick):
        return _refit_now(index), True
    advice = fit_advice(snapshot) if drifted else []
    return [*advice, *notes], False


def _refit_now(index: Index) -> list[str]:
    """Refit an index; return notes on the reason, the time, and a lost certificate."""
    was_proved = index.state.certificate is not None
    count = index.snapshot.searchable_count
    why = f"fitted on {index.state.fit_rows:,} of {count:,} {index.snapshot.noun}"
    start = perf_counter()
    notes = fit_again(index, index.state.requested, "with the last")
    message = f"{why}; refitted in {perf_counter() - start:.1f} s"
    if was_proved:
        message += f"; `slimdex tune {index.path}` proves an agreement again"
    return [message, *notes]


def refit_seconds(index: ReducedIndex) -> float | None:
    """Estimate the time of refitting a linear reducer by coding some rows.

    Coding takes nearly all of that time. None for trained reducers, which can't be estimated.
    """
    rows = np.arange(min(len(index), TIMED_ROWS))
    if not isinstance(index.reducer, Linear) or not len(rows):
        return None
    start = perf_counter()
    vectors = index.vectors.take(rows)
    index.index.copy(empty=True).add(reduce_rows(index.reducer, vectors))
    if index.metric is not None:
        index.metric.rescorer.norms(vectors)
    return FIXED_S + (perf_counter() - start) * len(index) / len(rows)
