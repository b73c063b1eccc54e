"""The service on this machine that holds an index and runs commands on it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from slimdex.indexes import errors
from slimdex.indexes.errors import InputError, InUseError, SlimdexError
from slimdex.indexes.execution.progress import note, progress

from .address import socket_of
from .commands import Command, command_json


class _Connection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        own = socket.socket(socket.AF_UNIX)
        try:
            own.connect(str(self._path))
        except BaseException:
            own.close()
            raise
        self.sock = own


def done_by_holder(index: Path, command: Command) -> dict[str, Any] | None:
    """Run a command in the service that holds the index; return the result.

    Returns None if there is no service, or it ended before the command began.

    Raises
    ------
    SlimdexError, OSError
        Raised by the command.
    InUseError
        If the service ended before the command did.
    """
    path = socket_of(index)
    if path is None:
        return None
    connection = _Connection(path)
    body = json.dumps(command_json(command) | {"index": str(index.absolute())})
    with suppress(OSError):
        connection.connect()
    if connection.sock is None:
        return None
    try:
        connection.request("POST", "/command", body)
        return _result(_lines(connection))
    except (ConnectionError, HTTPException) as error:
        raise InUseError(
            f"{index}: the service ended before the command was done; run it again"
        ) from error
    finally:
        connection.close()


def _lines(connection: _Connection) -> Iterator[dict[str, Any]]:
    for line in connection.getresponse():
        if line.strip():
            yield json.loads(line)


def _result(lines: Iterator[dict[str, Any]]) -> dict[str, Any]:
    for said in lines:
        if "progress" in said:
            progress(*said["progress"])
        elif "note" in said:
            note(said["note"])
        elif "error" in said:
            raise _error(said)
        else:
            found: dict[str, Any] = said["found"]
            return found
    raise ConnectionError("no result")


def _error(said: dict[str, Any]) -> Exception:
    """Recreate the error raised by the service."""
    kind = getattr(errors, said.get("kind", ""), None)
    if isinstance(kind, type) and issubclass(kind, SlimdexError):
        return kind(said["error"])
    return InputError(said["error"])
