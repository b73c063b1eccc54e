"""Sizes of indexes, stored beside mteb's results of a separate experiment.

mteb stores results under the model's name and revision, and those of a modified model under
``experiments/``, in a folder named by `ModelMeta.experiment_kwargs`, which contain the settings.
Results have no field for sizes, which differ by task. Sizes are therefore lines of a file in the
same folder; like mteb's own ``run_settings.jsonl``, it is not read as a result.
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
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings

SIZES = "slimdex.jsonl"
"""File of sizes, beside the results."""
CHOSEN = "auto"
"""Name of a setting that depends on the corpus."""


class Place(NamedTuple):
    """Task, split and subset of a result."""

    task: str
    split: str
    subset: str


@dataclass(frozen=True)
class Sizes:
    """Description and sizes of an index, in bytes.

    Attributes
    ----------
    documents, vectors : counts; each passage of a text has a vector.
    settings : the effective ones, which a small corpus may have changed: see `notes`.
    candidates : vectors rescored per query.
    stored : format of the full vectors on disk: fp16 or int8.
    ram_bytes : codes, reducer and metric, without ids and the system's caches.
    ram_bytes_per_vector, ram_bytes_fixed : its parts, as in `slimdex info`.
    disk_bytes : full vectors and derived files, without texts.
    float32_bytes : uncompressed vectors in memory.
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
        """Sizes of an index with its effective settings."""
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
    """Sizes of a model's indexes by place, also written to the folder of its results.

    Parameters
    ----------
    cache : the one passed to `mteb.evaluate`; without it, nothing is written.
    meta : the model's metadata in the results.
    """

    def __init__(self, cache: ResultCache | None, meta: ModelMeta) -> None:
        self._cache, self._meta = cache, meta
        self.sizes: dict[Place, Sizes] = {}

    def add(self, place: Place, sizes: Sizes) -> None:
        """Record sizes, replacing earlier ones of the same place."""
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
    """Copy a model's metadata so that results with these settings are stored separately.

    Raises `InputError` if the model is already such an experiment.
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
    """Parse the place of a line; None if it is not ours."""
    try:
        read = json.loads(line)
        return Place(read["task"], read["split"], read["subset"])
    except (ValueError, KeyError, TypeError):
        return None


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())
