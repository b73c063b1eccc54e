"""Ids of sources' documents, unique across sources.

A file that is a document itself has its path as id: the state stores the prefix of the ids of each
folder, or of a file named individually. Ids of the first folder are bare paths; those of another
folder begin with its name.

Documents of a table without an id column get made-up ids, of the file's name and their rows. The
state stores the prefix of each file's ids. So a file that has grown replaces its own rows, however
it is named, and another file of the same name gets a longer prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from os.path import isdir
from pathlib import PurePath, PurePosixPath

from ..documents import Document
from ..sources.files.file_source import FileSource, place_of
from ..sources.files.input_files import Reading, place_digest
from ..sources.source import Source
from ..store.document_store import DocumentStore
from ..store.state import State

SAMPLED_FILES = 64
"""Files read to detect whether a folder has moved."""
LISTED_FILES = 3


@dataclass(frozen=True)
class SourceIds:
    """Prefixes of the sources' ids.

    Attributes
    ----------
    readings : how to read each source, with its prefix and place.
    known_origins : those of the state: prefix -> place.
    origins : the known ones and those of the sources, except for folders and files that became part
        of an added folder.
    moved : place of a folder before it moved, or became part of an added folder -> its place now.
    parts : key in `known_origins` of a folder or file that became part of an added folder -> its
        prefix now.
    notes : for the user.
    """

    readings: Sequence[Reading] = ()
    known_origins: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def new_id(self, id: str, prefix: str) -> str | None:
        """Return the new id of a document that became part of the folder with this prefix.

        Returns None for other documents.
        """
        # Use the longest matching key, since such folders can be nested. If it is `prefix` itself,
        # the document was in this folder before.
        keys = [key for key, now in self.parts.items() if now.startswith(prefix)]
        for key in sorted([*keys, prefix], key=len, reverse=True):
            if id == key or id.startswith(key if _is_folder(key) else f"{key}#"):
                return self.parts[key] + id[len(key) :] if key in self.parts else None
        return None

    @classmethod
    def of(cls, sources: Sequence[Source], state: State, store: DocumentStore) -> SourceIds:
        """Choose the prefixes of the ids of sources to add to an index."""
        origins = dict(state.origins)
        readings = list[Reading]()
        notes = list[str]()
        moved = dict[str, str]()
        taken = set[str]()
        parts = dict[str, str]()

        for source in sources:
            # The id of a file is its path, after the prefix of its folder. Known folders inside
            # this folder become parts of it.
            if isinstance(source, FileSource):
                inner = _paths_inside(source, origins, store)
                inner_places = {key: origins.pop(key) for key in inner}
                reading, key, note = _of_folder(source, origins, store, may_have_moved=not inner)
                for inner_key, path in inner.items():
                    moved[inner_places[inner_key]] = reading.place
                    parts[inner_key] = f"{reading.prefix}{path}"
                    ids = f"{parts[inner_key]}..." if path.endswith("/") else parts[inner_key]
                    notes.append(f"{source.name}: includes {path}, known before; its ids: {ids}")
                if origins.get(key, reading.place) != reading.place:
                    moved[origins[key]] = reading.place
                origins[key] = reading.place
                readings.append(reading)
                notes += [note] if note else []
                continue

            # A table, or another source with made-up ids. A known file keeps its prefix.
            file = source.origin
            prefix = None
            digest = place_digest(source.place)
            if file is not None:
                prefix = {place: name for name, place in origins.items()}.get(digest)
                if prefix is None:
                    location = PurePath(file.place)
                    names = _names(file.id_prefix, location if location.is_absolute() else None)
                    prefix = next(names)
                    while prefix in taken or not _is_harmless(source, prefix, store):
                        prefix = next(names)
                    if prefix != file.id_prefix:
                        notes.append(f"{file.id_prefix}:1, ... are of another file")
                origins[prefix] = digest
                taken.add(prefix)
            readings.append(Reading(prefix, digest))
        notes = [*_notes(sources, readings), *notes]
        return cls(
            readings=readings,
            known_origins=state.origins,
            origins=origins,
            moved=moved,
            parts=parts,
            notes=notes,
        )


def _names(base: str, place: PurePath | None) -> Iterator[str]:
    """Yield candidate names: `base`, longer and longer ends of a path, then numbered names.

    The root of the path is left out. There are infinitely many numbered names.
    """
    yield base
    parts = () if place is None else place.relative_to(place.anchor).parts
    for start in reversed(range(len(parts))):
        name = "/".join(parts[start:])
        if len(name) > len(base):
            yield name
    for number in count(2):
        yield f"{base}~{number}"


def _of_folder(
    source: FileSource, origins: Mapping[str, str], store: DocumentStore, *, may_have_moved: bool
) -> tuple[Reading, str, str]:
    """Choose how to read a folder, or a single file, which has its id as prefix.

    Returns its reading, its key in the state's origins, and a note for the user, or "". A folder
    inside a known folder is read as a part of that. Without `may_have_moved`, an unknown folder
    counts as new.
    """
    # Known, or inside a known folder: search from the inside out.
    place = PurePosixPath(source.place)
    keys = {digest: key for key, digest in origins.items()}
    for around in (place, *place.parents):
        digest = place_digest(str(around))
        key = keys.get(digest)
        if key is not None and (_is_folder(key) or around == place):
            inside = ""
            if around != place:
                inside = place.relative_to(around).as_posix()
                inside += "" if source.is_alone else "/"
            return Reading(key + inside, digest, inside=inside), key, ""

    # A new file.
    digest = place_digest(str(place))
    if source.is_alone:
        (path,) = source.paths
        names = _names(path, place)
        id = next(names)
        while id in origins or store.is_of_others(id, digest):
            id = next(names)
        note = f"{source.name}: its id is {id}: {path} is another file's"
        return Reading(id, digest), id, "" if id == path else note

    # A folder that has moved.
    folders = {key: before for key, before in origins.items() if _is_folder(key)}
    for key, before in folders.items():
        if may_have_moved and _has_moved(source, key, before, store):
            return Reading(key, digest), key, f"{source.name}: taken for a folder that has moved"

    # A new folder: the first one needs no prefix.
    if not folders:
        return Reading("", digest), "", ""
    names = filter(None, _names(place.name, place))
    prefix = f"{next(names)}/"
    while prefix in origins:
        prefix = f"{next(names)}/"
    note = f"{source.name}: ids are {prefix}..., since others are of another folder"
    old_documents = 0
    for key, before in folders.items():
        if _has_left(source, key, before, store):
            old_documents += store.count_of_place(before)
    if old_documents:
        note += "; if that has become this one, build again, since its "
        note += f"{old_documents:,} documents stay"
    return Reading(prefix, digest), prefix, note


def _paths_inside(
    source: FileSource, origins: Mapping[str, str], store: DocumentStore
) -> dict[str, str]:
    """Map the keys of known folders and files inside a folder to their paths in it.

    The path of a folder ends with "/". A text file whose lines are documents is left out.
    """
    if source.is_alone or not origins:
        return {}

    # All files, and the folders that they are in.
    paths = {*source.paths}
    for path in source.paths:
        for folder in PurePosixPath(path).parents:
            if folder.name:
                paths.add(f"{folder}/")

    path_of = {place_digest(f"{source.place}/{path}".rstrip("/")): path for path in paths}
    inside = {}
    for key, place in origins.items():
        if place not in path_of:
            continue
        path = path_of[place]
        if _is_folder(key) == path.endswith("/") and not store.generated_ids(key):
            inside[key] = path
    return inside


def _is_folder(key: str) -> bool:
    """True if a key of the state's origins belongs to a folder, whose ids are paths."""
    return not key or key.endswith("/")


