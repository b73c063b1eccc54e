"""Building: index documents of sources, and resume interrupted work."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.workers import HERE, Workers
from slimdex.indexes.options import Choices
from slimdex.indexes.settings import Settings

from .. import adding
from ..atomic_files import CATALOG, remove_folder
from ..catalog.store import DocumentStore
from ..collection import Collection
from ..documents import Document
from ..encoders.base import AUTO, Encoder, for_new_documents, passage_tokens
from ..ingest.encoding import EncodingError
from ..ingest.made_up_ids import MadeUpIds
from ..ingest.rewriting.fitting import refit as refit_index
from ..ingest.staging import Addition, DuplicateKeyError
from ..ingest.writer import Added
from ..locks import WAIT
from ..open_index import OpenIndex
from ..quality.tuning import metric_choice
from ..quality.tuning.targets import Target
from ..quality.tuning.tuner import FEWEST_A_DIMENSION, certify, chosen_metric, tune
from ..sources.column_agreement import agree, agree_with, check_typed
from ..sources.files.file_source import FileSource
from ..sources.given_vectors import ArrayVectors, GivenVectors, open_vectors
from ..sources.origins import Reading
from ..sources.source import Source, open_source
from ..sources.tabular.column_names import ColumnNames
from ..sources.tabular.tables import TableSource
from ..sources.text_files import STANDARD_INPUT, FileFormat
from .language_note import language_notes


@dataclass(frozen=True)
class Sources:
    """Several sources, read one after the other, and the vectors given for their documents."""

    opened: Sequence[Source]
    vectors: GivenVectors | None = None
    agreed: Sequence[str] = ()

    @classmethod
    def open(
        cls,
        specs: str | Sequence[str],
        names: ColumnNames = ColumnNames(),
        vectors: str | None = None,
        files: FileFormat = FileFormat(),
    ) -> Sources:
        """Open the sources named on a command line; `vectors` is a .npy file or a column.

        Raises `InputError` if a source can't be read, or if the user gives a type for a column that
        none has.
        """
        specs = [specs] if isinstance(specs, str) else specs
        given = None if vectors is None else open_vectors(vectors, specs)
        if specs.count(STANDARD_INPUT) > 1:
            raise InputError("-: standard input named twice; expected it once")
        names = replace(names, vectors=vectors)
        opened = [open_source(spec, names, files) for spec in specs]
        _check_columns_named(opened, names)
        check_typed(opened, names.types)
        return cls(opened, given, agree(opened))

    def columns(self, store: DocumentStore) -> list[Mapping[str, str]]:
        """Types of metadata columns in the index, for each source.

        Tables must agree on them; columns of files are converted to existing types.
        """
        return [
            source.columns if isinstance(source, TableSource) else store.columns.new(source.columns)
            for source in self.opened
        ]

    @property
    def notes(self) -> list[str]:
        """Notes for the user about how the sources are read."""
        notes = [f"{source.name}: {note}" for source in self.opened for note in source.notes]
        return [*notes, *self.agreed]

    def fingerprint(self) -> str:
        """Identifier that changes when a source does."""
        prints = "".join(source.fingerprint() for source in self.opened)
        if self.vectors is not None:
            prints += self.vectors.fingerprint()
        return hashlib.sha256(prints.encode()).hexdigest()

    def documents(self, readings: Sequence[Reading] = ()) -> Iterator[Document]:
        """Yield the documents of all sources, each source read by its own `Reading`.

        Raises `InputError` if the vectors are known to belong to other documents.
        """
        found = chain.from_iterable(
            batch
            for source, reading in self._read_as(readings)
            for batch in _batches(source, reading)
        )
        return _checked(found, self.vectors) if isinstance(self.vectors, ArrayVectors) else found

    def origins(self, readings: Sequence[Reading]) -> set[str]:
        """Existing files that have a stamp; complete once the documents are read."""
        found = set[str]()
        for source, reading in self._read_as(readings):
            if isinstance(source, FileSource):
                found |= source.origins
            elif source.stamp:
                found.add(reading.origin(source.stamp))
        return found

    def _read_as(self, readings: Sequence[Reading]) -> Iterator[tuple[Source, Reading]]:
        return zip(self.opened, readings or [Reading()] * len(self.opened), strict=True)

    def left_out(self) -> list[str]:
        """Files of folders that were not read, and why; complete once the documents are read."""
        folders = [source for source in self.opened if isinstance(source, FileSource)]
        return [f"{source.name}: {line}" for source in folders for line in source.left_out()]

    def place(self, number: int, readings: Sequence[Reading] = ()) -> str:
        """File and place of a document by its number from 0; reads the sources again.

        Raises `IndexError` if there are fewer documents.
        """
        places = (place for place, _ in self._placed(readings))
        if (found := next(islice(places, number, None), None)) is None:
            raise IndexError(number)
        return _told(*found)

    def place_of(self, id: str, readings: Sequence[Reading] = ()) -> str | None:
        """File and place of a document by its id; None if no source has it."""
        found = (place for place, document in self._placed(readings) if document.id == id)
        return next((_told(*place) for place in found), None)

    def _placed(self, readings: Sequence[Reading]) -> Iterator[tuple[tuple[Source, int], Document]]:
        """Read the documents again, each with its source and its number there from 1."""
        for source, reading in self._read_as(readings):
            documents = chain.from_iterable(_batches(source, reading))
            for number, document in enumerate(documents, start=1):
                yield (source, number), document


def _told(source: Source, number: int) -> str:
    return f"{source.name} (its document {number:,})"


def _check_columns_named(opened: Sequence[Source], names: ColumnNames) -> None:
    """Raise `InputError` if the user names a column and nothing has columns."""
    named = {"text": names.text, "id": names.id, "title": names.title}
    asked = next((f"{name}={value!r}" for name, value in named.items() if value), None)
    if asked and not any(isinstance(source, TableSource) for source in opened):
        raise InputError(f"{asked}: a column; expected a table among the sources")


def _checked(documents: Iterable[Document], vectors: ArrayVectors) -> Iterator[Document]:
    """Yield documents, checking where possible that each has its own row of the vectors."""
    for row, document in enumerate(documents):
        vectors.check_id(row, document.id)
        yield document


def _batches(source: Source, reading: Reading) -> Iterator[list[Document]]:
    """Yield a source's documents in batches; nothing if all of it is known."""
    if isinstance(source, FileSource):
        return source.batches(reading)
    return iter(()) if reading.has(source.stamp) else source.batches(reading)


