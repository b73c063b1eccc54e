"""Documents from the files of a folder, or a single file, and notes on files that were not read."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import Any

from slimdex.errors import InputError
from slimdex.system.extras import install_command
from slimdex.system.progress import progress

from ...documents import Document
from ..reading_progress import ReadShare
from .formats.mail import message_id, messages
from .formats.source_code import lacks_grammar
from .front_matter import COLUMNS, tags
from .generated import GENERATED, LIBRARIES, REASONS, unwritten
from .input_files import Reading, stamp_of
from .kinds import BOOKS, HEAD, ending, kind_of, omission_reason
from .limits import LARGEST_BOOK, LARGEST_FILE, UnreadableError, too_large
from .outline import Extract
from .packed import ENDINGS, open_packed, unpack_head
from .reading_process import Worker
from .walking import FileEntry, Walk, as_unicode, walk, why

BATCH = 64
"""Documents in a batch, unless they are long."""
BATCH_CHARACTERS = 4 << 20
MOST_NAMED = 10
"""Files listed by name in a line."""
JSON_LISTS_ALL = " (`--json` lists all)"
UNSUPPORTED = "unsupported"
TEXTLESS = "without text"
"""Reasons for leaving out files that are listed by name; for others, files are only counted."""


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
    columns: Mapping[str, str] = {
        "path": "VARCHAR",
        "folder": "VARCHAR",
        "modified": "TIMESTAMP",
        "kind": "VARCHAR",
        **COLUMNS,
    }

    def __init__(
        self,
        name: str,
        listing: Walk,
        root: str,
        encoding: str | None = None,
        *,
        generated: bool = False,
    ) -> None:
        self.name = name
        self._listing = listing
        self._root = root
        self._encoding = encoding
        self.is_alone = False
        self._reads_generated = generated
        self.origins = set[str]()
        self._known = 0  # number of files whose documents the index has
        self._files_read = 0
        self._unreadable = list[str]()
        self._noted = FileNotes()

    @classmethod
    def of_folder(
        cls,
        spec: str,
        encoding: str | None = None,
        *,
        follow_links: bool = False,
        exclude: Sequence[str] = (),
        generated: bool = False,
    ) -> FileSource:
        """Open the files below a folder; raises `InputError` if there are no readable files.

        `exclude` are patterns of files to leave out; with `generated`, files that nobody writes by
        hand are read as well.
        """
        listing = walk(Path(spec), follow_links=follow_links, exclude=exclude, libraries=generated)
        source = cls(spec, listing, spec, encoding, generated=generated)
        if not listing.files:
            lines = source._notes_on_files().lines(hint="")
            reasons = "; ".join([*source.notes, *lines])
            raise InputError(f"{spec}: no files to read" + (f" ({reasons})" if reasons else ""))
        return source

    @classmethod
    def of_file(
        cls, name: str, path: Path, shown_as: str, encoding: str | None = None
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
        source = cls(name, Walk([FileEntry.of(path, relative, status)]), "", encoding)
        source.is_alone = True
        return source

    @property
    def notes(self) -> Sequence[str]:
        """Notes on files skipped by name."""
        hidden = self._listing.hidden
        ignored = self._listing.ignored
        indexes = self._listing.indexes
        parts = [f"{hidden:,} hidden"] if hidden else []
        parts += [f"{ignored:,} ignored by .gitignore"] if ignored else []
        parts += [f"{self._listing.excluded:,} excluded"] if self._listing.excluded else []
        parts += [f"{indexes:,} slimdex index{'es' * (indexes != 1)}"] if indexes else []
        return [f"left out: {', '.join(parts)}"] if parts else []

    def omissions(self) -> list[str]:
        """Lines on skipped files and the reasons; complete after reading."""
        return self._notes_on_files().lines()

    def file_notes(self) -> list[dict[str, str]]:
        """All files that `omissions` counts or names, as "path" and "note"; complete after reading.

        Paths include the folder as given.
        """
        noted = self._notes_on_files().as_json()
        return [{**each, "path": self._path(each["path"])} for each in noted]

    def _notes_on_files(self) -> FileNotes:
        """Return the notes of the walk and of the files read so far."""
        unread = [*self._listing.unreadable, *self._noted.unread]
        libraries = [(folder, LIBRARIES) for folder in self._listing.libraries]
        left_out = [*self._noted.left_out, *libraries]
        outside = self._listing.outside
        return replace(self._noted, left_out=left_out, unread=unread, outside=outside)

    @property
    def fingerprint(self) -> str:
        """Digest of the paths, sizes and modification times of all files."""
        options = (self._root, self._encoding, self._reads_generated)
        digest = hashlib.sha256(repr(options).encode())
        for file in self._listing.files:
            facts = (file.relative, file.size, file.mtime_ns, file.is_generated)
            digest.update(repr(facts).encode())
        return digest.hexdigest()

    @property
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

    def some(self, paths: Sequence[str], most: int) -> list[Document]:
        """Read documents of at most `most` of the given files, sampled evenly."""
        files = [file for file in self._listing.files if file.relative in set(paths)]
        step = -(-len(files) // most)  # rounded up
        sample = FileSource(self.name, Walk(files[:: max(step, 1)]), self._root, self._encoding)
        sample._reads_generated = self._reads_generated
        with closing(sample._documents(Reading())) as documents:
            return [*documents]

    def may_go(self, id: str, prefix: str) -> bool:
        """Return whether a document that was not found may be deleted; call after reading.

        False if it belongs to another folder, or to an existing file or folder that could not be
        read this time.
        """
        if self.is_alone:
            return not self._unreadable and (id == prefix or id.startswith(f"{prefix}#"))
        if not id.startswith(prefix):
            return False
        path = id[len(prefix) :]
        unread = {name for name, _ in self._listing.unreadable}.union(self._unreadable)
        for name in unread:
            is_inside = path == name or path.startswith((f"{name}#", f"{name}/"))
            if is_inside or name == ".":  # the folder itself could not be read
                return False
        return True

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of their paths, except those of known files.

        Raises `InputError` if nothing could be read.
        """
        self._unreadable.clear()
        self._noted = FileNotes()
        self.origins.clear()
        self._known = 0
        self._files_read = 0
        is_empty = True
        with closing(self._documents(reading)) as documents:
            for batch in in_batches(documents, BATCH):
                is_empty = False
                yield batch
        if is_empty and not self._known:
            if self.is_alone and self._noted.unread:
                raise InputError(f"{self.name}: can't be read ({self._noted.unread[0][1]})")
            lines = self._notes_on_files().lines(hint="")  # there is no JSON of an error
            reasons = "; ".join(lines) or "no text in them"
            raise InputError(f"{self.name}: nothing to read ({reasons})")

    @property
    def read_share(self) -> ReadShare:
        """Share of the files read so far: their sizes say little about the length of their text."""
        share = self._files_read / max(len(self._listing.files), 1)
        return ReadShare(share, share)

    def _documents(self, reading: Reading) -> Generator[Document, None, None]:
        """Yield the documents of all new or changed files, and note files that can't be read."""
        files = self._listing.files
        with Worker() as worker:
            for number, file in enumerate(files):
                progress("reading files", number, len(files))
                self._files_read = number + 1

                # A file whose stamp is known has not changed.
                stamp = self._stamp(file, reading)
                if stamp:
                    self.origins.add(reading.origin(stamp))
                if reading.has(stamp):
                    self._known += 1
                    continue

                # Documents of a file that can't be read are kept, but not those of a removed file.
                try:
                    yield from self._of_file(file, worker, reading, stamp)
                except UnreadableError as error:
                    self._unreadable.append(file.relative)
                    self._noted.unread.append((file.relative, str(error)))
                except FileNotFoundError:
                    self._noted.unread.append((file.relative, "was removed"))
                except OSError as error:
                    self._unreadable.append(file.relative)
                    self._noted.unread.append((file.relative, why(error)))
            progress("reading files", len(files), len(files))

    def _stamp(self, file: FileEntry, reading: Reading) -> str:
        """Stamp of everything that a file's documents depend on, except the folder's name."""
        path = reading.inside + ("" if self.is_alone and reading.inside else file.relative)
        facts = (self._encoding, self._reads_generated, file.is_generated, path, file.size)
        return stamp_of(max(file.mtime_ns, file.ctime_ns), *facts, file.mtime_ns)

    def _with_id_and_origin(
        self, document: Document, file: FileEntry, reading: Reading, stamp: str
    ) -> Document:
        """Return a document with its id and origin in the index."""
        # Prepend the prefix to the id; for a single file, it replaces the file's name.
        id = document.id
        folder = document.metadata["folder"]
        if reading.prefix is not None:
            id = reading.prefix + (id[len(file.relative) :] if self.is_alone else id)

        # The folder is relative to the folder that the index knows.
        if reading.inside:
            path = reading.inside + ("" if self.is_alone else file.relative)
            folder = _folder(path)
        metadata = {**document.metadata, "folder": folder}
        return replace(document, id=id, metadata=metadata, origin=reading.origin(stamp))

    def _of_file(
        self, file: FileEntry, worker: Worker, reading: Reading, stamp: str
    ) -> Iterator[Document]:
        """Yield the documents of a file: one, none, or those of a mailbox; note what is omitted."""
        with _open(file.path) as stream:
            # Kind of the file and, if it is compressed, of its content.
            head = stream.peek(HEAD)[:HEAD]
            kind = kind_of(file.relative, head)
            inner = kind
            if kind == "packed":
                head = unpack_head(stream, HEAD)
                inner = kind_of(file.relative, head)
            if inner in (None, "packed") or not head:
                self._noted.left_out.append((file.relative, omission_reason(file.relative, head)))
                return

            # A document for each message of a mailbox.
            if inner == "mailbox":
                stamp = stamp if _is_whole(file.path) else ""  # if not, it will be read again
                for message in self._messages(file, stream, worker):
                    yield self._with_id_and_origin(message, file, reading, stamp)
                return

            # One document for any other file.
            data = _contents(file, stream, LARGEST_BOOK if inner in BOOKS else LARGEST_FILE)
            if reason := self._why_generated(file, inner, head, data):
                self._noted.left_out.append((file.relative, reason))
                return
            kind, extract = worker.read(file.relative, str(kind), data, self._encoding)
            self._note_reading(file.relative, kind, extract)
            if extract.text:
                document = self._document(
                    file, file.relative, kind, extract, name=_stem(file.relative)
                )
                yield self._with_id_and_origin(document, file, reading, stamp)
            elif kind == "pdf":
                raise UnreadableError("no text; a scan needs OCR, as by ocrmypdf")
            else:
                reason = TEXTLESS if data.strip() else "empty"
                self._noted.left_out.append((file.relative, reason))

    def _note_reading(self, path: str, kind: str, extract: Extract) -> None:
        """Note what may be missing or wrong in the text of a file."""
        if extract.is_guessed and kind != "mail":
            self._noted.guessed.append(path)
        if extract.replaced:
            self._noted.replaced.append((path, extract.replaced))
        if kind == "code" and lacks_grammar(ending(path)):
            self._noted.without_grammar.append(path)
        if extract.text and extract.scanned:
            self._noted.scanned.append((path, extract.scanned, extract.facts["pages"]))

    def _why_generated(self, file: FileEntry, kind: str, head: bytes, data: bytes) -> str | None:
        """Reason to leave out a file that nobody writes by hand; None to read it."""
        if self.is_alone or self._reads_generated or file.is_generated is False:
            return None
        if file.is_generated:
            return GENERATED
        return unwritten(file.relative, kind, head, data)

    def _messages(
        self, file: FileEntry, box: io.BufferedReader, worker: Worker
    ) -> Iterator[Document]:
        """Yield a document for each message of a mailbox, noting those that can't be read."""
        counts = Counter[str]()  # number of messages of each name so far
        for number, message in enumerate(messages(open_packed(box)), start=1):
            try:
                if isinstance(message, UnreadableError):
                    raise message

                # Mailboxes may have a message twice.
                message_name = message_id(message) or str(number)
                counts[message_name] += 1
                id = f"{file.relative}#{message_name}"
                if counts[message_name] > 1:
                    id += f"~{counts[message_name]}"
                kind, extract = worker.read(file.relative, "mail", message, self._encoding)
                if extract.replaced:
                    name = f"{file.relative}, message {number:,}"
                    self._noted.replaced.append((name, extract.replaced))
                yield self._document(file, id, kind, extract, "")
            except UnreadableError as error:
                self._noted.unread.append((f"{file.relative}, message {number:,}", str(error)))

    def _document(
        self, file: FileEntry, id: str, kind: str, extract: Extract, name: str
    ) -> Document:
        """Make a document of an extract; its title is `name` if the extract has none."""
        metadata: dict[str, Any] = {
            "path": self._path(file.relative),
            "folder": _folder(file.relative),
            "modified": _moment(file.mtime_ns),
            "kind": kind,
            **extract.facts,
        }
        if "tags" in metadata:  # a string in document properties
            metadata["tags"] = tags(metadata["tags"])
        return Document(id, extract.text, extract.title or name, metadata, extract.parts)

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


