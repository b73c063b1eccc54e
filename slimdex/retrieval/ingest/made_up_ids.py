"""Made-up ids, derived from a file's name and rows, unique across files.

The state stores the prefix of each file's ids. So a file that has grown replaces its own rows,
however it is named, and another file of the same name gets a longer prefix. Files that are
documents themselves have their paths as ids: see `folder_ids`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import Any

from ..documents import Document
from ..sources.files.file_source import FileSource
from ..sources.files.input_files import InputFile, Reading, place_digest
from ..sources.source import Source
from ..store.document_store import DocumentStore
from ..store.state import State
from .folder_ids import FolderIds

LISTED_FILES = 3


@dataclass(frozen=True)
class MadeUpIds:
    """Prefixes of the sources' ids.

    `origins` are the state's, `known_origins`, with those of these sources.
    """

    readings: Sequence[Reading]
    known_origins: Mapping[str, str]
    origins: Mapping[str, str]
    notes: Sequence[str]

    @classmethod
    def of(cls, sources: Sequence[Source], state: State, store: DocumentStore) -> MadeUpIds:
        """Choose the prefixes of sources to add to an index."""
        origins, readings, notes = dict(state.origins), list[Reading](), list[str]()
        taken = set[str]()
        for source in sources:
            if isinstance(source, FileSource):
                ids = FolderIds.of(source, origins, store)
                origins[ids.key] = ids.reading.place
                readings.append(ids.reading)
                notes += [ids.note] if ids.note else []
                continue
            file, prefix, digest = source.origin, None, place_digest(source.place)
            if file is not None:
                known = {mark: name for name, mark in origins.items()}
                prefix = known.get(digest)
                if prefix is None:
                    prefix = next(
                        name
                        for name in _candidates(file)
                        if name not in taken and _is_harmless(source, name, store)
                    )
                    if prefix != file.id_prefix:
                        notes.append(f"{file.id_prefix}:1, ... are of another file")
                origins[prefix] = digest
                taken.add(prefix)
            readings.append(Reading(prefix, digest))
        return cls(readings, state.origins, origins, [*_notes(sources, readings), *notes])


def _candidates(file: InputFile) -> Iterator[str]:
    """Candidate prefixes: the file's name as given, longer paths, then numbered names."""
    parts = PurePath(file.place).parts
    yield file.id_prefix
    if PurePath(file.place).is_absolute():
        for length in range(1, len(parts) + 1):
            longer = PurePath(*parts[-length:]).as_posix()
            if len(longer) > len(file.id_prefix):
                yield longer
    yield from (f"{file.id_prefix}~{number}" for number in count(2))


def _is_harmless(source: Source, prefix: str, store: DocumentStore) -> bool:
    """True if no document of the index would be replaced by different content."""
    rows = store.made_up_ids(prefix)
    if not rows:
        return True
    for batch in source.batches(Reading(prefix)):
        again = {document.id: document for document in batch if document.id in rows}
        documents = store.read([rows[id] for id in again])
        if not all(_has_all_values_of(again[old.id], old) for old in documents.values()):
            return False
    return True


def _has_all_values_of(new: Document, old: Document) -> bool:
    values = {name.lower(): value for name, value in new.metadata.items()}
    return (new.title, new.text) == (old.title, old.text) and all(
        value is None or _is_same(values.get(name.lower()), value)
        for name, value in old.metadata.items()
    )


def _is_same(new: Any, old: Any) -> bool:
    return bool(new == old) or str(new) == str(old)


def _notes(sources: Sequence[Source], readings: Sequence[Reading]) -> list[str]:
    pairs = zip(sources, readings, strict=True)
    made = [(s.name, r.prefix) for s, r in pairs if r.prefix and s.origin is not None]
    if not made:
        return []
    if len(made) == 1:
        ((name, prefix),) = made
        return [f"{name}: no id column; ids are {prefix}:1, ..."]
    ids = "; ".join(f"{prefix}:1, ..." for _, prefix in made[:LISTED_FILES])
    more = f"; and so on for {len(made) - LISTED_FILES:,} more" if len(made) > LISTED_FILES else ""
    return [f"{len(made):,} files have no id column; ids are {ids}{more}"]
