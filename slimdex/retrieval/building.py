"""Building: index documents of sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.options import Choices
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import ExistsError, remove_folder
from slimdex.system.index_names import is_index
from slimdex.system.locks import WAIT, FileLock
from slimdex.system.progress import note
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from .encoders.base import AUTO, Encoder, passage_tokens
from .encoders.models import (
    ENGLISH,
    FOR_OTHER_LANGUAGES,
    model_by_folder_name,
    other_languages,
)
from .index import Index, create_index
from .ingest.adding import add_sources, sync
from .ingest.addition_report import AdditionReport
from .ingest.encode import encode_waiting
from .ingest.fitting import refit as refit_index
from .quality.metric_choice import DEFAULT, choose_metric
from .quality.refitting import add_then_refit
from .quality.tuning import FEWEST_A_DIMENSION
from .sources.source import Sources
from .sources.source_request import AnySources, SourceRequest, added_sources, remember_sources
from .store.snapshot import Snapshot

LANGUAGE_SAMPLE = 200
"""Documents whose language is detected."""
SECONDS_BEFORE_SEARCH = 3.0
"""Time to encode what waits in a folder that is searched."""


def build(
    path: Path,
    sources: Sources,
    make_encoder: Callable[[], Encoder],
    settings: Settings,
    *,
    wait: float = WAIT,
    vector_dtype: str = "fp16",
    passages: str | int | None = AUTO,
    lexical: bool = True,
    workers: Workers = IN_THIS_PROCESS,
    shared_filesystem: bool = False,
    encode: bool = True,
) -> tuple[Index, AdditionReport]:
    """Build a new index, or finish an interrupted build.

    Documents can be found as soon as their batch is in, at first by their words. After a failure,
    these stay, and another call continues, even with other settings; a folder without documents
    is removed. Raises `InputError` if the folder exists and is not an unfinished build.

    Parameters
    ----------
    wait : seconds to wait for changes by other processes.
    vector_dtype, passages, lexical : see `Collection.create`; a resumed build keeps its own.
    workers : processes that encode and code parts of the documents.
    shared_filesystem : see `Collection.open`.
    encode : whether documents are encoded once all are entered.
    """
    if path.exists():
        if not is_index(path):
            raise InputError(f"{path} exists and is no slimdex index; expected a new folder")
        with closing(Index.open(path, wait=wait)) as existing:
            _check_unfinished(existing)  # before a model is loaded, which takes seconds
        encoder = make_encoder()
        index = Index.open(path, encoder, wait=wait, shared_filesystem=shared_filesystem)
        with _closing_on_error(index), _alone(path):
            request(index, settings)
            index.workers = workers
            if documents := len(index.snapshot):
                note(f"resumed after {documents:,} documents, which are in")
            added = _add_all(index, sources, encode=encode)
            notes = _notes_on_differences(index, encoder, vector_dtype, passages)
            return index, replace(added, notes=[*notes, *added.notes])
    index = create_index(
        path,
        make_encoder(),
        settings,
        vector_dtype=vector_dtype,
        passages=passages,
        lexical=lexical,
        shared_filesystem=shared_filesystem,
    )
    index.workers = workers
    with _alone(path), _closing_on_error(index, remove=True):
        return index, _add_all(index, sources, encode=encode)


def enter_folder(path: Path, folder: Path, **opening: Any) -> AdditionReport:
    """Bring the index of a folder up to date to search it, and encode some seconds.

    If there is no index at `path`, create one; else sync it with the sources that it was built
    from, or with the folder if these are not known or gone, as after a move. Other processes may do
    the same meanwhile.

    `opening` : see `Index.open`.
    """
    is_new = not path.exists()
    try:
        index = create_index(path)
    except ExistsError:  # others may have been faster
        index = Index.open(path, **opening)
    with closing(index), _closing_on_error(index, remove=is_new):
        sources: AnySources = added_sources(path, index.state.origins)
        if not any(map(os.path.exists, sources.specs)):
            sources = SourceRequest([os.path.abspath(folder)])
        with _alone(path, index.wait):
            added = sync(index, sources.open(), encode=False)
        remember_sources(path, sources.requests, index.state.origins)
        encode_waiting(index, SECONDS_BEFORE_SEARCH)
    return added


def _add_all(index: Index, sources: Sources, *, encode: bool) -> AdditionReport:
    """Add the documents of a build; until it returns, another call continues it."""
    _mark(index, builds=True)
    added = add(index, sources, encode=encode)
    _mark(index, builds=False)
    return added


def _mark(index: Index, *, builds: bool) -> None:
    """Record whether a build is under way."""
    if index.state.building != builds:
        with index.change() as change:
            change.commit(replace(change.state, building=builds), undo="with the last")


def request(index: Index, settings: Settings) -> None:
    """Record other settings for an unfinished build; on a finished one, use `Collection.reduce`."""
    with index.change() as change:
        _check_unfinished(index)
        state = replace(change.state, requested=settings.checked(change.state.dim))
        if state.fit and state.requested != change.state.requested:
            state = replace(state, fit=replace(state.fit, is_provisional=True))
        change.commit(state)


@contextmanager
def _alone(path: Path, seconds: float = 0) -> Iterator[None]:
    """Be the only one that builds an index; raises `InUseError` if others go on for `seconds`."""
    with FileLock(path.absolute(), "builder").hold(seconds):
        yield


def choose_settings(index: Index, *, keep_metric: bool = False) -> list[str]:
    """Choose another metric than the default if the encoder's vectors prove to be raw.

    Returns notes for the user. A metric that the user chose is kept (`keep_metric`), and an index
    of few documents, or without rescoring, stays unchanged.
    """
    notes = list[str]()
    state = index.state
    if state.settings is None or not state.settings.rescores:
        return []
    if index.snapshot.searchable_count < FEWEST_A_DIMENSION * state.dim:
        return []

    # Choose the metric, unless the user chose it or another reducer.
    is_free = not keep_metric and state.requested.reducer == Choices.reducer
    if is_free and index.has_encoder:
        choice = choose_metric(index, index.open_snapshot())
        if choice.cell != DEFAULT:
            beta, gamma = choice.cell
            refit_index(index, replace(state.requested, beta=beta, gamma=gamma))
            notes.append(choice.why)
    return notes


def add(
    index: Index, sources: Sources, *, refit: str = "auto", encode: bool = True
) -> AdditionReport:
    """Add documents; for `refit` and `encode`, see `Collection.add`."""
    first = index.state.rows
    added = add_then_refit(index, refit, lambda: add_sources(index, sources, encode=encode))
    notes = model_notes(index.open_snapshot(), first)
    return replace(added, notes=[*added.notes, *notes])


def _notes_on_differences(
    index: Index, encoder: Encoder, vector_dtype: str, passages: str | int | None
) -> list[str]:
    """Notes on what an unfinished build keeps, although something else is requested now."""
    state = index.state
    notes = list[str]()
    requested = encoder.spec().get("precision")
    precision = index.encoder.spec().get("precision")
    if requested != precision:
        notes.append(f"encoded in {precision} like the documents before, not in {requested}")
    if vector_dtype != state.stored:
        notes.append(f"stored as {state.stored} like the vectors before, not as {vector_dtype}")
    length = state.passages
    if passage_tokens(passages, index.encoder) != length:
        cut = "not cut" if length is None else f"cut into passages of at most {length} tokens"
        notes.append(f"{cut} like the texts before, not by passages={passages}")
    return notes


def _check_unfinished(index: Index) -> None:
    """Raise `InputError` if the build of an index is finished."""
    path = index.path
    if index.state.rows and not index.state.building:
        raise InputError(
            f"{path} exists; expected a new folder (`slimdex sync {path}` brings this index up to "
            f"date, `slimdex add {path} SOURCE` adds to it)"
        )


@contextmanager
def _closing_on_error(index: Index, remove: bool = False) -> Iterator[None]:
    """Close an index if the block fails and, with `remove`, remove it if it has no documents."""
    try:
        yield
    except BaseException:
        with closing(index), suppress(OSError, SlimdexError):
            if remove:
                _remove_if_unused(index)
        raise


def _remove_if_unused(index: Index) -> None:
    """Remove an index without documents, unless others build it."""
    with index.turn():
        if not index.state.rows:
            remove_folder(index.path)


def model_notes(snapshot: Snapshot, first: int) -> list[str]:
    """Note that most documents from row `first` on are in languages that a known model lacks."""
    model = model_by_folder_name(str(snapshot.state.encoder.get("model")))
    if model is None or model.languages != ENGLISH:
        return []

    # Determine the language from a sample of the documents.
    rows = snapshot.live_documents()
    rows = rows[rows >= first]
    if not len(rows):
        return []
    spread = np.linspace(0, len(rows) - 1, LANGUAGE_SAMPLE).astype(np.int64)
    sample = rows[np.unique(spread)]
    share, language = other_languages(
        snapshot.store.contents(snapshot.document_rows.all_rows(sample))
    )
    if share <= 0.5:
        return []
    return [
        f"{share:.0%} of these texts are not in English (most often {language}), the only language "
        f"of {model.name}: build a new index with the model {FOR_OTHER_LANGUAGES}, or another of "
        "`slimdex models`"
    ]
