"""State: everything that a commit makes true, as one value that the catalog keeps as JSON.

Certificate: the proved agreement of an index with exact search, by settings and queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Self

from slimdex.indexes.errors import CorruptError
from slimdex.indexes.json_text import READABLE, parsed
from slimdex.indexes.registry import REDUCERS
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_file import STORED, VectorFile

from ..atomic_files import ENDINGS, OUR_FILES, STORED_ENDINGS, FileRecord, file_name

FORMAT = 1
"""Version of the tables, the state and the folder's layout: see docs/files-and-crashes.md."""

MOST_DIM = 1 << 20
"""Dimensions of a vector: no encoder comes near."""
FIT = {"documents": 1 << 62, "rows": 1 << 62, "variance_kept": 1, "code_error": 1e12}
"""What is known of a fit -> the most that it can be: documents that the reducer has seen, rows that
there were, and the figures of `indexes.drift`, of which some reducers and codes have none."""
SENTENCE = "holds if real queries are no harder than these"
"""What every bound is worth, and no more."""
_LEAST = {"dim": 1, "rows": 0, "staged": 0, "encoded": 0, "generation": 1}


@dataclass(frozen=True)
class Lines:
    """The documents by row, in two files that are rebuilt from the catalog at will.

    Attributes
    ----------
    documents, offsets : names of the files.
    bytes : of the documents' lines.
    columns : name -> DuckDB type of the columns that the lines were written with.
    """

    documents: str
    offsets: str
    bytes: int = 0
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Both names."""
        return {self.documents, self.offsets}

    def fit(self, columns: Mapping[str, str]) -> bool:
        """Whether what a line has are values of the first of these columns."""
        return [*self.columns.items()] == [*columns.items()][: len(self.columns)]


@dataclass(frozen=True)
class Certificate:
    """A lower bound of the mean agreement@10 with exact search in the index's own metric.

    It is the share of the ten nearest that a search finds: what compression loses. How many of the
    relevant documents are found is another matter, which takes labels.

    Attributes
    ----------
    settings : those in force when it was measured; it says nothing of others.
    estimate : mean over the queries, 0 to 1.
    bound : the mean over all such queries is not below it, but with probability `error`.
    error : 0 to 1.
    pool : what the queries are, in words.
    queries : how many.
    rows : documents, or passages of them, that could be found when it was measured.
    target : the agreement that was asked for, None if none was.
    """

    settings: Settings
    estimate: float
    bound: float
    error: float
    pool: str
    queries: int
    rows: int
    target: float | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """From the catalog's JSON; raises `TypeError` or `ValueError` for what is none."""
        made = cls(**{**values, "settings": Settings(**values["settings"])})
        made._check()
        return made

    def said(self, settings: Settings | None, rows: int, noun: str = "documents") -> str | None:
        """It in words, for an index that has these settings and so many documents to find.

        Where texts are cut, the noun is passages: the ten nearest of these are found.

        None if it is of other settings.

        >>> proved = Certificate(Settings(), 0.9944, 0.9912, 0.05, "a log", 500, 1000, 0.99)
        >>> print(proved.said(Settings(), 1000))
        agreement@10 with exact search 0.9944, at least 0.9912 with 95% confidence, by 500 \
queries: a log; measured on all 1,000 documents; holds if real queries are no harder than these
        >>> "measured on 1,000 of 2,500" in (proved.said(Settings(), 2500) or "")
        True
        """
        if settings != self.settings:
            return None
        if rows == self.rows:
            measured = f"all {rows:,} {noun}"
        elif rows > self.rows:
            measured = f"{self.rows:,} of {rows:,} {noun}"
        else:
            measured = f"{self.rows:,} {noun}, of which {rows:,} are left"
        return (
            f"agreement@10 with exact search {self.estimate:.4f}, at least {self.bound:.4f} with "
            f"{100 * (1 - self.error):.4g}% confidence, by {self.queries:,} queries: {self.pool}; "
            f"measured on {measured}; {SENTENCE}"
        )

    def _check(self) -> None:
        numbers = {"estimate": self.estimate, "bound": self.bound, "error": self.error}
        if self.target is not None:
            numbers["target"] = self.target
        for name, value in numbers.items():
            if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= 1:
                raise ValueError(f"{name}={value!r} of a certificate; expected 0 to 1")
        for name, count in (("queries", self.queries), ("rows", self.rows)):
            if type(count) is not int or not 1 <= count < 1 << 62:
                raise ValueError(f"{name}={count!r} of a certificate; expected 1 or more")
        if not isinstance(self.pool, str):
            raise TypeError(f"pool={self.pool!r} of a certificate; expected a text")


