"""Building: sources into an index, so that interrupted work goes on where it stopped."""

from __future__ import annotations

import hashlib
import shutil
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
from ..atomic_files import CATALOG
from ..catalog.store import DocumentStore
from ..collection import Collection
from ..documents import Document
from ..encoders.base import AUTO, Encoder, for_new_documents, passage_tokens
from ..ingest.encoding import EncodingError
from ..ingest.made_up_ids import MadeUpIds
from ..ingest.staging import Addition, DuplicateKeyError
from ..ingest.writer import Added
from ..ingest.writer import refit as refit_index
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


@dataclass(frozen=True)
class Sources:
    """Several sources, one after the other, and the vectors that the user has for them."""

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
        """The sources that words of the command line mean; `vectors` is a .npy file or a column.

        Raises
        ------
        InputError
            If one can't be read, or none has a column that the user names a type for.
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
        """Of each source the types of the user's own columns that its index is to have.

        Those of tables are agreed on; what files say of themselves fits into what there is.
        """
        return [
            source.columns if isinstance(source, TableSource) else store.columns.new(source.columns)
            for source in self.opened
        ]

    @property
    def notes(self) -> list[str]:
        """What the user should know about how they are read."""
        notes = [f"{source.name}: {note}" for source in self.opened for note in source.notes]
        return [*notes, *self.agreed]

    def fingerprint(self) -> str:
        """Changes when one of them does."""
        prints = "".join(source.fingerprint() for source in self.opened)
        if self.vectors is not None:
            prints += self.vectors.fingerprint()
        return hashlib.sha256(prints.encode()).hexdigest()

    def documents(self, readings: Sequence[Reading] = ()) -> Iterator[Document]:
        """Those of all sources, each read as its own of the readings says.

        Raises
        ------
        InputError
            If the vectors are known to be of other documents.
        """
        found = chain.from_iterable(
            batch
            for source, reading in self._read_as(readings)
            for batch in _batches(source, reading)
        )
        return _checked(found, self.vectors) if isinstance(self.vectors, ArrayVectors) else found

    def origins(self, readings: Sequence[Reading]) -> set[str]:
        """Once they are read: of the files that there are, those that have a stamp."""
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
        """Once they are read: the files of folders that were not, and why."""
        folders = [source for source in self.opened if isinstance(source, FileSource)]
        return [f"{source.name}: {line}" for source in folders for line in source.left_out()]

    def place(self, number: int, readings: Sequence[Reading] = ()) -> str:
        """Which file a document comes from, counted from 0, and where in it; they are read again.

        Raises
        ------
        IndexError
            If there are not so many documents.
        """
        places = (place for place, _ in self._placed(readings))
        if (found := next(islice(places, number, None), None)) is None:
            raise IndexError(number)
        return _told(*found)

    def place_of(self, id: str, readings: Sequence[Reading] = ()) -> str | None:
        """Which file the document of an id comes from, and where in it; None if it is in none."""
        found = (place for place, document in self._placed(readings) if document.id == id)
        return next((_told(*place) for place in found), None)

    def _placed(self, readings: Sequence[Reading]) -> Iterator[tuple[tuple[Source, int], Document]]:
        """Each document with its source, and its number there from 1 on; all are read again."""
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
    """Documents, each with its own row of the vectors, where that can be known."""
    for row, document in enumerate(documents):
        vectors.check_id(row, document.id)
        yield document


def _batches(source: Source, reading: Reading) -> Iterator[list[Document]]:
    """A source's documents; none of a source all of which is known."""
    if isinstance(source, FileSource):
        return source.batches(reading)
    return iter(()) if reading.has(source.stamp) else source.batches(reading)


