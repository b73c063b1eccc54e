"""Locks between processes, which the system releases when their holder ends in any way.

Writers take turns by one lock. A search locks nothing, so it does not import portalocker. On a
network file system, locks of one machine may not hold on another, so changes are refused there.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path, PurePath
from time import monotonic, sleep
from typing import Any, BinaryIO

from slimdex.errors import InputError, InUseError

WAIT = 30.0
"""Seconds to wait for other processes, by default."""
POLL_SECONDS = (0.001, 0.008)
"""Least and most time between two attempts."""
POLL_SHARE = 1 / 20
"""Time between two attempts, as a share of the time waited, within these limits."""
MOST_REMOVED = 1000
"""Attempts to lock a file that its holders remove."""
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open an untrusted file."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks."""
NAMES = {f"{name}.{part}" for name in ("writer", "encoder", "builder") for part in ("lock", "gate")}
"""The files that are locked, in an index's folder; they are empty."""
IN_USE = "another process or thread is using it; expected none"

NETWORK = {
    *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "ftp", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf"),
    *("virtiofs", "vmhgfs", "webdav"),
    *("blobfuse", "blobfuse2", "ceph-fuse", "gcsfuse", "goofys", "gvfsd-fuse", "juicefs", "rclone"),
    *("s3fs", "sshfs", "vmhgfs-fuse"),
}
"""Types of file systems that machines share; those of FUSE without "fuse."."""
WINDOWS_SHARE = "\\\\"
REMOTE_DRIVE = "remote"
"""Start of a path on another machine, and psutil's word for a drive of one, both on Windows."""


class FileLock:
    """A lock that one process or thread holds.

    A waiting process holds the gate, which all others must pass. So a holder that releases the lock
    and takes it again at once can't starve it.

    >>> import tempfile
    >>> lock = FileLock(Path(tempfile.mkdtemp()), "writer")
    >>> with lock.hold():
    ...     lock.is_held()
    True
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._file = folder / f"{name}.lock"
        self._gate = folder / f"{name}.gate"

    @contextmanager
    def hold(self, seconds: float = WAIT) -> Iterator[None]:
        """Hold the lock; raises `InUseError` if others hold it for longer than `seconds`."""
        with ExitStack() as stack:
            # Hold the gate only until the lock is held.
            with ExitStack() as gate:
                end = monotonic() + seconds
                self._take(gate, self._gate, end)
                self._take(stack, self._file, end)
            yield

    def is_held(self) -> bool:
        """True if another process or thread holds it; creates no file."""
        if not self._file.exists():
            return False
        with ExitStack() as stack, suppress(InUseError):
            self._take(stack, self._file, 0, shared=True)
            return False
        return True  # `_take` has raised `InUseError`

    def _take(self, stack: ExitStack, path: Path, end: float, *, shared: bool = False) -> None:
        """Lock a file until the end of a stack, unless its folder is gone.

        Raises `InUseError` if others still hold it at `end`, a time of `monotonic`, and
        `InputError` if it can't be opened, since others could hold it. A shared lock only checks
        whether others hold it, so it also locks nothing if the file can't be opened or its file
        system has no locks.
        """
        start = monotonic()
        for _ in range(MOST_REMOVED):
            try:
                file = _open_to_lock(path)
            except OSError as error:
                if shared or isinstance(error, FileNotFoundError):
                    return
                raise InputError(
                    f"{path}: {error.strerror}; expected a file that this user may open, to lock it"
                ) from error
            with ExitStack() as file_stack:
                file_stack.callback(file.close)
                try:
                    while not _try_lock(file, shared=shared):
                        now = monotonic()
                        if now >= end:
                            raise InUseError(f"{self._folder}: {IN_USE}")
                        sleep(min(_pause(now - start), end - now))
                except OSError as error:
                    if shared and error.errno in NO_LOCKS:
                        return  # such a file system can be read
                    raise InputError(f"{path}: {error.strerror}; expected a local disk") from error
                file_stack.enter_context(_DESCRIPTORS.register(file.fileno()))
                file_stack.callback(_unlock, file)
                if _is_at(path, file):
                    stack.push(file_stack.pop_all())
                    return
            # Its holder has removed the file, and others lock a new one at this path: try that.
        raise InUseError(f"{path}: removed by others, again and again; expected it to stay")


class _LockedDescriptors:
    """Descriptors of the files that this process has locked.

    A forked process inherits them, and would hold the locks of a parent that was killed.
    """

    def __init__(self) -> None:
        self._descriptors = set[int]()

    @contextmanager
    def register(self, descriptor: int) -> Iterator[None]:
        """Register a descriptor while its file is locked."""
        self._descriptors.add(descriptor)
        try:
            yield
        finally:
            self._descriptors.discard(descriptor)

    def in_fork(self) -> None:
        """Redirect the inherited descriptors to a file that is not locked.

        They can't be closed here, since their owners will still close them.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._descriptors:
            os.dup2(null, descriptor, inheritable=False)
        os.close(null)
        self._descriptors.clear()


