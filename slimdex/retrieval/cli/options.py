"""Options of several commands: the index, how it is opened and changed, and sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import sep
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from slimdex.errors import InputError
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from .click_commands import Argument
from .default_index import INDEX_FOLDER, INDEX_VARIABLE

if TYPE_CHECKING:
    from ..index import Index
    from ..quality.labels import UserQueries
    from ..sources.source_request import SourceRequest

DEFAULT_INDEX = f"default: {INDEX_VARIABLE}, or the nearest {INDEX_FOLDER} here or above."
Dir = Annotated[Path, Argument("DIR", f"The index's folder; {DEFAULT_INDEX}", is_index=True)]
Dirs = Annotated[
    list[str],
    Argument(
        "DIR",
        f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT_INDEX}",
        is_index=True,
    ),
]
SomeDirs = Annotated[
    list[str] | None,
    Argument("DIR", f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT_INDEX}"),
]
Where = Annotated[str | None, "A DuckDB condition on the documents' columns: year > 2000."]
Labels = Annotated[Path | None, "Labels of the queries: query, document, score (BEIR or TREC)."]
ApiKeyFile = Annotated[
    Path | None,
    "A file with the key of the encoder's server; default: OPENAI_API_KEY, for the host of "
    "OPENAI_BASE_URL.",
]
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
NoEncode = Annotated[
    bool, "Return once all documents are entered, and found by words; `encode` goes on."
]
Trust = Annotated[
    bool,
    "Run Python code that comes with the model; only for authors you trust.",
]


@dataclass(frozen=True)
class OpenOptions:
    """Options to open an existing index."""

    trust_remote_code: Trust = False
    api_key_file: ApiKeyFile = None


@dataclass(frozen=True)
class WriteOptions:
    """Options of commands that change an index."""

    wait: Annotated[
        float, "SECONDS", "How long a change waits for its turn while others write."
    ] = 30
    shared_filesystem: Annotated[
        bool, "Change it on a network file system; locks must work between all its machines."
    ] = False


@dataclass(frozen=True)
class RayOptions:
    """Processes that encode, fit and code."""

    ray: Annotated[
        str | None,
        "ADDRESS|local",
        "Encode and fit on a Ray cluster: local, for one on this machine; or the address of a "
        "running one, whose machines need slimdex, and the model at the same path as here.",
    ] = None
    workers: Annotated[
        int | None, "N", "Workers for --ray, with a CPU each; default: as many as the cluster has."
    ] = None

    @contextmanager
    def start(self) -> Iterator[Workers]:
        """Start the workers, and stop them at the end.

        >>> with RayOptions().start() as workers:
        ...     list(workers.map(abs, [-1]))
        [(-1, 1)]
        """
        if self.ray is None:
            if self.workers is not None:
                raise InputError(
                    f"--workers {self.workers} without --ray; expected --ray local or an address"
                )
            yield IN_THIS_PROCESS
            return
        # Only with --ray.
        from ..cluster.ray_workers import RayWorkers

        with RayWorkers(self.ray, self.workers) as workers:
            yield workers


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
    exclude: Annotated[
        list[str] | None,
        "PATTERN",
        "Leave out files of a folder, as a line of its .gitignore would; can be repeated.",
    ] = None
    generated: Annotated[
        bool, "Also read generated and minified files, lock files, dumps and folders of libraries."
    ] = False

    def collect(self, vectors: str | None = None) -> SourceRequest:
        """Collect the sources of a command that adds documents.

        Raises `InputError` if there are none.
        """
        # Loads tempfile and hashlib, which commands without sources do without.
        from ..sources.source_request import SourceRequest

        specs = [*(self.sources or []), *(f"sql:{query}" for query in self.sql or [])]
        if not specs:
            raise InputError("no sources; expected a file, a folder, -, python: or --sql")
        return SourceRequest(
            specs,
            self.text,
            self.id,
            self.title,
            types=self.types or [],
            vectors=vectors,
            encoding=self.encoding,
            file_format=self.file_format,
            follow_links=self.follow_links,
            exclude=[pattern.replace(sep, "/") for pattern in self.exclude or ()],
            generated=self.generated,
        )


DEFAULT_OPENING = OpenOptions()
DEFAULT_WRITING = WriteOptions()


def open_index(
    path: Path,
    opening: OpenOptions = DEFAULT_OPENING,
    writing: WriteOptions = DEFAULT_WRITING,
    workers: Workers = IN_THIS_PROCESS,
) -> Index:
    """Open an index for a command, which closes it at its end; `workers` encode, fit and code."""
    # Loads numpy, FAISS and most of slimdex in 0.2 s, which --help does without.
    from ..index import Index

    index = Index.open(path, **vars(writing), **vars(opening))
    index.workers = workers
    click.get_current_context().call_on_close(index.close)
    return index


def user_queries(queries: Path | None, qrels: Path | None) -> UserQueries | None:
    """Read queries and their labels, if any are given; raises `InputError` for labels alone."""
    # Loads readers of all formats.
    from ..quality.labels import UserQueries, read_qrels
    from ..sources.source import read_pairs

    labels = read_qrels(qrels) if qrels else None
    return UserQueries.of(read_pairs(str(queries)) if queries else None, labels)
