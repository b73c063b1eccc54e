"""Opened sources: several, read one after the other, as one addition to an index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from slimdex.indexes.errors import InputError

from ..catalog.store import DocumentStore
from ..documents import Document
from .column_agreement import agree, check_typed
from .files.file_source import FileSource
from .given_vectors import ArrayVectors, GivenVectors, open_vectors
from .origins import Reading
from .source import Source, open_source
from .tabular.column_names import ColumnNames
from .tabular.tables import TableSource
from .text_files import STANDARD_INPUT, FileFormat


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