def build(
    path: Path,
    sources: Sources,
    make_encoder: Callable[[], Encoder],
    settings: Settings,
    *,
    wait: float = WAIT,
    stored: str = "fp16",
    passages: str | int | None = AUTO,
    words: bool = True,
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
    stored, passages, words : as for `Collection.create`; an interrupted build keeps its own.
    workers : processes that encode and code parts of the documents.
    shared_filesystem : as for `Collection.open`.
    """
    if path.exists():
        if not (path / CATALOG).is_file():
            raise InputError(f"{path} exists and is no slimdex index; expected a new folder")
        with closing(OpenIndex.open(path, wait=wait)) as found:
            _check_resumable(found, sources)  # before a model is loaded, which takes seconds
        encoder = for_new_documents(make_encoder())
        core = OpenIndex.open(path, encoder, wait=wait, shared_filesystem=shared_filesystem)
        with _closed_on_error(core):
            request(core, settings)
            core.commit_log.workers = workers
            added = add(core, sources)
            notes = [*_own_precision(core, encoder), *_own_storage(core, stored)]
            notes += _own_passages(core, passages)
            return Collection(core), replace(added, notes=[*notes, *added.notes])
    core = OpenIndex.create(
        path,
        make_encoder(),
        settings,
        stored=stored,
        passages=passages,
        words=words,
        shared_filesystem=shared_filesystem,
    )
    core.commit_log.workers = workers
    with _closed_on_error(core, remove=True):
        return Collection(core), add(core, sources)


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
        with _places_told(core, sources):
            added = adding.resume(core, sources.vectors, refit=refit)
        went_on = f"resumed after {kept:,} documents encoded before"
        return replace(added, notes=[went_on, *added.notes])
    notes = agree_with(core.store.columns.with_values, sources.opened)
    ids = MadeUpIds.of(sources.opened, core.state, core.store)
    added = add_read(core, sources, ids, refit=refit)
    return replace(added, notes=[*notes, *added.notes])


def add_read(
    core: OpenIndex,
    sources: Sources,
    ids: MadeUpIds,
    *,
    refit: str = "auto",
    missing: Callable[[int], Rows] | None = None,
) -> Added:
    """Add the documents of sources with their ids; `missing` is as for `Addition`."""
    try:
        with _places_told(core, sources):
            addition = Addition(
                sources.documents(ids.readings),
                sources.columns(core.store),
                sources.vectors,
                sources.fingerprint(),
                ids.origins,
                missing,
            )
            added = adding.add(core, addition, refit=refit)
    except DuplicateKeyError as error:
        raise InputError(
            f"id {error.id!r} occurs twice, in {sources.place(error.first, ids.readings)} and "
            f"{sources.place(error.second, ids.readings)}; expected each id once"
        ) from error
    return replace(added, notes=[*ids.notes, *added.notes, *sources.left_out()])


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
def _places_told(core: OpenIndex, sources: Sources) -> Iterator[None]:
    """If documents can't be encoded, raise an error that names their file beside their ids."""
    try:
        yield
    except EncodingError as error:
        ids = MadeUpIds.of(sources.opened, core.state, core.store)
        place = sources.place_of(error.ids[0], ids.readings)
        raise InputError(str(error) if place is None else f"{place}: {error}") from error


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
