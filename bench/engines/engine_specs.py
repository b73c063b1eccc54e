"""Methods: what can be measured, as plain data that travels to another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slimdex.indexes.settings import Settings

from .engine import Engine, SlimdexEngine
from .peers import PEERS


@dataclass(frozen=True)
class Method:
    """A way to keep vectors and find them; each effort of it becomes a row of results.

    Parameters
    ----------
    name : what tables call it.
    settings : of slimdex; None for a peer, which is then `name` in `PEERS`.
    efforts : candidates of slimdex, or what a peer means by it.
    """

    name: str
    settings: Settings | None = None
    efforts: tuple[int, ...] = (0,)

    @classmethod
    def of_peer(cls, name: str) -> Method:
        """What another library's engine is measured with."""
        return cls(name, None, PEERS[name].efforts)

    def make(self) -> Engine:
        """The engine, with its library imported and nothing built."""
        return PEERS[self.name].make() if self.settings is None else SlimdexEngine(self.settings)

    def columns(self, effort: int) -> dict[str, Any]:
        """What is known of a row before it is measured."""
        row: dict[str, Any] = {"method": self.name, "effort": effort}
        if self.settings is not None:
            row |= self.settings.as_dict() | {"candidates": effort}
        return row
