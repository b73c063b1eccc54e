"""Building: index documents of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from slimdex.errors import InputError, InUseError, SlimdexError
from slimdex.indexes.options import Choices
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import remove_folder
from slimdex.system.index_names import is_index
from slimdex.system.locks import WAIT
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
from .ingest.adding import add_sources
from .ingest.addition_report import AdditionReport
from .ingest.fitting import refit as refit_index
from .quality.metric_choice import DEFAULT, choose_metric
from .quality.refitting import add_then_refit
from .quality.tuning import FEWEST_A_DIMENSION
from .sources.source import Sources
from .store.snapshot import Snapshot
from .store.work_folder import is_held, work_folders

LANGUAGE_SAMPLE = 200
"""Documents whose language is detected."""


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
) -> tuple[Index, AdditionReport]:
    """Build a new index, or finish an interrupted build.

    Documents can be found as soon as their batch is in. After a failure, these stay, and another
    call continues, even with other settings, and encodes only the rest; a folder without documents
    is removed. Raises `InputError` if the folder exists and is not an unfinished build.

    Parameters
    ----------
    wait : seconds to wait for changes by other processes.
    vector_dtype, passages, lexical : see `Collection.create`; a resumed build keeps its own.
    workers : processes that encode and code parts of the documents.
    shared_filesystem : see `Collection.open`.
    """
    if path.exists():
        if not is_index(path):
            raise InputError(f"{path} exists and is no slimdex index; expected a new folder")
        with closing(Index.open(path, wait=wait)) as existing:
            _check_unfinished(existing)  # before a model is loaded, which takes seconds
        encoder = make_encoder()
        index = Index.open(path, encoder, wait=wait, shared_filesystem=shared_filesystem)
        with _closing_on_error(index):
            request(index, settings)
            index.workers = workers
            stopped = index.state.unfinished
            if stopped is not None:
                note(f"resumed after {stopped.documents:,} documents, which are in")
            added = add(index, sources, withdraws=False)
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
    with _closing_on_error(index, remove=True):
        return index, add(index, sources, withdraws=False)


def request(index: Index, settings: Settings) -> None:
    """Record other settings for an unfinished build; on a finished one, use `Collection.reduce`."""
    with index.change() as change:
        _check_unfinished(index)
        requested = settings.checked(change.state.dim)
        change.commit(replace(change.state, requested=requested))


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
    index: Index, sources: Sources, *, refit: str = "auto", withdraws: bool = True
) -> AdditionReport:
    """Add documents; for `refit`, see `Collection.add`, and for `withdraws`, `add_sources`."""
    first = index.state.rows
    added = add_then_refit(index, refit, lambda: add_sources(index, sources, withdraws=withdraws))
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
    """Raise an error unless the build of an index can be started or continued here.

    `InputError` if it is finished, and `InUseError` while another process builds it.
    """
    path = index.path
    stopped = index.state.unfinished
    if stopped is not None and stopped.builds:  # one process may continue it
        if is_held(path / stopped.work):
            raise InUseError(f"{path}: another process is building it; expected none")
        return
    if not index.is_empty:
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
        if index.is_empty and not work_folders(index.path):
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
    share, language = other_languages(snapshot.store.contents_of(sample))
    if share <= 0.5:
        return []
    return [
        f"{share:.0%} of these texts are not in English (most often {language}), the only language "
        f"of {model.name}: build a new index with the model {FOR_OTHER_LANGUAGES}, or another of "
        "`slimdex models`"
    ]
