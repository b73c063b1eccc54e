"""Lease: a record in Milvus of the process pushing under a name, so that a second one is refused.

Milvus has no locks. A lease is written, read again, and renewed during a push. It expires if it
was not renewed for a while, or if its process on this machine has ended.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from platform import node
from time import monotonic, time
from typing import Any
from uuid import uuid4

from psutil import pid_exists

from slimdex.indexes.errors import InputError, InUseError
from slimdex.indexes.json_text import parsed

from .milvus_settings import SettingsTable

PUSHER = "pusher"
HELD_SECONDS = 60.0
"""Seconds after which an unrenewed lease of another machine expires."""
RENEWED_SECONDS = 5.0


_OURS = set[str]()
"""Tokens of this process's leases."""


class Lease:
    """The right to push under a name; `renew` it regularly and `release` it.

    Raises
    ------
    InUseError
        If another process holds it.
    """

    def __init__(self, table: SettingsTable) -> None:
        self._table, self._token = table, uuid4().hex
        self._last = -RENEWED_SECONDS
        holder = self._holder()
        if holder and _is_held(holder):
            raise InUseError(
                f"milvus {table.name}: process {holder['process']} on {holder['host']} is pushing; "
                f"expected no other (an interrupted push expires after {HELD_SECONDS:.0f} s)"
            )
        _OURS.add(self._token)
        try:
            self.renew()
        except BaseException:
            self.abandon()
            raise

    def renew(self) -> None:
        """Extend the lease; raises `InUseError` if another process has taken over."""
        if monotonic() - self._last < RENEWED_SECONDS:
            return
        holder = self._holder()
        if holder and holder["token"] != self._token and _is_held(holder):
            raise InUseError(
                f"milvus {self._table.name}: process {holder['process']} on {holder['host']} has "
                "taken over; expected one push at a time"
            )
        mine = {"token": self._token, "host": node(), "process": os.getpid()}
        self._table.write(PUSHER, json.dumps(mine | {"at": time()}).encode())
        found = self._holder()
        if found is None or found["token"] != self._token:  # both wrote at the same time
            raise InUseError(f"milvus {self._table.name}: another push has begun; expected one")
        self._last = monotonic()

    def release(self) -> None:
        """End the lease; server errors are ignored, since it expires anyway."""
        self.abandon()
        with suppress(InputError):
            self._table.forget(PUSHER)

    def abandon(self) -> None:
        """Give up the lease without contacting the server."""
        _OURS.discard(self._token)

    def _holder(self) -> dict[str, Any] | None:
        try:
            data = self._table.read(PUSHER)
            found = parsed(data.decode()) if data else None
        except (ValueError, KeyError):
            return None
        return found if isinstance(found, dict) and {"token", "at"} <= found.keys() else None


def _is_held(holder: dict[str, Any]) -> bool:
    if holder["host"] == node():
        process, token = holder["process"], holder["token"]
        if token not in _OURS if process == os.getpid() else not pid_exists(process):
            return False
    return time() - float(holder["at"]) < HELD_SECONDS