def _is_whole(mailbox: Path) -> bool:
    """Return whether a mailbox can be read to its end; if not, it is read again next time."""
    try:
        with _open(mailbox) as box:
            for _ in messages(open_packed(box)):
                pass
    except (UnreadableError, OSError):
        return False
    return True


def _contents(file: FileEntry, stream: io.BufferedReader, most: int) -> bytes:
    """Read a file; raise `UnreadableError` if it has more than `most` bytes."""
    size = os.fstat(stream.fileno()).st_size
    if size > most:
        raise too_large(size, most)
    data = stream.read(most + 1)
    if len(data) > most:  # it has grown meanwhile
        raise too_large(len(data), most)
    return data


def _folder(relative: str) -> str:
    """Folder of a path; "" for the outermost one."""
    parent = PurePosixPath(relative).parent.as_posix()
    return "" if parent == "." else parent


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


@dataclass
class FileNotes:
    """Files of a source that are noted, with paths relative to it.

    Attributes
    ----------
    left_out, unread : (path, reason).
    outside : links that lead out of the folder.
    guessed : paths of files whose encoding was guessed.
    replaced : (path, number of U+FFFD that stand for bytes which can't be decoded).
    scanned : (path, number of scanned pages without text, number of pages).
    without_grammar : paths of files of code that are cut by keywords, for want of their grammar.
    """

    left_out: list[tuple[str, str]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)
    replaced: list[tuple[str, int]] = field(default_factory=list)
    scanned: list[tuple[str, int, int]] = field(default_factory=list)
    without_grammar: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def lines(self, hint: str = JSON_LISTS_ALL) -> list[str]:
        """Lines for the user; the hint follows names that are not all."""
        # Files left out: two reasons are reported with names, and the others with numbers.
        names_by_reason = defaultdict[str, list[str]](list)
        for name, reason in self.left_out:
            names_by_reason[reason].append(name)
        unsupported = names_by_reason.pop(UNSUPPORTED, [])
        textless = names_by_reason.pop(TEXTLESS, [])

        unwritten = []
        for reason in REASONS:
            if reason in names_by_reason:
                unwritten.append(_count_of(len(names_by_reason.pop(reason)), reason))
        others = []
        for reason, names in sorted(names_by_reason.items()):
            others.append(f"{len(names):,} {reason}")

        # Files that are named.
        links = _count_of(len(self.outside), "link")
        pages = _count_of(sum(n for _, n, _ in self.scanned), "scanned page")
        scans = f"{pages} of {_count_of(len(self.scanned), 'file')}"
        broken = _count_of(sum(n for _, n in self.replaced), "place")
        replaced = [f"{name} ({n:,})" for name, n in self.replaced]
        scanned = [f"{name} ({n:,} of {all:,})" for name, n, all in self.scanned]
        unread = [f"{name} ({reason})" for name, reason in self.unread]
        names_by_title = {
            f"left out: {_count_of(len(unsupported), f'{UNSUPPORTED} file')}": unsupported,
            f"left out: {_count_of(len(textless), 'file')} {TEXTLESS}": textless,
            f"left out: {links} out of the folder (follow_links=True follows links)": self.outside,
            "not UTF-8, encoding guessed (set it with encoding=latin-1 or another)": self.guessed,
            f"{broken} can't be decoded, each read as U+FFFD": replaced,
            f"left out: {scans}, without text until `ocrmypdf --skip-text` adds it": scanned,
            f"{_count_of(len(self.unread), 'file')} could not be read": unread,
        }

        # A line each.
        lines = [f"left out: {', '.join(others)}"] if others else []
        if unwritten:
            lines.append(f"left out: {', '.join(unwritten)} (generated=True reads them)")
        if self.without_grammar:
            files = _count_of(len(self.without_grammar), "file")
            lines.append(
                f"{files} of code cut by keywords, which misses some functions: "
                f"`{install_command('code')}` brings the grammars of their languages"
            )
        for title, names in names_by_title.items():
            if names:
                lines.append(f"{title}: {_first_names(names, hint)}")
        return lines

    def as_json(self) -> list[dict[str, str]]:
        """All noted files: "path" and "note"."""
        noted = [*self.left_out, *self.unread]
        for name in self.outside:
            noted.append((name, "a link out of the folder"))
        for name in self.guessed:
            noted.append((name, "not UTF-8, encoding guessed"))
        for name, count in self.replaced:
            noted.append((name, f"places that can't be decoded: {count:,}"))
        for name in self.without_grammar:
            noted.append((name, "code cut by keywords"))
        for name, scans, pages in self.scanned:
            noted.append((name, f"scanned pages: {scans:,} of {pages:,}"))
        return [{"path": name, "note": note} for name, note in sorted(noted)]


def _count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _first_names(names: Sequence[str], hint: str) -> str:
    """Join the first `MOST_NAMED` names, and say how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more{hint}" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