@dataclass(frozen=True)
class State:
    """What an index consists of.

    Attributes
    ----------
    encoder : the encoder's spec.
    dim : dimensions of its vectors.
    requested : the settings asked for.
    settings : those in force, None until the first documents are in.
    rows : vectors of the documents that exist for readers, deleted ones included.
    staged : rows of the documents in the catalog; those from `rows` on are being added.
    encoded : staged rows whose vectors are safely on disk.
    source : fingerprint of what is being added, None when nothing is.
    given : whether what is being added has vectors from elsewhere.
    generation : grows with every commit that writes files; it numbers them.
    vectors : name of the vector file, whose ending says how it is stored.
    norms : name of the file of norms, None without rescoring.
    lines : the documents that exist for readers, by row; None where only the catalog has them.
    files : role (moments, reducer, rescorer, codes) -> file.
    origins : what ids begin with that are made up, or are paths in a folder (these end with "/", or
        are empty) -> a digest that tells the file or folder that they are of.
    certificate : what was proved of the settings in force; None where nothing was.
    passages : tokens that a passage may have; a longer text is cut. None: no text is.
    words : the folder of the words' index, None where there is none.
    hybrid : how `auto` fuses meaning and words, "rrf" or a weight, since labels told that it helps.
    fit : figures of the rows that the reducer was fitted on, as `FIT` lists them; empty before the
        first fit. The rows of that time are those before number "rows".
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
    vectors: str = file_name("vectors", 1)
    norms: str | None = None
    lines: Lines | None = None
    files: dict[str, FileRecord] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    certificate: Certificate | None = None
    fit: dict[str, float] = field(default_factory=dict)
    passages: int | None = None
    words: str | None = None
    hybrid: str | None = None

    @property
    def unfinished(self) -> bool:
        """Whether documents are staged that no reader sees yet."""
        return self.staged > self.rows

    @property
    def fitted(self) -> int:
        """Documents that the reducer has seen."""
        return int(self.fit["documents"])

    @property
    def is_encoded(self) -> bool:
        """Whether all documents that are staged and unseen have their vectors on disk."""
        return self.unfinished and self.encoded == self.staged

    @property
    def file_names(self) -> set[str]:
        """Every file beside the catalog that belongs to the index."""
        names = {record.name for record in self.files.values()} | {self.vectors}
        names |= self.lines.names if self.lines else set()
        return names | {name for name in (self.norms, self.words) if name}

    @property
    def stored(self) -> str:
        """How the vectors are kept, a name of `vector_file.STORED`."""
        ending = self.vectors.rpartition(".")[2]
        return next(name for name, its in STORED_ENDINGS.items() if its == ending)

    def vector_file(self, folder: Path, rows: int) -> VectorFile:
        """The first so many of the encoder's vectors, in the index's folder."""
        return VectorFile(folder / self.vectors, self.dim, rows, STORED[self.stored])

    def new_name(self, held: str) -> str:
        """What a file that this commit writes is called, by what it holds."""
        ending = STORED_ENDINGS[self.stored] if held == "vectors" else None
        return file_name(held, self.generation, ending)

    def to_json(self) -> str:
        """As the catalog keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises `CorruptError` if a field is missing or unknown, or can't be what it says."""
        try:
            values = parsed(text, READABLE)
            values["requested"] = Settings(**values["requested"])
            values["settings"] = values["settings"] and Settings(**values["settings"])
            values["lines"] = values["lines"] and Lines(**values["lines"])
            values["files"] = {role: FileRecord(**f) for role, f in values["files"].items()}
            proved = values["certificate"]
            values["certificate"] = proved if proved is None else Certificate.read(proved)
            state = cls(**values)
            state._check()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CorruptError(f"state in the catalog: {reason}") from error
        return state

    def _check(self) -> None:
        """Raise `TypeError` or `ValueError` for what slimdex would never have written.

        The names are opened and removed: in a stranger's catalog they could lead elsewhere.
        """
        for name, least in _LEAST.items():
            _whole(name, getattr(self, name), least)
        for name, largest in (("rows", self.staged), ("encoded", self.staged), ("dim", MOST_DIM)):
            if getattr(self, name) > largest:
                raise ValueError(f"{name}={getattr(self, name)}; expected at most {largest}")
        if not isinstance(self.encoder, dict) or not isinstance(self.given, bool):
            raise TypeError("encoder and given; expected an object and true or false")
        if self.passages is not None:
            _whole("passages", self.passages, 1)
        if self.source is not None and not isinstance(self.source, str):
            raise TypeError(f"source={self.source!r}; expected a text")
        if not all(isinstance(digest, str) for digest in self.origins.values()):
            raise TypeError("origins; expected texts")
        if self.fit or self.settings is not None:
            _check_fit(self.fit)
        proved = self.certificate.settings if self.certificate else None
        for settings in (self.requested, self.settings, proved):
            if settings is not None:
                _check_settings(settings, self.dim)
        _check_name("vectors", self.vectors)
        if self.norms is not None:
            _check_name("norms", self.norms)
        if self.words is not None:
            _check_name("words", self.words)
        if self.hybrid is not None and not isinstance(self.hybrid, str):
            raise TypeError(f"hybrid={self.hybrid!r}; expected a text")
        if self.lines is not None:
            _check_lines(self.lines)
        for role, record in self.files.items():
            _check_name(role, record.name)
            _whole(f"bytes of {role}", record.bytes, 0)
            if not isinstance(record.sha256, str):
                raise TypeError(f"sha256 of {role}; expected a text")
        fitted = {"moments", "reducer", "codes", *(["rescorer"] if self.norms else [])}
        if self.settings is not None and (missing := fitted - self.files.keys()):
            raise ValueError(f"no file of {min(missing)}")


