"""Addresses: where the commands of this machine find the service that holds an index.

The service listens at a Unix socket in a folder that only its user can enter, and leaves the
socket's path in a file beside the index's lock. A file that a killed service left behind leads to
a socket that nobody listens at.
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
from pathlib import Path

FILE = "service.json"
"""In an index's folder, of mode 600."""
SOCKET = "service.socket"


@dataclass(frozen=True)
class Addresses:
    """A socket that only its user can reach, and the folders that tell of it."""

    path: str
    socket: socket.socket

    @classmethod
    @contextmanager
    def told(cls, folders: Sequence[Path]) -> Iterator[Addresses]:
        """Listen, tell of it in indexes' folders, and take that back at the end."""
        # A path of a socket has 107 bytes at most, and the index's own may have more.
        place = Path(tempfile.mkdtemp(prefix="slimdex-"))
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
            for file in files:  # another service may hold the index, and tell of itself, by now
                if socket_of(file.parent) == place / SOCKET:
                    with suppress(OSError):
                        file.unlink()
            found.close()
            shutil.rmtree(place, ignore_errors=True)


def socket_of(folder: Path) -> Path | None:
    """The socket of the service that said it holds an index; None if none did.

    It may be gone by now. A file or a socket that another user has made is not believed.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        with (folder / FILE).open() as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            found = Path(json.load(file)["socket"])
        return found if found.stat().st_uid == os.geteuid() else None
    return None


def _write(file: Path, content: dict[str, object]) -> None:
    new = file.with_name(f"{file.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        json.dump(content, opened)
    new.replace(file)
