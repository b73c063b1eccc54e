"""Sources: files, folders and Python packages become Documents, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from slimdex.indexes.errors import InputError

from ..documents import Document
from .databases import SQL, query_file, table_file
from .docstrings import PREFIX as PYTHON
from .docstrings import PythonSource
from .duckdb_readers import READERS
from .files.file_source import FileSource, in_batches
from .origins import Reading
from .tables import BATCH, TableSource
from .tables import ColumnNames as ColumnNames
from .text_files import (
    STANDARD_INPUT,
    UNREADABLE,
    FileFormat,
    InputFile,
    bounded_lines,
    ending_of,
    open_file,
    open_text,
    unreadable,
)

TEXT = ".txt"


class Source(Protocol):
    """Where documents come from."""

    @property
    def name(self) -> str:
        """The file or package, for messages."""
        ...

    @property
    def origin(self) -> InputFile | None:
        """The file that made-up ids come from; None where documents have ids of their own."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """The user's own columns: name -> DuckDB type."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know about how the source is read."""
        ...

    def fingerprint(self) -> str:
        """Changes when the source does."""
        ...

    @property
    def place(self) -> str:
        """Where it is, by a name that no other source has."""
        ...

    @property
    def stamp(self) -> str:
        """As `origins.stamp_of` has it, of all that is read; empty where files have their own."""
        ...

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Documents in the order of the source."""
        ...


def open_source(
    spec: str, names: ColumnNames = ColumnNames(), given: FileFormat = FileFormat()
) -> Source:
    """The source that a word of the command line means.

    Raises
    ------
    InputError
        If there is no such file, folder or package, its kind is not known, or it has no column
        of the given name.
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
    """A file that is one document, or a mailbox; its kind is that of an ending, if it has one."""
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
    """One document a line; empty lines are passed over, and ids are ``file:line``."""

    def __init__(self, file: InputFile) -> None:
        self.name, self.origin, self.notes = file.name, file, file.notes
        self.columns: Mapping[str, str] = {}

    def fingerprint(self) -> str:
        """From path, size and time of change."""
        return self.origin.fingerprint()

    @property
    def place(self) -> str:
        """The file's."""
        return self.origin.place

    @property
    def stamp(self) -> str:
        """From the same as the fingerprint."""
        return self.origin.stamp()

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Documents in the order of the file."""
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
    """(id, text) of every row of a file of queries, in any of the formats above.

    Of a BEIR folder it is the queries that are read. Made-up ids have the file's name without its
    folder, as labels may.
    """
    beside = Path(path) / "queries.jsonl"
    source = open_source(str(beside) if beside.is_file() else path)
    prefix = Path(source.origin.id_prefix).name if source.origin else None
    return [(d.id, d.content) for batch in source.batches(Reading(prefix)) for d in batch]
