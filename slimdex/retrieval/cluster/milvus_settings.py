"""Settings: data that searches require besides the rows, in a Milvus collection of their own.

The description of a pushed index is small, but its reducer may have megabytes: files are split into
parts that fit into Milvus' texts, with a checksum of the whole. A name's collection contains the
parts of everything pushed under it.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.json_text import READABLE, parsed
from slimdex.indexes.reducers.reducer import Reducer
from slimdex.indexes.reducers.registry import load_reducer
from slimdex.indexes.search.rescoring import Rescorer

from ..temporary_files import temporary_parent
from .milvus_fields import Field
from .milvus_schema import IndexKind, settings_fields
from .milvus_server import Server

FORMAT = 2
PART_BYTES = 48_000
"""Bytes of a file per text: 64,000 in base64."""
PARTS_AT_ONCE = 100
HERE, THERE, OFF = RESCORED = ("here", "there", "off")
"""Places of rescoring: the index's folder, Milvus, or none."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class Names:
    """Names of a pushed index in Milvus.

    `alias` is used by searches, and refers to the newest complete collection.
    """

    alias: str

    @classmethod
    def of(cls, name: str | None, folder: str | Path) -> Self:
        """Validate a name, by default a folder's.

        Raises `InputError` if Milvus does not accept it.

        >>> Names.of(None, "a/notes.index").alias
        'notes_index'
        """
        if name is None:
            name = re.sub(r"\W", "_", Path(folder).absolute().name, flags=re.ASCII)[:100]
            name = name if _NAME.fullmatch(name) else f"_{name}"[:100]
        if not _NAME.fullmatch(name):
            raise InputError(
                f"name {name!r}; expected letters, digits and underscores, 100 at most, and no "
                "digit first"
            )
        return cls(name)

    @property
    def settings(self) -> str:
        """Name of the collection of settings."""
        return f"{self.alias}_settings"

    def rows(self, fingerprint: str) -> str:
        """Name of the collection of rows of one reducer and schema."""
        return f"{self.alias}_{fingerprint}"

    def is_rows(self, collection: str) -> bool:
        """True for the name of a collection of rows, of any fingerprint."""
        return re.fullmatch(rf"{self.alias}_[0-9a-f]{{12}}", collection) is not None


