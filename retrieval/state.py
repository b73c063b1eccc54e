"""State: everything that a commit makes true, as one value that the catalog keeps as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from indexes.errors import CorruptError
from indexes.settings import Settings

from .files import FileRecord

FORMAT = 1
"""Version of the folder's layout and of the tables in the catalog."""


@dataclass(frozen=True)
class State:
    """What an index consists of.

    Attributes
    ----------
    encoder : the encoder's spec.
    dim : dimensions of its vectors.
    requested : the settings asked for.
    settings : those in force, None until the first documents are in.
    rows : documents that exist for readers, deleted ones included.
    staged : documents in the catalog; those from `rows` on are being added.
    encoded : staged documents whose vectors are safely on disk.
    source : fingerprint of what is being added, None when nothing is.
    given : whether what is being added has vectors from elsewhere.
    generation : grows with every commit that writes files; it numbers them.
    vectors : name of the vector file.
    norms : name of the file of norms, None without rescoring.
    files : role (moments, reducer, rescorer, codes) -> file.
    """

    encoder: dict[str, Any]
    dim: int
    requested: Settings
    settings: Settings | None = None
    rows: int = 0
    staged: int = 0
    encoded: int = 0
    source: str | None = None
    given: bool = False
    generation: int = 1
    vectors: str = "vectors-000001.f16"
    norms: str | None = None
    files: dict[str, FileRecord] = field(default_factory=dict)

    @property
    def unfinished(self) -> bool:
        """Whether documents are staged that no reader sees yet."""
        return self.staged > self.rows

    @property
    def file_names(self) -> set[str]:
        """Every file beside the catalog that belongs to the index."""
        names = {record.name for record in self.files.values()} | {self.vectors}
        return names | ({self.norms} if self.norms else set())

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises `CorruptError` if a field is missing or unknown."""
        try:
            values = json.loads(text)
            values["requested"] = Settings(**values["requested"])
            values["settings"] = values["settings"] and Settings(**values["settings"])
            values["files"] = {role: FileRecord(**f) for role, f in values["files"].items()}
            return cls(**values)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise CorruptError(f"state in the catalog: {error}") from error