def _whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value < 1 << 62:
        raise ValueError(f"{name}={value!r}; expected a whole number, {least} or more")


def _check_name(role: str, name: Any) -> None:
    found = OUR_FILES.fullmatch(name) if isinstance(name, str) else None
    if found is None or found[1] != role or found[2] not in ENDINGS[role] or found[3]:
        raise ValueError(f"file {name!r}; expected {role}-000001 or a later one")


def _check_lines(lines: Lines) -> None:
    _check_name("documents", lines.documents)
    _check_name("offsets", lines.offsets)
    _whole("bytes of documents", lines.bytes, 0)
    if not all(isinstance(type_, str) for type_ in lines.columns.values()):
        raise TypeError("columns of documents; expected names of types")


def _check_fit(fit: Any) -> None:
    if not isinstance(fit, dict) or not {"documents", "rows"} <= fit.keys() <= FIT.keys():
        raise TypeError(f"fit={fit!r}; expected documents, rows and perhaps the others of {[*FIT]}")
    for name in ("documents", "rows"):
        _whole(f"{name} of fit", fit[name], 0)
    for name, value in fit.items():
        if type(value) not in (int, float) or not 0 <= value <= FIT[name]:
            raise ValueError(f"{name}={value!r} of fit; expected 0 to {FIT[name]}")


def _check_settings(settings: Settings, dim: int) -> None:
    """Numbers and names of the right types; whether they suit each other is seen when fitted."""
    if settings.k is not None:
        _whole("k", settings.k, 1)
    if settings.candidates is not None:
        _whole("candidates", settings.candidates, 0)
    for name in ("beta", "gamma"):
        value = getattr(settings, name)
        if type(value) not in (int, float) or not -10 <= value <= 10:
            raise ValueError(f"{name}={value!r}; expected a number")
    if not isinstance(settings.kind, str) or settings.reducer not in REDUCERS:
        raise ValueError(f"kind={settings.kind!r}, reducer={settings.reducer!r}; expected ours")
    if settings.k is not None and settings.k > dim:
        raise ValueError(f"k={settings.k}; expected at most {dim}")