@dataclass(frozen=True)
class Pushed:
    """Description of what was pushed, for searches.

    Attributes
    ----------
    encoder : its spec.
    dim, k : dimensions of its vectors, and of the reduced ones.
    kind : index kind in Milvus.
    rows : their number.
    built_rows : their number when the collection was created, which determines its lists.
    rescored : one of `RESCORED`.
    candidates : rows to rescore, None for the default.
    fields : the columns in Milvus.
    columns : name -> DuckDB type of all columns.
    words : True if the words were pushed, for BM25.
    hybrid : fusion of `auto`: as `tune` chose, or "auto", by rule; "off" without words.
    """

    encoder: dict[str, Any]
    dim: int
    k: int
    kind: str
    rows: int
    built_rows: int
    rescored: str
    candidates: int | None
    fields: Sequence[Field]
    columns: Mapping[str, str]
    words: bool
    hybrid: str
    sha256: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def fingerprint(self) -> str:
        """Digest of what all rows of a collection have in common."""
        kinds = (self.dim, self.k, self.kind, self.rescored, self.words)
        common = (*kinds, dict(self.sha256), self.format)
        text = json.dumps([*common, [asdict(field) for field in self.fields]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def index_kind(self) -> IndexKind:
        """The index kind with its parameters."""
        return IndexKind(self.kind, self.k, self.built_rows)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse; raises `CorruptError` if not written by `keep`."""
        try:
            values = parsed(text.decode(), READABLE)
            if values["format"] != FORMAT:
                raise ValueError(
                    f"pushed in format {values['format']}; expected {FORMAT}: push it again"
                )
            values["fields"] = [Field(**each) for each in values["fields"]]
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptError(f"settings in Milvus: {error}") from error


class SettingsTable:
    """The settings collection of a name."""

    def __init__(self, server: Server, names: Names) -> None:
        self._server, self.name = server, names.settings

    def ensure(self) -> None:
        """Create and load it if necessary."""
        if not self._server.has_whole(self.name, ["vector"]):
            fields = settings_fields()
            index = {"vector": {"index_type": "FLAT", "metric_type": "IP", "params": {}}}
            self._server.create(self.name, fields, index)
        self._server.load(self.name)

    def write(self, name: str, data: bytes) -> None:
        """Store a file, replacing the one of the same name."""
        parts = [data[part] for part in batches(len(data), PART_BYTES)]
        head = {"parts": len(parts), "sha256": hashlib.sha256(data).hexdigest()}
        rows = [_row(f"{name}/{i:06d}", b64encode(part).decode()) for i, part in enumerate(parts)]
        for few in batches(len(rows), PARTS_AT_ONCE):
            self._server.put(self.name, rows[few])
        self._server.put(self.name, [_row(name, json.dumps(head))])

    def read(self, name: str) -> bytes | None:
        """Read a file; None if it does not exist.

        Raises `CorruptError` if a part is missing or damaged.
        """
        first = self._bodies([name])
        if name not in first:
            return None
        try:
            head = parsed(first[name])
            parts = [f"{name}/{i:06d}" for i in range(head["parts"])]
            data = b""
            for few in batches(len(parts), PARTS_AT_ONCE):
                bodies = self._bodies(parts[few])
                data += b"".join(b64decode(bodies[part]) for part in parts[few])
            whole = hashlib.sha256(data).hexdigest() == head["sha256"]
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptError(f"milvus: {self.name}, {name}: damaged ({error})") from error
        if not whole:
            raise CorruptError(f"milvus: {self.name}, {name}: wrong checksum; push it again")
        return data

    def forget_others(self, fingerprint: str) -> None:
        """Delete the files of all other collections of rows."""
        parts = [row["part"] for rows in self._server.every(self.name, ["part"]) for row in rows]
        if others := [part for part in parts if not part.startswith(f"{fingerprint}:")]:
            self._server.remove(self.name, others)

    def _bodies(self, parts: Sequence[str]) -> dict[str, str]:
        listed = ", ".join(f'"{part}"' for part in parts)
        rows = self._server.rows(self.name, f"part in [{listed}]", ["part", "body"])
        return {row["part"]: row["body"] for row in rows}


def _row(part: str, body: str) -> dict[str, Any]:
    return {"part": part, "body": body, "vector": [1.0, 0.0]}


@dataclass(frozen=True)
class Fitted:
    """Fitted models and the files they were loaded from."""

    reducer: Reducer
    rescorer: Rescorer | None
    files: Mapping[str, bytes]

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Self:
        """Load from files; raises `CorruptError` if one is invalid."""
        with TemporaryDirectory(prefix="slimdex-", dir=temporary_parent()) as folder:
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            reducer = load_reducer(Path(folder) / "reducer")
            rescorer = Rescorer.load(Path(folder) / "rescorer") if "rescorer" in files else None
        return cls(reducer, rescorer, files)

    @property
    def sha256(self) -> dict[str, str]:
        """Checksum of each file."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}


def keep(table: SettingsTable, pushed: Pushed, fitted: Fitted) -> None:
    """Write the files of a collection of rows."""
    for name, data in fitted.files.items():
        table.write(f"{pushed.fingerprint}:{name}", data)
    table.write(f"{pushed.fingerprint}:pushed", json.dumps(asdict(pushed)).encode())


def kept(table: SettingsTable, fingerprint: str) -> tuple[Pushed, Fitted] | None:
    """Read the files of a collection of rows; None if incomplete.

    Raises `CorruptError` if a file is missing or damaged.
    """
    data = table.read(f"{fingerprint}:pushed")
    if data is None:
        return None
    pushed = Pushed.from_json(data)
    files = {name: table.read(f"{fingerprint}:{name}") for name in pushed.sha256}
    whole = {name: file for name, file in files.items() if file is not None}
    fitted = Fitted.of_files(whole) if "reducer" in whole else None
    if fitted is None or fitted.sha256 != dict(pushed.sha256):
        raise CorruptError(f"milvus: {table.name}: the files of {fingerprint} do not match it")
    return pushed, fitted
