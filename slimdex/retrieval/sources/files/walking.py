"""Walk of a folder: each file once, in the order of paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slimdex.system.atomic_files import OUR_FILES
from slimdex.system.index_names import MANIFEST, is_index

from .generated import holds_libraries
from .ignore_rules import FILE_NAME, IgnoreRules, Rules, attribute_rules, ignore_rules
from .limits import UnreadableError

ODD = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""Special files; opening one could block forever."""
ANY_NAME = "*"
"""Name of a file that only patterns for all files match."""


@dataclass(frozen=True)
class FileEntry:
    """File below a folder.

    Attributes
    ----------
    path : path to open, whose last part is no link.
    relative : path relative to the folder, with "/"; bytes that are not UTF-8 become ``\\xe9``.
    size, mtime_ns, ctime_ns : as the walk found them.
    is_generated : as a `.gitattributes` says; None if none says anything.
    """

    path: Path
    relative: str
    size: int
    mtime_ns: int
    ctime_ns: int
    is_generated: bool | None = None

    @classmethod
    def of(
        cls, path: Path, relative: str, status: os.stat_result, is_generated: bool | None = None
    ) -> FileEntry:
        """Create from a file's status."""
        return cls(
            path=path,
            relative=relative,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
            is_generated=is_generated,
        )


@dataclass
class Walk:
    """Result of walking a folder.

    Attributes
    ----------
    files : in the order of paths.
    hidden, ignored, excluded : numbers of files and folders skipped by name, by `.gitignore`, and
        by the caller's patterns.
    libraries : folders of libraries, see `generated.holds_libraries`.
    indexes : number of skipped slimdex indexes.
    outside : links that were not followed, as they lead out of the folder.
    unreadable : (path, reason).
    """

    files: list[FileEntry] = field(default_factory=list)
    hidden: int = 0
    ignored: int = 0
    excluded: int = 0
    libraries: list[str] = field(default_factory=list)
    indexes: int = 0
    outside: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def walk(
    root: Path,
    *,
    follow_links: bool = False,
    exclude: Sequence[str] = (),
    libraries: bool = False,
) -> Walk:
    """Find files below a folder, except hidden and ignored ones.

    `exclude` are patterns as in a `.gitignore` of the folder, and prevail over its own. Folders of
    libraries are entered only with `libraries`.
    Links are followed last, those to files after those to folders, and only to unvisited targets,
    so each file is found once; those that lead out of the folder only with `follow_links`. The
    folder itself may be a link.
    """
    walker = _Walker(root, follow_links, exclude, libraries)
    walker.run()
    listing = walker.listing
    listing.files.sort(key=lambda file: (file.relative.split("/"), os.fsencode(file.path)))
    return listing


def leads_out(path: Path, folder: Path) -> bool:
    """Return whether a path, with all links followed, is not in a folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def as_unicode(path: str) -> str:
    r"""Convert a path to storable Unicode.

    >>> as_unicode("caf\udce9/menu.txt")
    'caf\\xe9/menu.txt'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _Rules(NamedTuple):
    """Rules that hold in a folder: which files are ignored, and which are generated."""

    ignored: Rules
    generated: Rules

    def within(self, folder: Path, relative: str) -> _Rules:
        """Add the rules of a subfolder."""
        prefix = f"{relative}/" if relative else ""
        return _Rules(*(rules.within(folder, prefix) for rules in self))


