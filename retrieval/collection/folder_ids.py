"""Ids of files: their paths in a folder, so that another folder's file never takes one's place.

The state keeps what the ids of each folder, or file that was named by itself, begin with. Those of
the first folder are paths as they are; another folder's begin with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import PurePosixPath

from ..catalog.store import DocumentStore
from ..sources.files.file_source import FileSource
from ..sources.origins import Reading, place_digest

SAMPLE = 64
"""Files that are read to see whether a folder is one that the index has from another place."""


@dataclass(frozen=True)
class FolderIds:
    """How the files of a folder are to be read, or one that is alone, whose prefix is all its id.

    A folder inside of one that the index knows is read as a part of that.

    Attributes
    ----------
    key : of this in the state's origins.
    note : what the user should know of it.
    """

    reading: Reading
    key: str
    note: str = ""

    @classmethod
    def of(cls, source: FileSource, origins: Mapping[str, str], store: DocumentStore) -> FolderIds:
        """Those for a source that is to be added to an index."""
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
            return _of_file(source, place, mark, origins, store)
        return _of_folder(source, place, mark, origins, store)


def is_folder(key: str) -> bool:
    """Whether a key of the state's origins is of a folder, whose ids are paths."""
    return not key or key.endswith("/")


def _of_file(
    source: FileSource,
    place: PurePosixPath,
    mark: str,
    origins: Mapping[str, str],
    store: DocumentStore,
) -> FolderIds:
    (given,) = source.paths
    names = [given, *(name for name in _longer(place) if len(name) > len(given))]
    id = next(
        name
        for name in chain(names, (f"{given}~{number}" for number in count(2)))
        if name not in origins and not store.origins.is_of_others(name, mark)
    )
    note = "" if id == given else f"{source.name}: its id is {id}: {given} is another file's"
    return FolderIds(Reading(id, mark), id, note)


def _of_folder(
    source: FileSource,
    place: PurePosixPath,
    mark: str,
    origins: Mapping[str, str],
    store: DocumentStore,
) -> FolderIds:
    for key in filter(is_folder, origins):
        if _has_moved(source, key, origins[key], store):
            note = f"{source.name}: taken for a folder that has moved"
            return FolderIds(Reading(key, mark), key, note)
    names = (name for name in _names(place) if name not in origins)
    prefix = "" if not any(map(is_folder, origins)) else next(names)
    note = f"{source.name}: ids are {prefix}..., since others are of another folder"
    return FolderIds(Reading(prefix, mark), prefix, note if prefix else "")


def _names(place: PurePosixPath) -> Iterator[str]:
    """A folder's name, longer ones, and then with a number."""
    yield from (f"{name}/" for name in _longer(place))
    yield from (f"{place.name}~{number}/" for number in count(2))


def _longer(place: PurePosixPath) -> Iterator[str]:
    """The last part of a path, the last two, ..., without the root."""
    parts = place.relative_to(place.anchor).parts
    yield from ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))


def _has_moved(source: FileSource, prefix: str, place: str, store: DocumentStore) -> bool:
    """Whether a folder's files are the documents of another place, most of both, and say the same.

    Some are read to see that; then nothing is lost if they take the others' places.
    """
    there = store.ids.known([prefix + path for path in source.paths])
    if 2 * len(there) < max(len(source.paths), store.origins.count(place)):
        return False
    paths = [path for path in source.paths if prefix + path in there]
    read = {prefix + document.id: document for document in source.some(paths, SAMPLE)}
    old = store.documents.read([there[id] for id in read])
    return bool(read) and all(
        (read[found.id].title, read[found.id].text) == (found.title, found.text)
        for found in old.values()
    )
