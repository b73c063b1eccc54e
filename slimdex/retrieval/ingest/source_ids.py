"""Ids of sources' documents, unique across sources.

A file that is a document itself has its path as id: the state stores the prefix of the ids of each
folder, or of a file named individually. Ids of the first folder are bare paths; those of another
folder begin with its name.

Documents of a table without an id column get made-up ids, of the file's name and their rows. The
state stores the prefix of each file's ids. So a file that has grown replaces its own rows, however
it is named, and another file of the same name gets a longer prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import count
from os.path import exists, realpath
from pathlib import PurePath, PurePosixPath

import numpy as np

from slimdex.indexes.arrays import Rows

from ..sources.files.file_source import FileSource, place_of
from ..sources.files.input_files import InputFile, Reading, place_digest
from ..sources.source import Source, Sources
from ..store.document_store import DocumentStore
from ..store.snapshot import Snapshot

SAMPLED_FILES = 64
"""Files read to detect whether a folder has moved."""


class ChangedOriginsError(Exception):
    """Others have added sources since ids were chosen, and may have chosen the same ones."""


@dataclass
class SourceIds:
    """Prefixes of the sources' ids.

    Attributes
    ----------
    sources : those whose documents are added.
    deletes_missing : whether documents whose files are gone are deleted, and known files not read.
    readings : how to read each source, with its prefix and place.
    known_origins : those of the state: prefix -> place.
    origins : the known ones and those of the sources, except for folders and files that became part
        of an added folder.
    moved : place of a folder before it moved, or became part of an added folder -> its place now.
    notes : for the user.
    """

    sources: Sources
    deletes_missing: bool = False
    readings: list[Reading] = field(default_factory=list)
    known_origins: Mapping[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Sources, snapshot: Snapshot, *, deletes_missing: bool) -> SourceIds:
        """Choose the prefixes of the ids of sources to add to an index."""
        store = snapshot.store
        origins = snapshot.state.origins
        ids = cls(sources, deletes_missing, known_origins=origins, origins={**origins})
        for source in sources.opened:
            if isinstance(source, FileSource):
                reading = ids._of_files(source, store)
            elif source.origin is None:
                reading = Reading(place=place_digest(source.place))
            else:
                reading = ids._of_table(source, source.origin, store)
                ids.notes.append(f"no id column; ids are {reading.prefix}:1, ...")
            if deletes_missing:
                known = {origin for _, _, origin in store.of_place(reading.place)}
                reading = replace(reading, known=known)
            ids.readings.append(reading)
        return ids

    def _of_files(self, source: FileSource, store: DocumentStore) -> Reading:
        """Choose how to read a folder, or a single file, which has its id as prefix."""
        # Known folders inside this folder become parts of it.
        index = place_of(store.path)
        parts = _known_inside(source, self.origins, store)
        before = [self.origins.pop(key) for key in parts]

        # Known, inside a known folder, moved, or new.
        reading = self._of_known(source, index)
        if reading is None:
            moved = (key for key in self.origins if self._has_moved(source, key, store))
            prefix = next(moved, None)
            if prefix is None:
                prefix = self._new_prefix(source, store)
            else:
                before.append(self.origins[prefix])
                self.notes.append(f"{source.name}: taken for a folder that has moved")
            reading = Reading(prefix, _digest(source.place, index))
            self.origins[prefix] = reading.place

        # Documents of these places are of this folder now.
        self.moved |= dict.fromkeys(before, reading.place)
        self.notes += [f"{source.name}: includes {path}, known before" for path in parts.values()]
        return replace(reading, parts=parts)

    def _of_known(self, source: FileSource, index: str) -> Reading | None:
        """How to read a known folder or file, or one inside a known folder; None for others."""
        place = PurePosixPath(source.place)
        keys = {digest: key for key, digest in self.origins.items()}
        for around in (place, *place.parents):  # from the inside out
            digest = _digest(str(around), index)
            key = keys.get(digest)
            if key is not None and around == place:
                return Reading(key, digest)
            if key is not None and _is_folder(key):
                inside = place.relative_to(around).as_posix() + "/" * (not source.is_alone)
                return Reading(key + inside, digest, inside=inside)
        return None

    def _has_moved(self, source: FileSource, prefix: str, store: DocumentStore) -> bool:
        """True if a folder has mostly the documents of a known one, with the same contents.

        Only a sample is read. A folder whose files are still at the other place has not moved.
        """
        if source.is_alone or not _is_folder(prefix):
            return False
        known = store.rows_of_ids(source.ids(prefix))
        documents = store.of_place(self.origins[prefix])
        if 2 * len(known) < max(len(source.paths), len(documents)):
            return False
        paths = [path for path in source.paths if prefix + path in known]
        new = {prefix + document.id: document for document in source.some(paths, SAMPLED_FILES)}
        same = 0
        for old in store.documents([known[id] for id in new]).values():
            before = str(old.metadata.get("path"))
            if exists(before) and realpath(before) != realpath(str(new[old.id].metadata["path"])):
                return False
            same += new[old.id].content == old.content
        return 2 * same > len(new)

    def _new_prefix(self, source: FileSource, store: DocumentStore) -> str:
        """Choose a prefix that no other source has, and by which no document is replaced."""
        first = source.paths[0] if source.is_alone else ""
        for name in _names(first, PurePath(source.place)):
            prefix = name if source.is_alone or not name else f"{name}/"
            if prefix not in self.origins and not store.rows_of_ids(source.ids(prefix)):
                break
        if prefix != first:
            self.notes.append(
                f"{source.name}: ids begin with {prefix}; shorter ones are of other files"
            )
        return prefix

    def _of_table(self, source: Source, file: InputFile, store: DocumentStore) -> Reading:
        """Choose how to read a table, or another source with made-up ids."""
        place = place_digest(source.place)
        for prefix, known in self.origins.items():
            if known == place:
                return Reading(prefix, place)
        for prefix in _names(file.id_prefix, PurePath(file.place)):
            # Another source of this addition may have this prefix.
            is_free = self.origins.get(prefix) == self.known_origins.get(prefix)
            if is_free and _is_harmless(source, prefix, store):
                break
        self.origins[prefix] = place
        return Reading(prefix, place)

    def origins_after(self, now: dict[str, str]) -> dict[str, str]:
        """Return `State.origins` after this addition, given the present ones, `now`.

        Raises `ChangedOriginsError` if others have chosen ids since these were chosen, unless the
        state has these already, of an earlier batch.
        """
        if now == self.known_origins:
            return self.origins
        if not self.origins.items() <= now.items():
            raise ChangedOriginsError
        return now

    def gone_rows(self, store: DocumentStore, seen: Set[int]) -> Rows:
        """Rows of documents whose files are gone, once the sources are read.

        `seen` are hashes of the ids of documents that were read.
        """
        current = self.sources.origins(self.readings)
        gone = set[int]()
        for source, reading in zip(self.sources.opened, self.readings, strict=False):
            if not (self.deletes_missing or reading.parts):
                continue

            # Documents whose origins have changed since are left to the next sync, which reads
            # them.
            documents = store.of_place(reading.place)
            if not reading.known <= {origin for *_, origin in documents}:
                continue

            # Documents of a folder that has moved may still have its earlier place.
            for before, now in self.moved.items():
                if now == reading.place:
                    documents += store.of_place(before)
            for row, id, origin in documents:
                if origin in current or hash(id) in seen:
                    continue
                if not isinstance(source, FileSource) or source.may_go(id, reading):
                    gone.add(row)
        return np.array(sorted(gone), dtype=np.int64)


def _names(base: str, place: PurePath) -> Iterator[str]:
    """Yield candidate names: `base`, longer and longer ends of a path, then numbered names.

    The root of the path is left out. There are infinitely many numbered names.
    """
    yield base
    parts = place.relative_to(place.anchor).parts if place.is_absolute() else ()
    for start in reversed(range(len(parts))):
        name = "/".join(parts[start:])
        if len(name) > len(base):
            yield name
    for number in count(2):
        yield f"{base}~{number}"


def _digest(place: str, index: str) -> str:
    """Digest of the place of a folder or file.

    That of a folder around the index is relative to it, since both move, or are copied, as one.
    """
    inside = index.removeprefix(f"{place}/")
    return place_digest(place if inside == index else f"around {inside}")


def _known_inside(
    source: FileSource, origins: Mapping[str, str], store: DocumentStore
) -> dict[str, str]:
    """Map the keys of known folders and files inside a folder to their paths in it.

    The path of a folder ends with "/". A text file whose lines are documents is left out.
    """
    files = [*map(PurePosixPath, source.paths)]
    paths = {str(path) for file in files for path in (file, *file.parents)}
    index = place_of(store.path)
    path_of = {_digest(f"{source.place}/{path}", index): path for path in paths}
    inside = {}
    for key, place in origins.items():
        if place in path_of and not store.generated_ids(key):
            inside[key] = path_of[place] + "/" * _is_folder(key)
    return inside


def _is_folder(key: str) -> bool:
    """True if a key of the state's origins belongs to a folder, whose ids are paths."""
    return not key or key.endswith("/")


def _is_harmless(source: Source, prefix: str, store: DocumentStore) -> bool:
    """True if ids with a prefix would not replace any document of the index by a different one."""
    rows = store.generated_ids(prefix)
    if not rows:
        return True
    for batch in source.batches(Reading(prefix)):
        again = {document.id: document for document in batch if document.id in rows}
        for old in store.documents([rows[id] for id in again]).values():
            new = again[old.id]
            if new.content != old.content or not old.metadata.items() <= new.metadata.items():
                return False
    return True