class _Walker:
    """Walks a folder, with the parameters of `walk`; `listing` is the result."""

    def __init__(
        self, root: Path, follow_links: bool, exclude: Sequence[str], libraries: bool
    ) -> None:
        self.listing = Walk()
        self._root = root
        self._follows_all = follow_links
        self._excluded = IgnoreRules(os.fsencode("\n".join(exclude)))
        self._enters_libraries = libraries
        self._real = Path(os.path.realpath(root))
        # Links to these folders are not followed: those above, and those entered so far.
        self._seen = {_identity(each.stat()) for each in (self._real, *self._real.parents)}
        self._files = set[tuple[int, int]]()
        self._links: list[tuple[os.DirEntry[str], str, _Rules]] = []
        self._file_links: list[tuple[os.DirEntry[str], str, _Rules]] = []

    def run(self) -> None:
        """Walk the folder, then follow its links."""
        try:
            rules = self._rules_around()
        except UnreadableError as error:
            self.listing.unreadable.append((".", str(error)))
            return
        self._walk(self._root, "", rules)
        # Links last, so that what is in the folder itself keeps its own path.
        while self._links:
            links = sorted(self._links, key=lambda link: link[1])
            self._links = []
            for entry, relative, rules in links:
                self._follow(entry, relative, rules)
        for file, relative, rules in sorted(self._file_links, key=lambda link: link[1]):
            if _identity(file.stat()) not in self._files:
                self._add(file, relative, rules)

    def _rules_around(self) -> _Rules:
        """Load the rules of the folders around; raise `UnreadableError` if a file is too large."""
        ignored = Rules.around(self._real, lambda folder: ignore_rules(folder, self._follows))

        def load(folder: Path) -> IgnoreRules | None:
            return attribute_rules(folder, self._follows)

        generated = Rules.around(self._real, load)
        # A folder that is named itself is read, even if all its files are generated.
        is_for_all = generated.decision(ANY_NAME)
        return _Rules(ignored, Rules([], load) if is_for_all else generated)

    def _walk(self, folder: Path, relative: str, rules: _Rules) -> None:
        """List a folder and those below it, without recursion; remember links for later."""
        remaining = [(folder, relative, rules)]
        while remaining:
            folder, relative, rules = remaining.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._unreadable(relative, error)
                continue
            names = [entry.name for entry in listed]

            # Folders that are not entered.
            if MANIFEST in names and any(map(OUR_FILES.fullmatch, names)):  # a slimdex index
                self.listing.indexes += 1
                continue
            if relative and not self._enters_libraries and holds_libraries(folder.name, names):
                self.listing.libraries.append(as_unicode(relative))
                continue
            try:
                rules = rules.within(folder, relative)
            except UnreadableError as error:
                self.listing.unreadable.append((as_unicode(relative or "."), str(error)))
                continue

            # Their files and folders; links are followed later.
            for entry in listed:
                path = f"{relative}/{entry.name}" if relative else entry.name
                if entry.name.startswith("."):
                    if not is_index(entry.path):  # the default index, `.slimdex`, is expected here
                        self.listing.hidden += 1
                    if entry.name == FILE_NAME and not self._follows(Path(entry.path)):
                        self.listing.outside.append(as_unicode(path))
                    continue
                try:
                    is_folder = entry.is_dir()
                    if self._excluded.decision(path, is_folder=is_folder):
                        self.listing.excluded += 1
                    elif rules.ignored.decision(path, is_folder=is_folder):
                        self.listing.ignored += 1
                    elif entry.is_symlink():
                        self._links.append((entry, path, rules))
                    elif is_folder:
                        self._seen.add(_identity(entry.stat()))
                        remaining.append((Path(entry.path), path, rules))
                    else:
                        self._add(entry, path, rules)
                except OSError as error:
                    self._unreadable(path, error)

    def _follow(self, entry: os.DirEntry[str], relative: str, rules: _Rules) -> None:
        """Walk the folder that a link leads to, unless it was seen; remember a link to a file."""
        if not self._follows(Path(entry.path)):
            self.listing.outside.append(as_unicode(relative))
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
            self._file_links.append((entry, relative, rules))

    def _add(self, entry: os.DirEntry[str], relative: str, rules: _Rules) -> None:
        """List a file, or the file that a link leads to; note anything else as unreadable."""
        status = entry.stat()
        if kind := ODD.get(stat.S_IFMT(status.st_mode)):
            self.listing.unreadable.append((as_unicode(relative), kind))
            return
        self._files.add(_identity(status))
        path = Path(os.path.realpath(entry.path) if entry.is_symlink() else entry.path)
        is_generated = rules.generated.decision(relative)
        self.listing.files.append(FileEntry.of(path, as_unicode(relative), status, is_generated))

    def _follows(self, path: Path) -> bool:
        """Return whether to follow a path that may be a link."""
        return self._follows_all or not path.is_symlink() or not leads_out(path, self._real)

    def _unreadable(self, relative: str, error: OSError) -> None:
        self.listing.unreadable.append((as_unicode(relative or "."), why(error)))


def why(error: OSError) -> str:
    """System error message in lower case."""
    return (error.strerror or str(error)).lower()


def _identity(status: os.stat_result) -> tuple[int, int]:
    """Device and inode numbers, which identify a file or folder whatever its path."""
    return status.st_dev, status.st_ino
