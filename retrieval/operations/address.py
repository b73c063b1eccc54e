"""Addresses of this machine, and the socket of the service that holds an index.

The service listens at a Unix socket in a folder that only its user can enter, and writes the
socket's path to a file beside the index's lock. A killed service leaves both behind; the next
service of the index removes them.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

FILE = "service.json"
"""File in an index's folder, of mode 600."""
SOCKET = "service.socket"
PREFIX = "slimdex-"
LOCAL = "localhost"


@dataclass(frozen=True)
class Addresses:
    """A socket that only its user can access, and the folders that refer to it."""

    path: str
    socket: socket.socket

    @classmethod
    @contextmanager
    def told(cls, folders: Sequence[Path]) -> Iterator[Addresses]:
        """Listen, publish the address in the indexes' folders, and remove it at the end."""
        # A socket's path has at most 107 bytes, and the index's own may be longer.
        for folder in folders:
            _remove_left(folder)
        place = Path(tempfile.mkdtemp(prefix=PREFIX))
        found = socket.socket(socket.AF_UNIX)
        files = [folder / FILE for folder in folders]
        try:
            found.bind(str(place / SOCKET))
            os.chmod(place / SOCKET, 0o600)
            found.listen()
            for file in files:
                _write(file, {"socket": str(place / SOCKET), "process": os.getpid()})
            yield cls(str(place / SOCKET), found)
        finally:
            for file in files:  # by now another service may have published its address
                if socket_of(file.parent) == place / SOCKET:
                    with suppress(OSError):
                        file.unlink()
            found.close()
            shutil.rmtree(place, ignore_errors=True)


def is_loopback(host: str) -> bool:
    """True if a service that listens at a host is reachable only from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == LOCAL


def socket_of(folder: Path) -> Path | None:
    """The socket of the service that claims to hold an index; None without one.

    The service may have ended. Files and sockets of other users are ignored.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        with (folder / FILE).open() as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            found = Path(json.load(file)["socket"])
        return found if found.stat().st_uid == os.geteuid() else None
    return None


def _remove_left(folder: Path) -> None:
    """Remove the socket of a killed service and its folder, but no other files."""
    path = socket_of(folder)
    if path is None or path.name != SOCKET or not path.parent.name.startswith(PREFIX):
        return
    if not path.is_socket():
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody listens
            path.unlink()
            path.parent.rmdir()


def _write(file: Path, content: dict[str, object]) -> None:
    new = file.with_name(f"{file.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        json.dump(content, opened)
    new.replace(file)
