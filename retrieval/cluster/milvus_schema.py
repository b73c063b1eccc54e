"""Schema: the fields and the index of a collection in Milvus, and how it is searched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slimdex.indexes.errors import InputError

from .milvus_columns import (
    DIGEST,
    FULL,
    HIT,
    ID_FIELD,
    KEY,
    LONGEST_TEXT,
    VECTOR,
    Field,
)
from .milvus_server import Abilities

POINTS_PER_LIST = 39
"""FAISS, which Milvus trains lists with, warns below this many rows for each."""
PROBED_SHARE = 0.75
"""Of the lists that a search goes through: of 60,523 rows so many have 0.999 of the nearest ten,
and half of them 0.991..."""
MOST_PROBED = 256
"""...and all of them, if they are no more than so many."""
GRAPH = {"M": 16, "efConstruction": 200}
"""Of HNSW: neighbours of a row in each layer, and how many are looked at when it is added."""
LISTS = ("IVF_FLAT", "IVF_SQ8", "IVF_PQ", "SCANN", "IVF_RABITQ")
GRAPHS = ("HNSW", "HNSW_SQ")
DEFAULT = "IVF_SQ8"
"""The kind unless told otherwise: a byte a dimension, and every server has it."""


@dataclass(frozen=True)
class IndexKind:
    """One of Milvus' index kinds, for so many rows.

    Attributes
    ----------
    name : as Milvus calls it.
    dim : dimensions of the vectors.
    rows : how many are expected.
    """

    name: str
    dim: int
    rows: int

    @classmethod
    def asked(cls, name: str, can: Abilities, dim: int, rows: int) -> IndexKind:
        """A kind that the server has.

        Raises
        ------
        InputError
            If it has not.
        """
        if name.upper() not in can.kinds:
            raise InputError(
                f"kind {name!r}; expected what Milvus {can.version} has: {', '.join(can.kinds)}"
            )
        return cls(name.upper(), dim, rows)

    @property
    def lists(self) -> int:
        """How many lists an inverted file has: 4 sqrt(n), fewer where they can't be trained."""
        return max(1, min(round(4 * math.sqrt(self.rows)), self.rows // POINTS_PER_LIST))

    def build(self) -> dict[str, Any]:
        """What `add_index` takes.

        >>> IndexKind("IVF_SQ8", 192, 60_000).build()["params"]["params"]
        {'nlist': 980}
        """
        params: dict[str, Any] = {}
        if self.name in LISTS:
            params["nlist"] = self.lists
        if self.name in GRAPHS:
            params |= GRAPH
        if self.name == "HNSW_SQ":
            params["sq_type"] = "SQ8"
        if self.name == "IVF_PQ":
            params |= {"m": _divisor(self.dim, self.dim // 8), "nbits": 8}
        # In a dict of their own: the embedded server reads them nowhere else, and all others do.
        return {"index_type": self.name, "metric_type": "IP", "params": {"params": params}}

    def search(self, limit: int, *, filtered: bool) -> dict[str, Any]:
        """The parameters of a search; below a condition every list is gone through.

        Otherwise rows that it holds for are not found if they are in other lists, and with few
        of them that is most.
        """
        if self.name in LISTS:
            few = filtered or self.lists <= MOST_PROBED
            return {"nprobe": self.lists if few else round(PROBED_SHARE * self.lists)}
        return {"ef": max(limit + limit // 2, 64)} if self.name in GRAPHS else {}


def described_fields(
    can: Abilities, fields: Sequence[Field], dim: int, full_dim: int = 0, *, hits: bool = False
) -> list[dict[str, Any]]:
    """The fields of a collection, each as `add_field` takes it.

    Parameters
    ----------
    dim : dimensions of the reduced vectors.
    full_dim : of the full ones, where they are there, too.
    hits : whether documents are there as they are found.
    """
    from pymilvus import DataType

    vector = DataType.FLOAT16_VECTOR if can.float16 else DataType.FLOAT_VECTOR
    found: list[dict[str, Any]] = [
        {"field_name": KEY, "datatype": DataType.INT64, "is_primary": True},
        {"field_name": DIGEST, "datatype": DataType.INT64},
        {"field_name": VECTOR, "datatype": vector, "dim": dim},
    ]
    if full_dim:
        found.append({"field_name": FULL, "datatype": vector, "dim": full_dim})
    if hits:
        found.append(_text(HIT))
    for field in (ID_FIELD, *fields):
        kind = getattr(DataType, field.kind)
        whole = {"field_name": field.name, "datatype": kind}
        found.append(_text(field.name) if field.kind == "VARCHAR" else whole)
        if field.missing:
            found.append({"field_name": field.missing, "datatype": DataType.BOOL})
    return found


def settings_fields() -> list[dict[str, Any]]:
    """The fields of a collection that keeps texts by their names."""
    from pymilvus import DataType

    return [
        {**_text("part"), "is_primary": True, "max_length": 200},
        _text("body"),
        # Older servers have no collection without a vector.
        {"field_name": "vector", "datatype": DataType.FLOAT_VECTOR, "dim": 2},
    ]


def indexes(kind: IndexKind, *, full: bool) -> Mapping[str, Any]:
    """The index of each vector field: full vectors are compared as they are."""
    found = {VECTOR: kind.build()}
    if full:
        found[FULL] = IndexKind("FLAT", 0, 0).build()
    return found


def _text(name: str) -> dict[str, Any]:
    from pymilvus import DataType

    return {"field_name": name, "datatype": DataType.VARCHAR, "max_length": LONGEST_TEXT}


def _divisor(number: int, most: int) -> int:
    """The largest divisor up to a number."""
    return next(d for d in range(max(most, 1), 0, -1) if number % d == 0)
