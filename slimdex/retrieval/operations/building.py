"""Building: index documents of sources, and resume interrupted work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.workers import HERE, Workers
from slimdex.indexes.options import Choices
from slimdex.indexes.settings import Settings

from .. import adding
from ..atomic_files import CATALOG, remove_folder
from ..collection import Collection
from ..encoders.base import AUTO, Encoder, for_new_documents, passage_tokens
from ..ingest.made_up_ids import MadeUpIds
from ..ingest.rewriting.fitting import refit as refit_index
from ..ingest.writer import Added
from ..locks import WAIT
from ..open_index import OpenIndex
from ..quality.tuning import metric_choice
from ..quality.tuning.targets import Target
from ..quality.tuning.tuner import FEWEST_A_DIMENSION, certify, chosen_metric, tune
from ..sources.column_agreement import agree_with
from ..sources.opened_sources import Sources as Sources
from .language_note import language_notes


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
    workers: Workers = HERE,
    shared_filesystem: bool = False,
) -> tuple[Collection, Added]:
    """Build a new index, or finish an interrupted build.

    After a failure, the folder is removed unless it has encoded documents. If it has, another call
    continues, even with other settings, and encodes only the rest. Raises `InputError` if the
    folder exists and is not an unfinished build of the same sources.

    Parameters
    ----------
    wait : seconds to wait for changes by other processes.
    vector_dtype, passages, lexical : as for `Collection.create`; a resumed build keeps its own.
    workers : processes that encode and code parts of the documents.
    shared_filesystem : as for `Collection.open`.
    """
    if path.exists():
        if not (path / CATALOG).is_file():
            raise InputError(f"{path} exists and is no slimdex index; expected a new folder")
        with closing(OpenIndex.open(path, wait=wait)) as found:
            _check_resumable(found, sources)  # before a model is loaded, which takes seconds
        encoder = for_new_documents(make_encoder())
        core = Collection.open(path, encoder, wait=wait, shared_filesystem=shared_filesystem)
        with _closed_on_error(core):
            request(core, settings)
            core.commit_log.workers = workers
            added = add(core, sources)
            notes = [*_own_precision(core, encoder), *_own_storage(core, vector_dtype)]
            notes += _own_passages(core, passages)
            return core, replace(added, notes=[*notes, *added.notes])
    core = Collection.create(
        path,
        make_encoder(),
        settings,
        vector_dtype=vector_dtype,
        passages=passages,
        lexical=lexical,
        shared_filesystem=shared_filesystem,
    )
    core.commit_log.workers = workers
    with _closed_on_error(core, remove=True):
        return core, add(core, sources)


def request(core: OpenIndex, settings: Settings) -> None:
    """Record other settings for an unfinished build; on a finished one, use `Collection.reduce`."""
    with core.change():
        if core.state.settings is not None:
            raise InputError(f"{core.path} holds documents; expected an unfinished build")
        state = replace(core.state, requested=settings.checked(core.state.dim))
        if state.unfinished:
            state.requested.check_count(state.staged)
        core.commit_log.commit(state)


def prove(core: OpenIndex, target: Target | None = None) -> list[str]:
    """Choose settings for a target, or certify the defaults; returns notes for the user.

    If the encoder's vectors are raw, a metric other than the default may be chosen, unless the user
    chose one: see `metric_choice`. An index of few documents, or without rescoring, stays
    unchanged.
    """
    state, notes = core.state, list[str]()
    if state.settings is None or not state.settings.rescores:
        return []
    if core.snapshot.searchable_count < FEWEST_A_DIMENSION * state.dim:
        return []
    if target is not None:
        try:
            return tune(core, target, apply=True).said
        except InputError as error:  # the documents are in and must be kept
            notes.append(f"{error}; the settings stay as they are")
    requested, default = state.requested, metric_choice.DEFAULT
    is_free = (requested.beta, requested.gamma) == default and requested.reducer == Choices.reducer
    if is_free and core.has_encoder:
        choice = chosen_metric(core, core.snapshot)
        if choice.cell != default:
            beta, gamma = choice.cell
            refit_index(core, replace(requested, beta=beta, gamma=gamma))
            notes.append(choice.why)
    certificate = certify(core)
    noun = core.snapshot.noun
    said = certificate.said(core.state.settings, certificate.rows, noun)
    return [*notes, *([said] if said else [])]


def add(core: OpenIndex, sources: Sources, *, refit: str = "auto") -> Added:
    """Add documents, or finish an interrupted addition; `refit` is as for `Collection.add`."""
    first = core.state.rows
    added = _added(core, sources, refit)
    return replace(added, notes=[*added.notes, *language_notes(core, first)])


def _added(core: OpenIndex, sources: Sources, refit: str) -> Added:
    if core.state.settings is None:
        _check_resumable(core, sources)
    if _is_being_added(core, sources):
        kept = _encoded_documents(core)
        with adding.places_told(core, sources):
            added = adding.resume(core, sources.vectors, refit=refit)
        went_on = f"resumed after {kept:,} documents encoded before"
        return replace(added, notes=[went_on, *added.notes])
    notes = agree_with(core.store.columns.with_values, sources.opened)
    ids = MadeUpIds.of(sources.opened, core.state, core.store)
    added = adding.add_read(core, sources, ids, refit=refit)
    return replace(added, notes=[*notes, *added.notes])


def _own_precision(core: OpenIndex, given: Encoder) -> list[str]:
    """A note if earlier documents were encoded in another precision, which is kept."""
    asked, own = (encoder.spec().get("precision") for encoder in (given, core.encoder))
    return [] if asked == own else [f"encoded in {own} like the documents before, not in {asked}"]


def _own_storage(core: OpenIndex, asked: str) -> list[str]:
    """A note if existing vectors are stored in another type, which is kept."""
    own = core.state.stored
    return [] if asked == own else [f"stored as {own} like the vectors before, not as {asked}"]


def _encoded_documents(core: OpenIndex) -> int:
    """Count the documents of an interrupted addition that have all their vectors."""
    state, store = core.state, core.store
    rows = store.passages.rows(state.staged)
    whole = rows.number_before(store.passages.first_row(state.encoded))
    return whole - rows.number_before(state.rows)


def _own_passages(core: OpenIndex, asked: str | int | None) -> list[str]:
    """A note if existing texts were cut to another passage length than is requested now."""
    own = core.state.passages
    if passage_tokens(asked, core.encoder) == own:
        return []
    said = "not cut" if own is None else f"cut into passages of at most {own} tokens"
    return [f"{said} like the texts before, not by passages={asked}"]


def _is_being_added(core: OpenIndex, sources: Sources) -> bool:
    state = core.state
    return state.unfinished and state.source == sources.fingerprint()


def _check_resumable(core: OpenIndex, sources: Sources) -> None:
    state = core.state
    if state.settings is not None:
        raise InputError(f"{core.path} exists; expected a new folder (or use `slimdex add`)")
    if state.unfinished and not _is_being_added(core, sources):
        raise InputError(
            f"{core.path} is an unfinished build of another source, or its file has "
            "changed since; expected the same one (or remove the folder)"
        )


@contextmanager
def _closed_on_error(core: OpenIndex, remove: bool = False) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        state = core.state
        core.close()
        if remove and not state.encoded:
            remove_folder(core.path)
        if type(error) is InputError and state.is_encoded:
            raise InputError(
                f"{error}. All documents are encoded already: build again with other settings to "
                "finish"
            ) from error
        raise
