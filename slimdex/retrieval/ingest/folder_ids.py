"""Ids of files: their paths in a folder, unique across folders.

The state stores the prefix of the ids of each folder, or of a file named individually. Ids of the
first folder are bare paths; those of another folder begin with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import PurePosixPath

from ..sources.files.file_source import FileSource
from ..sources.files.input_files import Reading, place_digest
from ..store.document_store import DocumentStore

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
                if name not in origins and not store.is_of_others(name, mark)
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
    known = store.known_ids([prefix + path for path in source.paths])
    if 2 * len(known) < max(len(source.paths), store.count_of_place(place)):
        return False
    paths = [path for path in source.paths if prefix + path in known]
    read = {prefix + document.id: document for document in source.some(paths, SAMPLE)}
    old = store.read([known[id] for id in read])
    return bool(read) and all(
        (read[stored.id].title, read[stored.id].text) == (stored.title, stored.text)
        for stored in old.values()
    )
