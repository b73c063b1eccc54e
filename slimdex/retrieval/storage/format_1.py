"""Format 1: indexes of before segments, whose documents and state were in one DuckDB file.

They are converted when they are first opened. The new manifest's rename commits that, so a kill
leaves an index of the one format or of the other.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError, InputError

from ..atomic_files import CATALOG, MANIFEST, file_name, publish, sync
from ..catalog.engine import started
from ..catalog.passages_table import DocumentRows
from ..catalog.readings import ENTRY, ReadingFile
from ..catalog.schema import check_plain
from ..catalog.segments import written_by
from ..catalog.state import Segment, State
from ..duckdb_library import duckdb
from ..locks import FileLock
from ..sql import literal
from .manifest import Checksums, Manifest

OWN = ("row", "id", "title", "text", "deleted", "slimdex_origin")
"""Columns of the old table of documents that are not the user's."""


def convert(folder: Path, wait: float) -> None:
    """Give an index of format 1 a manifest and segments.

    Raises `InputError` if a commit was interrupted, which only the version that began it can end,
    or if the folder can't be written to.
    """
    with FileLock(folder, "writer").held(wait):
        if (folder / MANIFEST).exists():  # by another process, meanwhile
            return
        for left in (f"{CATALOG}.wal", f"{CATALOG}.journal"):
            if (folder / left).exists():
                raise InputError(
                    f"{folder / left}: an interrupted commit of an older slimdex; expected that "
                    "version to open the index first, and end it"
                )
        with closing(started(folder.absolute())) as connection:
            try:
                connection.execute(
                    f"ATTACH {literal(str((folder / CATALOG).absolute()))} AS old (READ_ONLY)"
                )
                check_plain(connection, "old")
                manifest = _converted(folder, connection)
            except InputError:
                raise
            except (duckdb.Error, CorruptError, KeyError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise CorruptError(f"{folder / CATALOG}: not of format 1 ({reason})") from error
        sync(folder)
        publish(folder / MANIFEST, manifest.write)
        sync(folder)


def _converted(folder: Path, connection: duckdb.DuckDBPyConnection) -> Manifest:
    """Write the files of a manifest, and return it."""
    ((format_, body),) = connection.execute("SELECT format, body FROM old.state").fetchall()
    if format_ != 1:
        raise ValueError(f"format {format_}")
    values: dict[str, Any] = json.loads(body)
    generation, rows = values["generation"] + 1, values["rows"]
    if values["staged"] != rows:
        raise InputError(
            f"{folder}: an addition that an older slimdex began; expected that version to end it"
        )
    segments = list[Segment]()
    if rows:
        path = folder / file_name("segment", generation)
        documents = 'SELECT * EXCLUDE (deleted) FROM old.documents ORDER BY "row"'
        passages = 'SELECT * FROM old.passages ORDER BY "row"'
        segments.append(written_by(connection, path, (0, rows), documents, passages))
    generation += 1
    partly = np.array(
        connection.execute('SELECT "row", tokens, read FROM old.partly_read ORDER BY 1').fetchall(),
        dtype=ENTRY,
    ).reshape(-1, 3)
    checksums = _checksums(connection)
    readings = None
    if len(partly):
        file = ReadingFile(folder / file_name("readings", generation)).followed_by(partly)
        readings = file.path.name
        checksums = checksums.followed_by(
            {readings: (0, [*file.blocks()])}, {*checksums.digits, readings}
        )
    values |= {
        "generation": generation,
        "segments": [vars(segment) for segment in segments],
        "readings": readings,
        "readings_count": len(partly),
        "kept": [],
        "files": {role: file for role, file in values["files"].items() if role != "before"},
    }
    several = f'len(starts) FROM old.passages WHERE len(starts) > 1 AND "row" < {rows}'
    firsts, counts = _rows(connection, several)
    document_rows = DocumentRows(firsts, counts)
    deleted, _ = _rows(connection, f'1 FROM old.documents WHERE deleted AND "row" < {rows}')
    textless, _ = _rows(connection, f'1 FROM old.partly_read WHERE tokens = 0 AND "row" < {rows}')
    described = connection.execute("DESCRIBE old.documents").fetchall()
    columns = {name: type_ for name, type_, *_ in described if name not in OWN}
    return Manifest(
        State.from_json(json.dumps(values)),
        columns,
        document_rows.all_rows(deleted),
        np.unique(textless),
        document_rows,
        checksums,
    )


def _rows(connection: duckdb.DuckDBPyConnection, rest: str) -> tuple[Rows, Rows]:
    """Rows that a query selects, and a number beside each."""
    found = connection.execute(f'SELECT "row", {rest} ORDER BY 1').fetchall()
    both = np.array(found, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _checksums(connection: duckdb.DuckDBPyConnection) -> Checksums:
    digits = dict[str, str]()
    blocks = connection.execute("SELECT file, sha256 FROM old.blocks ORDER BY file, block")
    for file, checksum in blocks.fetchall():
        digits[file] = digits.get(file, "") + checksum
    return Checksums(digits)
