"""What an index took, kept beside mteb's results, which are an experiment of their own.

mteb files a result under its model's name and revision, and one of a changed model under
``experiments/``, in a folder that `ModelMeta.experiment_kwargs` name: settings go there. A result
has no place for sizes, which differ by task. So they are lines of a file in the same folder, like
mteb's own ``run_settings.jsonl``, which no reader of results takes for one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from mteb import ResultCache
from mteb.models import ModelMeta

from slimdex.indexes.errors import InputError
from slimdex.indexes.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings

SIZES = "slimdex.jsonl"
"""The file of sizes, beside results."""
CHOSEN = "auto"
"""What a setting is called that is left to the corpus."""


class Place(NamedTuple):
    """Of what a result is: a task, and of its data a split and a subset."""

    task: str
    split: str
    subset: str


@dataclass(frozen=True)
class Sizes:
    """What an index is and takes, in bytes.

    Attributes
    ----------
    documents, vectors : counts; of a text that is cut each passage has a vector.
    settings : those in force, in which a small corpus may have changed some: see `notes`.
    candidates : vectors that are rescored for a query.
    stored : how full vectors are kept on disk: fp16 or int8.
    ram_bytes : codes, reducer and metric; ids are not counted, nor is what the system caches.
    ram_bytes_per_vector, ram_bytes_fixed : its parts, as `slimdex info` has them.
    disk_bytes : full vectors, and what is derived from them; texts are not counted.
    float32_bytes : what uncompressed vectors would take in memory.
    compression : float32_bytes / ram_bytes.
    """

    documents: int
    vectors: int
    dimensions: int
    settings: Mapping[str, Any]
    candidates: int
    stored: str
    ram_bytes: int
    ram_bytes_per_vector: float
    ram_bytes_fixed: int
    disk_bytes: int
    float32_bytes: int
    compression: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        index: ReducedIndex,
        settings: Settings,
        documents: int,
        disk_bytes: int,
        stored: str,
        notes: tuple[str, ...] = (),
    ) -> Sizes:
        """Those of an index, whose settings are in force."""
        uncompressed = 4 * len(index) * index.vectors.dim
        return cls(
            documents=documents,
            vectors=len(index),
            dimensions=index.vectors.dim,
            settings=settings.as_dict(),
            candidates=index.candidates,
            stored=stored,
            ram_bytes=index.nbytes,
            ram_bytes_per_vector=index.index.row_nbytes,
            ram_bytes_fixed=index.fixed_nbytes,
            disk_bytes=disk_bytes,
            float32_bytes=uncompressed,
            compression=uncompressed / index.nbytes,
            notes=notes,
        )


class Records:
    """The sizes of a model's indexes by place, also in the folder of its results.

    Parameters
    ----------
    cache : mteb's, which `mteb.evaluate` gets, too; without one nothing is written.
    meta : the model as the results have it.
    """

    def __init__(self, cache: ResultCache | None, meta: ModelMeta) -> None:
        self._cache, self._meta = cache, meta
        self.sizes: dict[Place, Sizes] = {}

    def add(self, place: Place, sizes: Sizes) -> None:
        """Keep sizes, in place of older ones of the same place."""
        self.sizes[place] = sizes
        if self._cache is None:
            return
        path = self._cache.get_task_result_path(place.task, self._meta).parent / SIZES
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        lines = [line for line in lines if _place_of(line) != place]
        versions = {name: version(name) for name in ("slimdex", "mteb")}
        lines.append(json.dumps({**place._asdict(), **asdict(sizes), "version": versions}))
        new = path.with_name(f"{SIZES}.new")
        new.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        os.replace(new, path)


def as_experiment(
    meta: ModelMeta, settings: Settings, stored: str, more: Mapping[str, Any] | None = None
) -> ModelMeta:
    """A model's metadata under which results with these settings lie apart from others.

    Raises
    ------
    InputError
        If the model is such an experiment already.
    """
    before = dict(meta.experiment_kwargs or {})
    own = {"index": "slimdex", **settings.as_dict(), "stored": stored, **(more or {})}
    if taken := sorted(before.keys() & own.keys()):
        raise InputError(
            f"model {meta.name}: its experiment has {', '.join(taken)} already; expected a model "
            "that is not compressed"
        )
    named = {name: CHOSEN if value is None else value for name, value in own.items()}
    return meta.model_copy(update={"experiment_kwargs": {**before, **named}})


def _place_of(line: str) -> Place | None:
    """Of what a line is; None if it is none of ours."""
    try:
        read = json.loads(line)
        return Place(read["task"], read["split"], read["subset"])
    except (ValueError, KeyError, TypeError):
        return None


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())
