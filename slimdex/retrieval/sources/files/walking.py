"""Walk of a folder: each file once, in the order of paths."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from slimdex.system.atomic_files import OUR_FILES
from slimdex.system.index_names import MANIFEST, is_index

from .generated import holds_libraries
from .ignore_rules import FILE_NAME, IgnoreRules, Rules, ignore_rules
from .input_files import FileFormat
from .limits import UnreadableError
from .notes import EXCLUDED, GENERATED, HIDDEN, IGNORED, INDEX, OUTSIDE, UNREAD, FileNotes


@dataclass(frozen=True)
class FileEntry:
    """File below a folder.

    Attributes
    ----------
    path : path to open, whose last part is no link.
    relative : path relative to the folder, with "/"; bytes that are not UTF-8 become ``\\xe9``.
    status : as the walk found it.
    """

    path: Path
    relative: str
    status: os.stat_result


@dataclass
class Walk:
    """Files below a folder in the order of paths, and notes on those that were left out."""

    files: list[FileEntry] = field(default_factory=list)
    notes: FileNotes = field(default_factory=FileNotes)


def walk(root: Path, files: FileFormat) -> Walk:
    """Find files below a folder, except hidden and ignored ones.

    The patterns in `files.exclude` prevail over the folder's own `.gitignore`. Folders of libraries
    are entered only with `files.generated`.
    Links are followed last, those to files after those to folders, and only to unvisited targets,
    so each file is found once; those that lead out of the folder only with `files.follow_links`.
    The folder itself may be a link.
    """
    walker = _Walker(root, files)
    walker.run()
    listing = walker.listing
    listing.files.sort(key=lambda file: (file.relative.split("/"), os.fsencode(file.path)))
    return listing


def leads_out(path: Path, folder: Path) -> bool:
    """Return whether a path, with all links followed, is not in a folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def as_unicode(path: str) -> str:
    r"""Convert a path to storable Unicode, composed (NFC) as it is typed.

    >>> as_unicode("caf\udce9/menu.txt"), as_unicode("cafe\u0301") == "caf\xe9"
    ('caf\\xe9/menu.txt', True)
    """
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", text)


class _Walker:
    """Walks a folder, with the parameters of `walk`; `listing` is the result."""

    def __init__(self, root: Path, files: FileFormat) -> None:
        self.listing = Walk()
        self._root = root
        self._format = files
        self._excluded = IgnoreRules(os.fsencode("\n".join(files.exclude)))
        self._real = Path(os.path.realpath(root))
        # Links to these folders are not followed: those above, and those entered so far.
        self._seen = {_identity(each.stat()) for each in (self._real, *self._real.parents)}
        self._files = set[object]()  # names and identities
        self._links: list[tuple[os.DirEntry[str], str, Rules]] = []
        self._file_links: list[tuple[os.DirEntry[str], str]] = []

    def run(self) -> None:
        """Walk the folder, then follow its links."""
        try:
            rules = Rules.around(self._real, partial(ignore_rules, follows=self._follows))
        except UnreadableError as error:
            self._unreadable("", error)
            return
        self._walk(self._root, "", rules)
        # Links last, so that what is in the folder itself keeps its own path.
        while self._links:
            links = sorted(self._links, key=lambda link: link[1])
            self._links = []
            for entry, relative, rules in links:
                self._follow(entry, relative, rules)
        for file, relative in sorted(self._file_links, key=lambda link: link[1]):
            if _identity(file.stat()) not in self._files:
                self._add(file, relative)

    def _walk(self, folder: Path, relative: str, rules: Rules) -> None:
        """List a folder and those below it, without recursion; remember links for later."""
        notes = self.listing.notes
        remaining = [(folder, relative, rules)]
        while remaining:
            folder, relative, rules = remaining.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
                rules = rules.within(folder, f"{relative}/" if relative else "")
            except (OSError, UnreadableError) as error:
                self._unreadable(relative, error)
                continue
            names = [entry.name for entry in listed]

            # Folders that are not entered.
            if MANIFEST in names and any(map(OUR_FILES.fullmatch, names)):  # a slimdex index
                notes.add(INDEX, as_unicode(relative or "."))
                continue
            if relative and not self._format.generated and holds_libraries(folder.name, names):
                notes.add(GENERATED, as_unicode(relative))
                continue

            # Their files and folders; links are followed later.
            for entry in listed:
                path = f"{relative}/{entry.name}" if relative else entry.name
                if entry.name.startswith("."):
                    if not is_index(entry.path):  # the default index, `.slimdex`, is expected here
                        notes.counts[HIDDEN] += 1
                    if entry.name == FILE_NAME and not self._follows(Path(entry.path)):
                        notes.add(OUTSIDE, as_unicode(path))
                    continue
                try:
                    is_folder = entry.is_dir()
                    if self._excluded.decision(path, is_folder=is_folder):
                        notes.counts[EXCLUDED] += 1
                    elif rules.decision(path, is_folder=is_folder):
                        notes.counts[IGNORED] += 1
                    elif entry.is_symlink():
                        self._links.append((entry, path, rules))
                    elif is_folder:
                        self._seen.add(_identity(entry.stat()))
                        remaining.append((Path(entry.path), path, rules))
                    else:
                        self._add(entry, path)
                except OSError as error:
                    self._unreadable(path, error)

    def _follow(self, entry: os.DirEntry[str], relative: str, rules: Rules) -> None:
        """Walk the folder that a link leads to, unless it was seen; remember a link to a file."""
        if not self._follows(Path(entry.path)):
            self.listing.notes.add(OUTSIDE, as_unicode(relative))
            return
        try:
            status = entry.stat()
        except OSError as error:
            self._unreadable(relative, error)
            return
        if stat.S_ISDIR(status.st_mode):
            if _identity(status) not in self._seen:
                self._seen.add(_identity(status))
                self._walk(Path(entry.path), relative, rules)
        else:  # after the folders, where it may be
            self._file_links.append((entry, relative))

    def _add(self, entry: os.DirEntry[str], relative: str) -> None:
        """List a file, or the file that a link leads to; note anything else as unreadable."""
        status = entry.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe could block forever
            self.listing.notes.add(UNREAD, as_unicode(relative), "a pipe, socket or device")
            return
        name = as_unicode(relative)
        if name in self._files:
            self.listing.notes.add(UNREAD, name, "another file has this name, in other Unicode")
            return
        self._files |= {name, _identity(status)}
        path = Path(os.path.realpath(entry.path) if entry.is_symlink() else entry.path)
        self.listing.files.append(FileEntry(path, name, status))

    def _follows(self, path: Path) -> bool:
        """Return whether to follow a path that may be a link."""
        return self._format.follow_links or not path.is_symlink() or not leads_out(path, self._real)

    def _unreadable(self, relative: str, error: Exception) -> None:
        self.listing.notes.add(UNREAD, as_unicode(relative or "."), why(error))


def why(error: Exception) -> str:
    """Why a file can't be read: an error's message, the system's in lower case."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Device and inode numbers, which identify a file or folder whatever its path."""
    return status.st_dev, status.st_ino