def build(
    path: Path,
    sources: Sources,
    make_encoder: Callable[[], Encoder],
    settings: Settings,
    *,
    wait: float = 0.0,
    stored: str = "fp16",
    passages: str | int | None = AUTO,
    workers: Workers = HERE,
) -> tuple[Collection, Added]:
    """A new index, or the rest of one whose build was interrupted.

    A folder that holds nothing worth keeping is removed again if the build fails. One whose
    documents are encoded stays: another call, with other settings too, encodes nothing anew.
    Another process that has it open is waited for as by `Collection.open`. `stored` and
    `passages` are for `Collection.create`; what was begun goes on as it was. `workers` encode and
    code the parts that the documents are cut into.

    Raises
    ------
    InputError
        If the folder is there and is no unfinished build of the same sources.
    """
    if path.exists():
        if not (path / CATALOG).is_file():
            raise InputError(f"{path} exists and is no slimdex index; expected a new folder")
        with closing(OpenIndex.open(path, read_only=True, wait=wait)) as found:
            _check_resumable(found, sources)  # before a model is loaded, which takes seconds
        encoder = for_new_documents(make_encoder())
        core = OpenIndex.open(path, encoder, wait=wait)
        with _closed_on_error(core):
            request(core, settings)
            core.commit_log.workers = workers
            added = add(core, sources)
            notes = [*_own_precision(core, encoder), *_own_storage(core, stored)]
            notes += _own_passages(core, passages)
            return Collection(core), replace(added, notes=[*notes, *added.notes])
    core = OpenIndex.create(path, make_encoder(), settings, stored=stored, passages=passages)
    core.commit_log.workers = workers
    with _closed_on_error(core, remove=True):
        return Collection(core), add(core, sources)


def request(core: OpenIndex, settings: Settings) -> None:
    """Ask for other settings of an unfinished build; later on, `Collection.reduce` does it."""
    with core.change():
        if core.state.settings is not None:
            raise InputError(f"{core.path} holds documents; expected an unfinished build")
        state = replace(core.state, requested=settings.checked(core.state.dim))
        if state.unfinished:
            state.requested.check_count(state.staged)
        core.commit_log.commit(state)


def prove(core: OpenIndex, target: Target | None = None) -> list[str]:
    """What a build ends with: settings for a target, or what is proved of the defaults.

    A raw encoder's vectors are compared by another metric than the default, unless the user chose
    one: see `metric_choice`. Returns what the user should know. An index of few documents, or one
    that does not rescore, stays as it is.
    """
    state, notes = core.state, list[str]()
    if state.settings is None or not state.settings.rescores:
        return []
    if core.snapshot.searchable_count < FEWEST_A_DIMENSION * state.dim:
        return []
    if target is not None:
        try:
            return tune(core, target, apply=True).said
        except InputError as error:  # the documents are in: they are not to be lost for that
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
    """Add documents; if that was interrupted before, go on where it stopped.

    `refit` is as for `Collection.add`.
    """
    if core.state.settings is None:
        _check_resumable(core, sources)
    if _is_being_added(core, sources):
        kept = _encoded_documents(core)
        with _places_told(core, sources):
            added = adding.resume(core, sources.vectors, refit=refit)
        went_on = f"went on after {kept:,} documents that were encoded before"
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
    """Add the documents of sources, by ids that are theirs.

    `missing` is as for `Addition`.
    """
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
            f"id {error.id!r} stands twice, in {sources.place(error.first, ids.readings)} and "
            f"{sources.place(error.second, ids.readings)}; expected each id once"
        ) from error
    return replace(added, notes=[*ids.notes, *added.notes, *sources.left_out()])


def _own_precision(core: OpenIndex, given: Encoder) -> list[str]:
    """A line if what was encoded before is in another precision, in which the rest was, too."""
    asked, own = (encoder.spec().get("precision") for encoder in (given, core.encoder))
    return [] if asked == own else [f"encoded in {own}, as it was begun, and not in {asked}"]


def _own_storage(core: OpenIndex, asked: str) -> list[str]:
    """A line if the vectors that there were are stored otherwise, and so are the rest."""
    own = core.state.stored
    return [] if asked == own else [f"stored as {own}, as it was begun, and not as {asked}"]


def _encoded_documents(core: OpenIndex) -> int:
    """How many documents of an addition that was interrupted have all of their vectors."""
    state, store = core.state, core.store
    rows = store.passages.rows(state.staged)
    whole = rows.number_before(store.passages.first_row(state.encoded))
    return whole - rows.number_before(state.rows)


def _own_passages(core: OpenIndex, asked: str | int | None) -> list[str]:
    """A line if the texts were cut otherwise than is asked for by now."""
    own = core.state.passages
    if passage_tokens(asked, core.encoder) == own:
        return []
    said = "not cut" if own is None else f"cut into passages of at most {own} tokens"
    return [f"{said}, as it was begun, and not by passages={asked}"]


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
    """Where documents that could not be encoded come from is said beside their ids."""
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
        core.close()
        if remove and not core.state.encoded:
            shutil.rmtree(core.path)
        if type(error) is InputError and core.state.is_encoded:
            raise InputError(
                f"{error}. All documents are encoded already: build again with other settings to "
                "finish"
            ) from error
        raise