def _has_moved(source: FileSource, prefix: str, place: str, store: DocumentStore) -> bool:
    """True if a folder's files are mostly documents of another place, with the same contents.

    Only a sample is read. A folder that is still at the other place has not moved, unless it has
    been copied together with the index in it.
    """
    # Most files must be known, and most documents of that place must be in this folder; otherwise
    # the files may be a copy of a few documents. For a folder around the index, the former is
    # enough.
    is_around_index = place_of(store.path).startswith(f"{source.place}/")
    known = store.rows_of_ids([prefix + path for path in source.paths])
    all_files = 0 if is_around_index else store.count_of_place(place)
    if 2 * len(known) < max(len(source.paths), all_files):
        return False

    # Most must have the same content, and the folder must be gone from the other place.
    paths = [path for path in source.paths if prefix + path in known]
    new = {prefix + document.id: document for document in source.some(paths, SAMPLED_FILES)}
    old = store.documents([known[id] for id in new]).values()
    same = 0
    for document in old:
        again = new[document.id]
        same += (again.title, again.text) == (document.title, document.text)
    is_still_there = not is_around_index and any(_is_at(place, each, prefix) for each in old)
    return 2 * same > len(new) and not is_still_there


def _has_left(source: FileSource, prefix: str, place: str, store: DocumentStore) -> bool:
    """True if a folder has files that are documents of another place, whose folder is gone."""
    known = store.rows_of_ids([prefix + path for path in source.paths])
    old = store.documents([*known.values()][:SAMPLED_FILES]).values()
    return bool(old) and not any(_is_at(place, each, prefix) for each in old)


def _is_at(place: str, document: Document, prefix: str) -> bool:
    """True if the folder from which a document was read still exists, and is at this place."""
    # The column `path` has the path of the file, which ends with the id.
    path = str(document.metadata.get("path", ""))
    relative = document.id.removeprefix(prefix)
    folder = path.removesuffix(relative) or "."
    return path.endswith(relative) and place_digest(place_of(folder)) == place and isdir(folder)


def _is_harmless(source: Source, prefix: str, store: DocumentStore) -> bool:
    """True if ids with a prefix would not replace any document of the index by a different one."""
    rows = store.generated_ids(prefix)
    if not rows:
        return True
    for batch in source.batches(Reading(prefix)):
        again = {document.id: document for document in batch if document.id in rows}
        documents = store.documents([rows[id] for id in again])
        if not all(_has_all_values_of(again[old.id], old) for old in documents.values()):
            return False
    return True


def _has_all_values_of(new: Document, old: Document) -> bool:
    """True if a document has the same text as an older one, and all of its values."""
    if (new.title, new.text) != (old.title, old.text):
        return False
    new_values = {name.lower(): value for name, value in new.metadata.items()}
    for name, value in old.metadata.items():
        new_value = new_values.get(name.lower())
        if value is not None and new_value != value and str(new_value) != str(value):
            return False
    return True


def _notes(sources: Sequence[Source], readings: Sequence[Reading]) -> list[str]:
    """Notes for the user about ids that were made up."""
    names = []
    ids = []
    for source, reading in zip(sources, readings, strict=True):
        if reading.prefix and source.origin is not None:
            names.append(source.name)
            ids.append(f"{reading.prefix}:1, ...")
    if not ids:
        return []
    if len(ids) == 1:
        return [f"{names[0]}: no id column; ids are {ids[0]}"]
    listed = "; ".join(ids[:LISTED_FILES])
    more = f"; and so on for {len(ids) - LISTED_FILES:,} more" if len(ids) > LISTED_FILES else ""
    return [f"{len(ids):,} files have no id column; ids are {listed}{more}"]
