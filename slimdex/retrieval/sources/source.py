"""Sources of documents: files, folders and Python packages, read in batches.

`Sources` are several, read one after the other, as one addition to an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import Protocol

from slimdex.errors import InputError
from slimdex.system.index_names import no_file

from ..documents import Document
from .docstrings import PREFIX as PYTHON
from .docstrings import PythonSource
from .files.file_source import FileSource
from .files.input_files import (
    STANDARD_INPUT,
    FileFormat,
    InputFile,
    Reading,
    ending_of,
    open_file,
)
from .files.walking import leads_out
from .given_vectors import DocumentVectors, open_vectors
from .tabular.columns import ColumnNames as ColumnNames
from .tabular.databases import table_file
from .tabular.table_files import ALL_READERS, READERS, SQL, query_file
from .tabular.tables import EVERY_COLUMN, TableSource


class Source(Protocol):
    """Source of documents."""

    @property
    def name(self) -> str:
        """File or package, for messages."""

    @property
    def origin(self) -> InputFile | None:
        """File that generated ids are derived from; None if documents have ids."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user on how the source is read."""

    @property
    def fingerprint(self) -> str:
        """Digest that changes with the source; empty if a change could go unnoticed."""

    @property
    def place(self) -> str:
        """Unique name of its location."""

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of the source."""


def open_source(
    spec: str, names: ColumnNames = ColumnNames(), file_format: FileFormat = FileFormat()
) -> Source:
    """Open a source named on the command line.

    Raises `InputError` if the file, folder or package does not exist, its kind is unknown, or a
    named column is missing.
    """
    if spec.startswith(PYTHON):
        return PythonSource(spec)
    if spec.startswith(SQL):
        return TableSource(query_file(spec), names)
    requested = file_format.format
    table = table_file(spec) if requested is None else None
    if table:
        return TableSource(table, names)

    # A folder; a BEIR data set has all of its documents in one file.
    path = Path(spec)
    if spec != STANDARD_INPUT and path.is_dir():
        corpus = path / "corpus.jsonl"
        is_beir = corpus.is_file() and (file_format.follow_links or not leads_out(corpus, path))
        if not is_beir:
            if requested is not None:
                raise InputError(f"format={requested!r}: {spec} is a folder; expected none")
            return FileSource.of_folder(spec, file_format)
        path = corpus

    # A file, or standard input.
    if spec != STANDARD_INPUT and not path.is_file():
        raise InputError(no_file(spec))
    if spec != STANDARD_INPUT and ending_of(path, file_format) not in ALL_READERS:
        return _document_file(spec, path, f".{requested}" if requested else "", file_format)
    file = open_file(spec if spec == STANDARD_INPUT else str(path), path, file_format)
    if file.ending in ALL_READERS:
        return TableSource(file, names)
    return _document_file(file.id_prefix, file.path, file.ending, FileFormat())


def _document_file(name: str, path: Path, ending: str, file_format: FileFormat) -> Source:
    """Open a file that is one document, or a mailbox; `ending` overrides the name's."""
    source = FileSource.of_file(name, path, name + ending, file_format)
    if source is None:
        raise InputError(
            f"{name}: ending {ending_of(Path(name + ending), FileFormat())!r}; expected "
            f"{', '.join(READERS)}, .txt (also with .gz or .zst), .xlsx, .xls, .ods, .sqlite, a "
            "text, page, PDF, office file, mailbox or code, format=NAME, a folder, "
            "python:PACKAGE or sql:QUERY"
        )
    return source


def read_pairs(path: str) -> list[tuple[str, str]]:
    """Read (id, text) of every query in a file of any supported format.

    For a BEIR folder, read its queries. Generated ids use the file's name without its folder, as
    labels may.
    """
    queries_of_folder = Path(path) / "queries.jsonl"
    source = open_source(str(queries_of_folder) if queries_of_folder.is_file() else path)
    prefix = Path(source.origin.id_prefix).name if source.origin else None
    documents = chain.from_iterable(source.batches(Reading(prefix)))
    return [(document.id, document.content) for document in documents]


