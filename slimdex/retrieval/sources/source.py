"""Sources of documents: files, folders and Python packages, read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from slimdex.indexes.errors import InputError

from ..documents import Document
from .docstrings import PREFIX as PYTHON
from .docstrings import PythonSource
from .files.file_source import FileSource, in_batches
from .origins import Reading
from .tabular.column_names import ColumnNames as ColumnNames
from .tabular.databases import SQL, query_file, table_file
from .tabular.duckdb_readers import READERS
from .tabular.tables import BATCH, TableSource
from .text_errors import unreadable
from .text_files import (
    STANDARD_INPUT,
    UNREADABLE,
    FileFormat,
    InputFile,
    bounded_lines,
    ending_of,
    open_file,
    open_text,
)

TEXT = ".txt"


class Source(Protocol):
    """Source of documents."""

    @property
    def name(self) -> str:
        """File or package, for messages."""
        ...

    @property
    def origin(self) -> InputFile | None:
        """File that generated ids are derived from; None if documents have ids."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """User's columns: name -> DuckDB type."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user on how the source is read."""
        ...

    def fingerprint(self) -> str:
        """Digest that changes with the source."""
        ...

    @property
    def place(self) -> str:
        """Unique name of its location."""
        ...

    @property
    def stamp(self) -> str:
        """Stamp of the whole source, see `origins.stamp_of`; empty if its files have their own."""
        ...

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of the source."""
        ...


def open_source(
    spec: str, names: ColumnNames = ColumnNames(), given: FileFormat = FileFormat()
) -> Source:
    """Open a source named on the command line.

    Raises `InputError` if the file, folder or package does not exist, its kind is unknown, or a
    named column is missing.
    """
    if spec.startswith(PYTHON):
        return PythonSource(spec)
    if spec.startswith(SQL):
        return TableSource(query_file(spec), names)
    if given.format is None and (table := table_file(spec)):
        return TableSource(table, names)
    path = Path(spec)
    if spec != STANDARD_INPUT and path.is_dir():
        if not (path / "corpus.jsonl").is_file():
            if given.format is not None:
                raise InputError(f"format={given.format!r}: {spec} is a folder; expected none")
            return FileSource.of_folder(spec, given.encoding)
        path = path / "corpus.jsonl"
    if spec != STANDARD_INPUT and not path.is_file():
        raise InputError(f"{spec}: no such file")
    if spec != STANDARD_INPUT and ending_of(path, given) not in (TEXT, *READERS):
        return _document_file(spec, path, f".{given.format}" if given.format else "", given)
    file = open_file(spec if spec == STANDARD_INPUT else str(path), path, given)
    if file.ending == TEXT:
        return TextSource(file)
    if file.ending in READERS:
        return TableSource(file, names)
    return _document_file(file.id_prefix, file.path, file.ending, FileFormat())


def _document_file(name: str, path: Path, ending: str, given: FileFormat) -> Source:
    """Open a file that is one document, or a mailbox; a given ending decides its kind."""
    source = FileSource.of_file(name, path, name + ending, given.encoding)
    if source is None:
        raise InputError(
            f"{name}: ending {ending_of(Path(name + ending), FileFormat())!r}; expected "
            f"{', '.join(READERS)}, .txt (also with .gz or .zst), .xlsx, .sqlite, .duckdb, a text, "
            "page, PDF, office file, mailbox or code, format=NAME, a folder, python:PACKAGE or "
            "sql:QUERY"
        )
    return source


class TextSource:
    """Source with one document per line; skips empty lines; ids are ``file:line``."""

    def __init__(self, file: InputFile) -> None:
        self.name, self.origin, self.notes = file.name, file, file.notes
        self.columns: Mapping[str, str] = {}

    def fingerprint(self) -> str:
        """Digest of path, size and modification time."""
        return self.origin.fingerprint()

    @property
    def place(self) -> str:
        """Location of the file."""
        return self.origin.place

    @property
    def stamp(self) -> str:
        """Stamp of the same facts as the fingerprint."""
        return self.origin.stamp()

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of the file."""
        prefix = self.origin.id_prefix if reading.prefix is None else reading.prefix
        origin = reading.origin(self.stamp)
        try:
            with open_text(self.origin.path) as lines:
                numbered = enumerate(bounded_lines(lines, self.name), start=1)
                documents = (
                    Document(f"{prefix}:{number}", text, origin=origin)
                    for number, line in numbered
                    if (text := line.strip())
                )
                yield from in_batches(documents, BATCH)
        except UNREADABLE as error:
            raise InputError(f"{self.name}{unreadable(self.origin.path, error)}") from error


def read_pairs(path: str) -> list[tuple[str, str]]:
    """Read (id, text) of every query in a file of any supported format.

    For a BEIR folder, read its queries. Generated ids use the file's name without its folder, as
    labels may.
    """
    beside = Path(path) / "queries.jsonl"
    source = open_source(str(beside) if beside.is_file() else path)
    prefix = Path(source.origin.id_prefix).name if source.origin else None
    return [(d.id, d.content) for batch in source.batches(Reading(prefix)) for d in batch]
