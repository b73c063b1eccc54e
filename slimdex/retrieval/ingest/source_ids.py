"""Made-up ids, derived from a file's name and rows, unique across files.

The state stores the prefix of each file's ids. So a file that has grown replaces its own rows,
however it is named, and another file of the same name gets a longer prefix. Files that are
documents themselves have their paths as ids: see `folder_ids`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import PurePath, PurePosixPath
from typing import Any

from ..documents import Document
from ..sources.files.file_source import FileSource
from ..sources.origins import Reading, place_digest
from ..sources.source import Source
from ..sources.text_files import InputFile
from ..store.document_store import DocumentStore
from ..store.state import State

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
    rows = store.ids.made_up(prefix)
    if not rows:
        return True
    for batch in source.batches(Reading(prefix)):
        again = {document.id: document for document in batch if document.id in rows}
        documents = store.documents.read([rows[id] for id in again])
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


SAMPLE = 64
"""Files read to detect whether a folder has moved."""


@dataclass(frozen=True)
class FolderIds:
    """Prefix and origin of a folder's files, or of a single file, whose prefix is its id.

    A folder inside a known folder, whose `key` in the state's origins it has, is read as part of
    that. The note is for the user.
    """

    reading: Reading
    key: str
    note: str = ""

    @classmethod
    def of(cls, source: FileSource, origins: Mapping[str, str], store: DocumentStore) -> FolderIds:
        """Choose prefix and origin of a source to add to an index."""
        place, keys = PurePosixPath(source.place), {mark: key for key, mark in origins.items()}
        for around in (place, *place.parents):
            mark = place_digest(str(around))
            key = keys.get(mark)
            if key is not None and (is_folder(key) or around == place):
                below = place.relative_to(around).as_posix()
                inside = "" if below == "." else below if source.is_alone else f"{below}/"
                return cls(Reading(key + inside, mark, inside=inside), key)
        mark = place_digest(str(place))
        if source.is_alone:
            (given,) = source.paths
            names = [given, *(name for name in _longer(place) if len(name) > len(given))]
            id = next(
                name
                for name in chain(names, (f"{given}~{number}" for number in count(2)))
                if name not in origins and not store.origins.is_of_others(name, mark)
            )
            note = f"{source.name}: its id is {id}: {given} is another file's"
            return cls(Reading(id, mark), id, "" if id == given else note)
        for key in filter(is_folder, origins):
            if _has_moved(source, key, origins[key], store):
                note = f"{source.name}: taken for a folder that has moved"
                return cls(Reading(key, mark), key, note)
        free = (name for name in _names(place) if name not in origins)
        prefix = "" if not any(map(is_folder, origins)) else next(free)
        note = f"{source.name}: ids are {prefix}..., since others are of another folder"
        return cls(Reading(prefix, mark), prefix, note if prefix else "")


def is_folder(key: str) -> bool:
    """True if a key of the state's origins belongs to a folder, whose ids are paths."""
    return not key or key.endswith("/")


def _names(place: PurePosixPath) -> Iterator[str]:
    """Candidate prefixes: a folder's name, longer paths, then numbered names."""
    yield from (f"{name}/" for name in _longer(place))
    yield from (f"{place.name}~{number}/" for number in count(2))


def _longer(place: PurePosixPath) -> Iterator[str]:
    """The last part of a path, the last two, ..., without the root."""
    parts = place.relative_to(place.anchor).parts
    yield from ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))


def _has_moved(source: FileSource, prefix: str, place: str, store: DocumentStore) -> bool:
    """True if a folder's files are mostly documents of another place, with the same contents.

    Only a sample is read; nothing is lost if they replace the others.
    """
    known = store.ids.known([prefix + path for path in source.paths])
    if 2 * len(known) < max(len(source.paths), store.origins.count(place)):
        return False
    paths = [path for path in source.paths if prefix + path in known]
    read = {prefix + document.id: document for document in source.some(paths, SAMPLE)}
    old = store.documents.read([known[id] for id in read])
    return bool(read) and all(
        (read[stored.id].title, read[stored.id].text) == (stored.title, stored.text)
        for stored in old.values()
    )
