"""Options of sources, and of reading their files and columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from .click_commands import Argument

if TYPE_CHECKING:
    from ..sources.asked_sources import AskedSources

Text = Annotated[str | None, "Column with the text; default: text, body, content, ..."]
Vectors = Annotated[
    str | None, "Precomputed vectors: a .npy or .npz file, or a column of Parquet, JSONL or CSV."
]
Refit = Annotated[
    str,
    "auto|never|always",
    "Whether to fit the index again to new documents: auto, if it finds less than before "
    "and a fit takes less than ten times as long as the addition (else a note advises it); "
    "never; always.",
]


@dataclass(frozen=True)
class SourceOptions:
    """Sources, the names and types of their columns, and the form of their files."""

    sources: Annotated[
        list[str] | None,
        Argument(
            "SOURCE",
            "Folders and files: Markdown, rst, HTML, PDF, DOCX, ODT, PPTX, EPUB, XML, notebooks, "
            "mail, code; tables (.jsonl .json .csv .tsv .parquet .xlsx .ods .sqlite; FILE#TABLE "
            "for one of several); .txt with one document per line; also .gz and .zst. BEIR "
            "folders, - for standard input, python: for the standard library's docstrings, "
            "python:PACKAGE for a package's. Or use --sql.",
        ),
    ] = None
    sql: Annotated[
        list[str] | None,
        "A DuckDB query whose result is a source: SELECT * FROM 'a/*.parquet'; can be repeated.",
    ] = None
    text: Text = None
    id: Annotated[str | None, "Column with the id; default: id, _id, ..."] = None
    title: Annotated[str | None, "Column with the title; default: title."] = None
    types: Annotated[
        list[str] | None,
        "DuckDB types of columns: zip=VARCHAR,day=DATE; all=VARCHAR keeps every one as text.",
    ] = None
    encoding: Annotated[
        str | None, "Encoding of text files: latin-1, cp1252, utf-16, ...; default: UTF-8."
    ] = None
    file_format: Annotated[
        str | None,
        "--format",
        "jsonl, json, csv, tsv, parquet or txt; default: by the file's extension; "
        "standard input is jsonl if it starts with {, otherwise one document per line.",
    ] = None
    follow_links: Annotated[
        bool, "Follow links that lead out of a folder; links within it are always followed."
    ] = False

    def asked(self, vectors: str | None = None) -> AskedSources:
        """Collect the sources of a command that adds documents.

        Raises `InputError` if there are none, or a column's type is invalid.
        """
        from ..sources.asked_sources import AskedSources
        from ..sources.tabular.columns import checked_types

        types = self.types or []
        checked_types(types)  # before anything is read
        specs = [*(self.sources or []), *(f"sql:{query}" for query in self.sql or [])]
        if not specs:
            raise InputError("no sources; expected a file, a folder, -, python: or --sql")
        note_if_typed(specs)
        columns = (self.text, self.id, self.title)
        form = (self.encoding, self.file_format, self.follow_links)
        return AskedSources(specs, *columns, types, vectors, *form)


def note_if_typed(specs: Sequence[str]) -> None:
    """Note that typed input is read, if it is."""
    from ..sources.files.input_files import STANDARD_INPUT
    from . import console

    if STANDARD_INPUT in specs and sys.stdin is not None and sys.stdin.isatty():
        console.note("reading what you type, until Ctrl-D")
