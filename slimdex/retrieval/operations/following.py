"""Following: an index that is brought up to date with its sources whenever they have changed."""

from __future__ import annotations

from time import monotonic

from slimdex.indexes.execution.locks import ThreadLock

from ..collection import Collection
from ..sources.asked_sources import AskedSources
from ..sources.origins import SETTLED_NS
from ..storage.manifest import Manifest
from .commands import Sync


def is_replaced(collection: Collection, left: Manifest | None) -> bool:
    """True if a copy was restored since an index was left at a commit."""
    return left is not None and collection.index.snapshot.manifest.replaces(left)


class Following:
    """Sources that an index follows.

    Files are looked at each time, but the index only if a file's path, size or time has changed, or
    had changed so recently that another change could have gone unnoticed; or if another state of
    the index was restored since.
    """

    def __init__(self, sources: AskedSources) -> None:
        self._sources, self._lock = sources, ThreadLock()
        self._seen, self._since, self._is_settled = "", 0.0, False
        self._left: Manifest | None = None

    def catch_up(self, collection: Collection) -> None:
        """Sync with the sources if they have changed; compact if most rows are deleted.

        Raises `InputError` as `syncing.sync` does, and `InUseError` if others write for too long.
        """
        with self._lock:
            now, seen = monotonic(), self._sources.opened().fingerprint()
            if seen != self._seen or is_replaced(collection, self._left):
                self._seen, self._since, self._is_settled = seen, now, False
            if not self._is_settled:
                Sync(self._sources, compacts=True)(collection)
                self._left = collection.index.snapshot.manifest
                self._is_settled = now - self._since > SETTLED_NS / 1e9
