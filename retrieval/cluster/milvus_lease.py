"""Lease: who is pushing under a name, written down in Milvus, so that a second one is told.

Milvus has no lock. A lease is written, read again, and renewed while rows go over; one that was
not renewed for a while, or whose process is gone from this machine, is no more.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from time import monotonic, time
from typing import Any
from uuid import uuid4

from slimdex.indexes.errors import InputError, InUseError
from slimdex.indexes.json_text import parsed

from .milvus_settings import SettingsTable

PUSHER = "pusher"
HELD_SECONDS = 60.0
"""After so long without a renewal a lease of another machine is no more."""
RENEWED_SECONDS = 5.0


_OURS = set[str]()
"""Tokens of the leases that this process has."""


class Lease:
    """The right to push under a name; `renew` it while that lasts, and `release` it.

    Raises
    ------
    InUseError
        If another process has it.
    """

    def __init__(self, table: SettingsTable) -> None:
        self._table, self._token = table, uuid4().hex
        self._last = -RENEWED_SECONDS
        holder = self._holder()
        if holder and _is_held(holder):
            raise InUseError(
                f"milvus {table.name}: process {holder['process']} on {holder['host']} is pushing; "
                f"expected no other (a push that broke off ends after {HELD_SECONDS:.0f} s)"
            )
        _OURS.add(self._token)
        try:
            self.renew()
        except BaseException:
            self.abandon()
            raise

    def renew(self) -> None:
        """Tell that the push goes on; raises `InUseError` if another one has taken over."""
        if monotonic() - self._last < RENEWED_SECONDS:
            return
        holder = self._holder()
        if holder and holder["token"] != self._token and _is_held(holder):
            raise InUseError(
                f"milvus {self._table.name}: process {holder['process']} on {holder['host']} has "
                "taken over; expected one push at a time"
            )
        mine = {"token": self._token, "host": socket.gethostname(), "process": os.getpid()}
        self._table.write(PUSHER, json.dumps(mine | {"at": time()}).encode())
        found = self._holder()
        if found is None or found["token"] != self._token:  # both wrote at the same time
            raise InUseError(f"milvus {self._table.name}: another push has begun; expected one")
        self._last = monotonic()

    def release(self) -> None:
        """Let others push; what the server says to it is no matter, since it ends anyway."""
        self.abandon()
        with suppress(InputError):
            self._table.forget(PUSHER)

    def abandon(self) -> None:
        """Have it no more, without a word to the server."""
        _OURS.discard(self._token)

    def _holder(self) -> dict[str, Any] | None:
        try:
            data = self._table.read(PUSHER)
            found = parsed(data.decode()) if data else None
        except (ValueError, KeyError):
            return None
        return found if isinstance(found, dict) and {"token", "at"} <= found.keys() else None


def _is_held(holder: dict[str, Any]) -> bool:
    if holder["host"] == socket.gethostname():
        process, token = holder["process"], holder["token"]
        if token not in _OURS if process == os.getpid() else not _is_alive(process):
            return False
    return time() - float(holder["at"]) < HELD_SECONDS


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # of another user
    return True
