"""Documents from the files of a folder, or a single file, and notes on files that were not read."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing, suppress
from copy import deepcopy
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import Any

from slimdex.errors import InputError
from slimdex.system.once import cached_property
from slimdex.system.progress import progress

from ...documents import Document, check_document
from .decoding import REPLACEMENT
from .formats.mail import message_id, messages
from .formats.source_code import lacks_grammar
from .formats.xml_files import DTDS, declare
from .front_matter import tags
from .generated import is_generated
from .input_files import FileFormat, Reading, stamp_of
from .kinds import BOOKS, HEAD, ending, kind_of, omission_note
from .limits import LARGEST_BOOK, LARGEST_DTD, LARGEST_FILE, UnreadableError, size
from .notes import BROKEN, EMPTY, GENERATED, GUESSED, SCANNED, TEXTLESS, UNREAD, WITHOUT_GRAMMAR
from .outline import Extract
from .packed import ENDINGS, open_packed
from .reading_process import Worker
from .walking import FileEntry, Walk, as_unicode, walk, why

BATCH = 64
"""Documents in a batch, unless they are long."""
BATCH_CHARACTERS = 4 << 20


class FileSource:
    """Source with a document for each file below a folder, or for each message of a mailbox.

    Ids are paths relative to the folder; for a message, ``#`` and its message id follow the path.
    Unreadable files are skipped and reported by `omissions`.

    Attributes
    ----------
    is_alone : True for a single file.
    origins : origins of the existing files; complete after reading.
    """

    origin: None = None
    notes: Sequence[str] = ()

    def __init__(
        self,
        name: str,
        listing: Walk,
        root: str,
        files: FileFormat = FileFormat(),
    ) -> None:
        self.name = name
        self._listing = listing
        self._root = root
        self._format = files
        self.is_alone = False
        self.origins = set[str]()
        self._notes = listing.notes

    @classmethod
    def of_folder(cls, spec: str, files: FileFormat = FileFormat()) -> FileSource:
        """Open the files below a folder; raises `InputError` if there are no readable files."""
        listing = walk(Path(spec), files)
        if not listing.files:
            reasons = "; ".join(listing.notes.lines()) or "it is empty"
            raise InputError(f"{spec}: no files to read ({reasons})")
        return cls(spec, listing, spec, files)

    @classmethod
    def of_file(
        cls, name: str, path: Path, shown_as: str, files: FileFormat = FileFormat()
    ) -> FileSource | None:
        """Open a single file; None if its kind is not supported.

        `shown_as` is the file's id, which also determines its ending.
        """
        path = Path(os.path.realpath(path))
        status = path.stat()
        with path.open("rb") as file:
            head = file.read(HEAD)
        if kind_of(shown_as, head) is None:
            return None
        relative = as_unicode(os.path.normpath(shown_as)).replace(os.sep, "/")
        source = cls(name, Walk([FileEntry(path, relative, status)]), "", files)
        source.is_alone = True
        return source

    def omissions(self) -> list[str]:
        """Lines on skipped files and the reasons; complete after reading."""
        return self._notes.lines()

    def file_notes(self) -> list[dict[str, str]]:
        """All files that `omissions` names, as "path" and "note"; complete after reading.

        Paths include the folder as given.
        """
        return [{**each, "path": self._path(each["path"])} for each in self._notes.as_json()]

    @property
    def fingerprint(self) -> str:
        """Digest of the stamps of all files; empty if one was modified just now."""
        stamps = [self._stamp(file) for file in self._listing.files]
        return stamp_of(0, *stamps) if all(stamps) else ""

    @cached_property
    def place(self) -> str:
        """Absolute path of the folder or file."""
        path = self._listing.files[0].path if self.is_alone else Path(self._root)
        return place_of(path)

    @property
    def paths(self) -> list[str]:
        """Paths of the files relative to the folder, or a single file's name as given."""
        return [file.relative for file in self._listing.files]

    @property
    def places(self) -> list[str]:
        """Absolute paths of the files."""
        if self.is_alone:
            return [self.place] * len(self._listing.files)  # none if the file is left out
        return [f"{self.place}/{path}" for path in self.paths]

    def leave_out(self, places: Set[str]) -> None:
        """Leave out files that another source reads."""
        stay = [place not in places for place in self.places]
        self._listing.files = [*compress(self._listing.files, stay)]

    def leave_out_document(self, document: Document, error: Exception) -> bool:
        """Note a file whose document can't be added; return False if it is of another source."""
        path = str(document.metadata.get("path")).removeprefix(f"{self._path('')}/")
        is_own = path in self.paths
        if is_own:
            self._notes.add(UNREAD, path, why(error))
        return is_own

    def some(self, paths: Sequence[str], most: int) -> list[Document]:
        """Read documents of at most `most` of the given files, sampled evenly."""
        files = [file for file in self._listing.files if file.relative in set(paths)]
        step = -(-len(files) // most)  # rounded up
        sample = Walk(files[:: max(step, 1)])
        source = FileSource(self.name, sample, self._root, self._format)
        with closing(source._documents(Reading())) as documents:
            return [*documents]

    def ids(self, prefix: str) -> list[str]:
        """Ids of the files, with a prefix; for a single file, this is its id."""
        return [prefix] if self.is_alone else [prefix + path for path in self.paths]

    def may_go(self, id: str, reading: Reading) -> bool:
        """Return whether a document that was not found may be deleted; call after reading.

        False if it belongs to another folder, or to an existing file or folder that could not be
        read this time.
        """
        # The path of its file, and perhaps "#" and a message id.
        path_of = {reading.prefix or "": self.paths[0] if self.is_alone else "", **reading.parts}
        prefix = max(filter(id.startswith, path_of), key=len, default=None)
        if prefix is None or (self.is_alone and id[len(prefix) :][:1] not in ("", "#")):
            return False
        path = path_of[prefix] + id[len(prefix) :]
        for unread in self._notes.paths(UNREAD):
            if unread in (".", path) or path.startswith((f"{unread}#", f"{unread}/")):
                return False
        return True

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of their paths, except those of known files.

        Raises `InputError` if nothing could be read.
        """
        self._notes = deepcopy(self._listing.notes)
        self.origins.clear()
        is_empty = True
        with closing(self._documents(reading)) as documents:
            for batch in in_batches(documents, BATCH):
                is_empty = False
                yield batch
        if is_empty and self.origins.isdisjoint(reading.known):
            reasons = "; ".join(self.omissions()) or "no text in them"
            raise InputError(f"{self.name}: nothing to read ({reasons})")

    def _documents(self, reading: Reading) -> Generator[Document, None, None]:
        """Yield the documents of all new or changed files, and note files that can't be read."""
        files = self._listing.files
        with Worker() as worker:
            for number, file in enumerate(files):
                progress("reading files", number, len(files))

                # A file whose stamp is known has not changed.
                stamp = self._stamp(file)
                if stamp:
                    self.origins.add(reading.origin(stamp))
                if reading.has(stamp):
                    continue

                # One broken file must not stop the others.
                try:
                    yield from map(check_document, self._of_file(file, worker, reading, stamp))
                except FileNotFoundError:
                    pass  # it was removed since the walk
                except Exception as error:
                    self._notes.add(UNREAD, file.relative, why(error))
            progress("reading files", len(files), len(files))

    def _stamp(self, file: FileEntry) -> str:
        """Stamp of everything that a file's documents depend on, such as its absolute path."""
        options = (self._format.encoding, self._format.generated)
        status = file.status
        path = self.place if self.is_alone else f"{self.place}/{file.relative}"
        facts = (path, status.st_size, status.st_mtime_ns)
        return stamp_of(max(status.st_mtime_ns, status.st_ctime_ns), *options, *facts)

    def _of_file(
        self, file: FileEntry, worker: Worker, reading: Reading, stamp: str
    ) -> Iterator[Document]:
        """Yield the documents of a file: one, none, or those of a mailbox; note what is omitted."""
        with _open(file.path) as stream:
            content = open_packed(stream)
            head = content.read(HEAD)
            content.seek(0)
            kind = kind_of(file.relative, head)
            if kind in (None, "packed") or not head:
                self._notes.add(omission_note(file.relative, head), file.relative)
                return
            if kind == "mailbox":
                stamp = stamp if _is_whole(file.path) else ""  # if not, it will be read again
                for id, extract in self._messages(file, content, worker):
                    yield self._document(file, "mail", id, extract, reading, stamp)
                return

            # One document for any other file.
            most = LARGEST_BOOK if kind in BOOKS else LARGEST_FILE
            data = content.read(most + 1)
            if len(data) > most:
                raise UnreadableError(f"over {size(most)}")
        reads_all = self.is_alone or self._format.generated
        if not reads_all and is_generated(file.relative, kind, data):
            self._notes.add(GENERATED, file.relative)
            return
        if kind == "xml":
            data = _with_dtds(file.path, data)
        extract = worker.read(file.relative, kind, data, self._format.encoding)
        self._note_reading(file.relative, kind, extract)
        if extract.text:
            yield self._document(file, kind, file.relative, extract, reading, stamp)
        elif not extract.scanned:
            self._notes.add(TEXTLESS if data.strip() else EMPTY, file.relative)

    def _note_reading(self, path: str, kind: str, extract: Extract) -> None:
        """Note what may be missing or wrong in the text of a file."""
        if extract.is_guessed:
            self._notes.add(GUESSED, path)
        if broken := extract.text.count(REPLACEMENT):
            self._notes.add(BROKEN, path, f"{broken:,}")
        if kind == "code" and lacks_grammar(ending(path)):
            self._notes.add(WITHOUT_GRAMMAR, path)
        if extract.scanned:
            self._notes.add(SCANNED, path, f"{extract.scanned:,} of {extract.facts['pages']:,}")

    def _messages(self, file: FileEntry, box: Any, worker: Worker) -> Iterator[tuple[str, Extract]]:
        """Yield the id and content of each message of a mailbox; note those that can't be read."""
        counts = Counter[str]()  # number of messages of each name so far
        for number, message in enumerate(messages(box), start=1):
            place = f"{file.relative}, message {number:,}"
            try:
                if isinstance(message, UnreadableError):
                    raise message
                extract = worker.read(file.relative, "mail", message, self._format.encoding)
            except UnreadableError as error:
                self._notes.add(UNREAD, place, str(error))
                continue
            self._note_reading(place, "mail", extract)

            # Mailboxes may have a message twice.
            name = message_id(message) or str(number)
            counts[name] += 1
            again = f"~{counts[name]}" if counts[name] > 1 else ""
            yield f"{file.relative}#{name}{again}", extract

    def _document(
        self,
        file: FileEntry,
        kind: str,
        id: str,
        extract: Extract,
        reading: Reading,
        stamp: str,
    ) -> Document:
        """Make a document of an extract; without a title, a file has its name, a message none."""
        title = extract.title or (_stem(file.relative) if id == file.relative else "")
        folder = PurePosixPath(self._path_inside(file, reading)).parent.as_posix()
        metadata: dict[str, Any] = {
            "path": self._path(file.relative),
            "folder": "" if folder == "." else folder,
            "modified": _moment(file.status.st_mtime_ns),
            "kind": kind,
            **extract.facts,
        }
        if "tags" in metadata:  # a string in document properties
            metadata["tags"] = tags(metadata["tags"])

        # Prepend the prefix to the id; for a single file, it replaces the file's name.
        if reading.prefix is not None:
            id = reading.prefix + (id[len(file.relative) :] if self.is_alone else id)
        origin = reading.origin(stamp)
        return Document(id, extract.text, title, metadata, extract.parts, origin=origin)

    def _path_inside(self, file: FileEntry, reading: Reading) -> str:
        """Path of a file in the folder that the index knows."""
        return reading.inside + ("" if self.is_alone and reading.inside else file.relative)

    def _path(self, relative: str) -> str:
        """Path of a file, including the folder as given."""
        return (PurePosixPath(as_unicode(self._root).replace(os.sep, "/")) / relative).as_posix()


def place_of(path: str | Path) -> str:
    """Unique name of a file's or folder's location: its absolute path, with slashes."""
    return as_unicode(os.path.realpath(path)).replace(os.sep, "/")


def in_batches(documents: Iterable[Document], most: int) -> Iterator[list[Document]]:
    """Yield documents in lists of at most `most`, or fewer if they are long."""
    batch = list[Document]()
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if len(batch) == most or characters > BATCH_CHARACTERS:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch


def _open(path: Path) -> Any:
    """Open a regular file, if it has not become a link or a pipe since the walk."""
    # No system has all of these flags.
    flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    descriptor = os.open(path, os.O_RDONLY | sum(flags))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError("not a file")
    return open(descriptor, "rb", buffering=1 << 16)


def _with_dtds(path: Path, data: bytes) -> bytes:
    """Add the entities of the document types beside an XML file."""
    for name in DTDS.findall(data[:HEAD]):
        with suppress(OSError, UnreadableError), _open(path.with_name(name.decode())) as dtd:
            data = declare(data, dtd.read(LARGEST_DTD))
    return data


def _is_whole(mailbox: Path) -> bool:
    """Return whether a mailbox can be read to its end; if not, it is read again next time."""
    try:
        with _open(mailbox) as box:
            for _ in messages(open_packed(box)):
                pass
    except Exception:
        return False
    return True


def _stem(relative: str) -> str:
    """Name of a file without its ending: "notes" for "a/notes.txt" and "a/notes.txt.gz"."""
    path = PurePosixPath(relative)
    path = path.with_suffix("") if path.suffix.lower() in ENDINGS else path
    return path.name if path.suffix == "" else path.stem


def _moment(nanoseconds: int) -> datetime | None:
    """Convert nanoseconds since 1970 to a time in UTC, without a zone; None if out of range."""
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