_DESCRIPTORS = _LockedDescriptors()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_DESCRIPTORS.in_fork)


def _pause(waited: float) -> float:
    """Seconds until the next attempt to lock a file.

    It grows with the time waited: a lock that others hold briefly is taken soon after its release,
    and a long wait costs little processor time.

    >>> _pause(0.01), _pause(0.125), _pause(60.0)
    (0.001, 0.00625, 0.008)
    """
    shortest, longest = POLL_SECONDS
    return min(max(POLL_SHARE * waited, shortest), longest)


@contextmanager
def locking(path: Path) -> Iterator[None]:
    """Lock an existing file or folder; raises `InUseError` at once if it is locked."""
    descriptor = os.open(path, os.O_RDONLY | SAFE)
    try:
        if not _try_lock(descriptor):
            raise InUseError(f"{path}: {IN_USE}")
        with _DESCRIPTORS.register(descriptor):
            yield
    finally:
        os.close(descriptor)


def check_wait(seconds: float) -> float:
    """Return the seconds to wait; raises `InputError` if they are negative or NaN."""
    if not seconds >= 0:  # also refuses NaN
        raise InputError(f"wait={seconds:g}; expected 0 or more seconds")
    return seconds


def _open_to_lock(path: Path) -> BinaryIO:
    """Open a file to lock it, and create it if necessary; links are refused."""
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | SAFE, 0o666), "r+b")
    except OSError:
        return os.fdopen(os.open(path, os.O_RDONLY | SAFE), "rb")  # in a folder we may only read


def _is_at(path: Path, file: BinaryIO) -> bool:
    """True unless an open file was removed or replaced."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _try_lock(file: BinaryIO | int, *, shared: bool = False) -> bool:
    """Lock a file without waiting; False if others hold it.

    Raises `OSError` if it can't be locked at all.
    """
    library = _portalocker()
    flags = library.LockFlags
    kind = flags.SHARED if shared else flags.EXCLUSIVE
    try:
        library.lock(file, flags.NON_BLOCKING | kind)
    except library.AlreadyLocked:
        return False
    except library.LockException as error:
        number = getattr(error.args[0], "errno", None) or errno.ENOLCK
        raise OSError(number, f"can't be locked ({error.strerror or error})") from error
    return True


def _unlock(file: BinaryIO) -> None:
    """Unlock a file; in a forked process it is another one, see `_LockedDescriptors`."""
    library = _portalocker()
    with suppress(OSError, library.LockException):
        library.unlock(file)


def _portalocker() -> Any:
    """Import portalocker, even without a folder for temporary files, which it looks for."""
    try:
        import portalocker  # only here: searches lock nothing
    except FileNotFoundError:
        tempfile.tempdir = os.curdir
        try:
            import portalocker  # finds the current folder now
        finally:
            tempfile.tempdir = None
    return portalocker


def check_local(path: Path) -> None:
    """Raise `InputError` if a path is on a network file system, as far as the system tells."""
    kind = network_kind(path)
    if kind is not None:
        raise InputError(
            f"{path}: on a network file system ({kind}); expected a local disk, or "
            "shared_filesystem=True if locks work between all machines that change it"
        )


def is_on_share(path: PurePath) -> bool:
    """Return whether a path names another machine, as on Windows, without contacting it."""
    return path.drive.startswith(WINDOWS_SHARE)


@cache
def network_kind(path: Path) -> str | None:
    """Type of the network file system that a path is on; None for a local one."""
    import psutil  # only changes ask

    resolved = path.resolve()
    if is_on_share(resolved):
        return resolved.drive
    mounts = []
    with suppress(OSError):
        mounts = psutil.disk_partitions(all=True)
    # The innermost mount; of several at one point, the last hides the others.
    above = (mount for mount in reversed(mounts) if resolved.is_relative_to(mount.mountpoint))
    mount = max(above, key=lambda mount: len(Path(mount.mountpoint).parts), default=None)
    if mount is None:
        return None
    has_network_type = mount.fstype.lower().removeprefix("fuse.") in NETWORK
    is_remote = REMOTE_DRIVE in mount.opts.split(",")
    return mount.fstype if has_network_type or is_remote else None
