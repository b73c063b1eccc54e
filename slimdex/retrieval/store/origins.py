"""Origins that have changed since their documents were added, in a file that a commit replaces.

An origin is where a document came from: a digest of the place (32 characters), "/", and a stamp
that changes with the file, or none if unknown. `sources.origins` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from slimdex.errors import CorruptError
from slimdex.system.atomic_files import FileRecord, publish
from slimdex.system.json_text import parse_json

Origins = Mapping[int, str | None]
"""First row of a document -> its origin, if that differs from the one in the log."""


def read_origins(folder: Path, record: FileRecord | None) -> Origins:
    """Read the changed origins; none without a file.

    If the file is damaged, this also returns none: a sync then finds other origins and reads its
    files again.
    """
    if record is not None:
        record.check_size(folder)  # an older state's may be gone
        with suppress(CorruptError, ValueError, AttributeError):
            record.check(folder)
            read = parse_json((folder / record.name).read_text())
            return {int(row): origin for row, origin in read.items()}
    return {}


def write_origins(path: Path, origins: Origins) -> FileRecord:
    """Write origins to a file."""
    text = json.dumps({str(row): origin for row, origin in origins.items()})
    return publish(path, lambda new: new.write_text(text))