@dataclass(frozen=True)
class Sources:
    """Several sources, read one after the other, and the vectors given for their documents."""

    opened: Sequence[Source]
    vectors: DocumentVectors | None = None

    @classmethod
    def open(
        cls,
        specs: str | Sequence[str],
        names: ColumnNames = ColumnNames(),
        files: FileFormat = FileFormat(),
    ) -> Sources:
        """Open the sources named on a command line.

        Raises `InputError` if a source can't be read, or if the user gives a type for a column that
        none has.
        """
        specs = [specs] if isinstance(specs, str) else specs
        vectors = None if names.vectors is None else open_vectors(names.vectors, specs)
        if specs.count(STANDARD_INPUT) > 1:
            raise InputError("-: standard input named twice; expected it once")

        # Open the sources, and check them together.
        opened = [open_source(spec, names, files) for spec in specs]
        _check_columns_named(opened, names)
        _check_folders_named(opened, files)
        return cls(opened, vectors) if vectors else cls.of(opened)

    @classmethod
    def of(cls, opened: Iterable[Source]) -> Sources:
        """Return sources that read each file once."""
        return cls(_each_file_once([*opened]))

    @property
    def notes(self) -> list[str]:
        """Notes for the user about how the sources are read."""
        notes = list[str]()
        for source in self.opened:
            notes += [f"{source.name}: {note}" for note in source.notes]
        return notes

    @property
    def fingerprint(self) -> str:
        """The fingerprints of all sources; empty if one is."""
        fingerprints = [source.fingerprint for source in self.opened]
        return "/".join(fingerprints) if all(fingerprints) else ""

    def documents(self, readings: Sequence[Reading] = ()) -> Iterator[Document]:
        """Yield the documents of all sources, each source read by its own `Reading`.

        Raises `InputError` if the vectors are known to belong to other documents.
        """
        batches = chain.from_iterable(starmap(_batches, self._read_as(readings)))
        documents = chain.from_iterable(batches)
        if self.vectors is not None:
            return _check_each_row(documents, self.vectors)
        return documents

    def origins(self, readings: Sequence[Reading]) -> set[str]:
        """Existing files that have a stamp; complete once the documents are read."""
        origins = set[str]()
        for source, reading in self._read_as(readings):
            if isinstance(source, FileSource):
                origins |= source.origins
            elif source.fingerprint:
                origins.add(reading.origin(source.fingerprint))
        return origins

    def _read_as(self, readings: Sequence[Reading]) -> Iterator[tuple[Source, Reading]]:
        """Pair each source with its `Reading`; without readings, with one that reads everything."""
        return zip(self.opened, readings or [Reading()] * len(self.opened), strict=True)

    def omissions(self) -> list[str]:
        """List tables without rows, and files that were not read, with the reasons.

        The list is complete once the documents are read.
        """
        lines = list[str]()
        for source in self.opened:
            if isinstance(source, TableSource) and source.is_empty_table:
                lines.append(f"{source.name}: no rows")
        for source in self._files:
            lines += [f"{source.name}: {line}" for line in source.omissions()]
        return lines

    def leave_out(self, document: Document, error: Exception) -> bool:
        """Note a file whose document can't be added; return False if it is of no file."""
        return any(source.leave_out_document(document, error) for source in self._files)

    def file_notes(self) -> list[dict[str, str]]:
        """All files that `omissions` counts or names, as "path" and "note"."""
        return [*chain.from_iterable(source.file_notes() for source in self._files)]

    @property
    def _files(self) -> list[FileSource]:
        return [source for source in self.opened if isinstance(source, FileSource)]


def _check_columns_named(opened: Sequence[Source], names: ColumnNames) -> None:
    """Raise `InputError` if the user names a column and no source has it."""
    tables = [source for source in opened if isinstance(source, TableSource)]
    columns = list(dict.fromkeys(column for table in tables for column in table.all_columns))
    for name, value in {"text": names.text, "id": names.id, "title": names.title}.items():
        if value and not tables:
            raise InputError(f"{name}={value!r}: a column; expected a table among the sources")
    for name in names.types:
        if name not in (EVERY_COLUMN, *columns):
            expected = ", ".join(columns) or "none"
            raise InputError(f"types: no column {name!r}; expected one of {expected}")


def _check_folders_named(opened: Sequence[Source], files: FileFormat) -> None:
    """Raise `InputError` if the user leaves out files and there is no folder of files."""
    has_folder = any(isinstance(each, FileSource) and not each.is_alone for each in opened)
    if files.exclude and not has_folder:
        raise InputError(f"exclude={files.exclude[0]!r}: expected a folder among the sources")


def _each_file_once(opened: Sequence[Source]) -> list[Source]:
    """Leave out files that another source reads, and sort folders before those inside them."""
    files = [source for source in opened if isinstance(source, FileSource)]

    # A folder leaves out the files that a folder around it reads; single files come last.
    outermost_first = sorted(files, key=lambda source: (source.is_alone, len(source.place)))
    read_by_others = set[str]()
    for source in outermost_first:
        places = source.places
        source.leave_out(read_by_others)
        read_by_others.update(places)

    # Folders come before those inside them; all else is in the order of the request.
    read = [each for each in opened if not isinstance(each, FileSource) or each.paths]

    def folders_around(source: Source) -> int:
        return sum(source.place.startswith(f"{each.place}/") for each in read)

    return sorted(read, key=folders_around)


def _check_each_row(documents: Iterable[Document], vectors: DocumentVectors) -> Iterator[Document]:
    """Yield documents, checking where possible that each has its own row of the vectors."""
    for row, document in enumerate(documents):
        vectors.check_id(row, document.id)
        yield document


def _batches(source: Source, reading: Reading) -> Iterator[list[Document]]:
    """Yield a source's documents in batches; nothing if all of it is known."""
    if isinstance(source, FileSource):
        return source.batches(reading)
    return iter(()) if reading.has(source.fingerprint) else source.batches(reading)
