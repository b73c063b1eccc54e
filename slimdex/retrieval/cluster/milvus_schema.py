"""Schema: fields, index and search parameters of a collection in Milvus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .milvus_fields import (
    BM25,
    DIGEST,
    FULL,
    HIT,
    ID_FIELD,
    KEY,
    LONGEST_TEXT,
    VECTOR,
    WORDS,
    Field,
)
from .milvus_server import Abilities

POINTS_PER_LIST = 39
"""FAISS, which Milvus uses to train lists, warns below this number of rows per list."""
PROBED_SHARE = 0.75
"""Share of the lists probed by a search: with 60,523 rows, it finds 0.999 of the nearest ten, and
half the lists find 0.991."""
MOST_PROBED = 256
"""Largest number of lists that are all probed."""
GRAPH = {"M": 16, "efConstruction": 200}
"""Parameters of HNSW: neighbours per row and layer, and candidates considered on insertion."""
BM25_PARAMS = {"bm25_k1": 1.2, "bm25_b": 0.75}
"""Parameters of BM25, those of the local index."""
DEFAULT = "IVF_SQ8"
"""Default kind: one byte per dimension, available on every server."""


@dataclass(frozen=True)
class IndexKind:
    """One of Milvus' index kinds, for a number of rows; a server refuses those that it lacks.

    Attributes
    ----------
    name : Milvus' name.
    dim : dimensions of the vectors.
    rows : expected number of rows.
    """

    name: str
    dim: int
    rows: int

    @property
    def _has_lists(self) -> bool:
        return self.name.startswith(("IVF", "SCANN"))

    @property
    def lists(self) -> int:
        """Number of lists of an inverted file: 4 sqrt(n), fewer if they can't be trained."""
        return max(1, min(round(4 * math.sqrt(self.rows)), self.rows // POINTS_PER_LIST))

    def build(self) -> dict[str, Any]:
        """Arguments of `add_index`.

        >>> IndexKind("IVF_SQ8", 192, 60_000).build()["params"]["params"]
        {'nlist': 980}
        """
        params: dict[str, Any] = {"nlist": self.lists} if self._has_lists else {}
        if self.name.startswith("HNSW"):
            params |= GRAPH
        if self.name == "HNSW_SQ":
            params["sq_type"] = "SQ8"
        if self.name == "IVF_PQ":
            largest = max(self.dim // 8, 1)
            m = next(m for m in range(largest, 0, -1) if self.dim % m == 0)
            params |= {"m": m, "nbits": 8}
        # Nested: all servers read them there, the embedded one nowhere else.
        return {"index_type": self.name, "metric_type": "IP", "params": {"params": params}}

    def search(self, limit: int, *, filtered: bool) -> dict[str, Any]:
        """Parameters of a search; with a filter, every list is probed.

        Otherwise matching rows in unprobed lists would be missed, which matters most if few match.
        """
        if self._has_lists:
            few = filtered or self.lists <= MOST_PROBED
            return {"nprobe": self.lists if few else round(PROBED_SHARE * self.lists)}
        return {"ef": max(limit + limit // 2, 64)} if self.name.startswith("HNSW") else {}


def described_fields(
    can: Abilities,
    fields: Sequence[Field],
    dim: int,
    full_dim: int = 0,
    *,
    hits: bool = False,
    words: bool = False,
) -> list[dict[str, Any]]:
    """Fields of a collection, as arguments of `add_field`.

    Parameters
    ----------
    dim : dimensions of the reduced vectors.
    full_dim : dimensions of the full vectors, if stored.
    hits : bool, default False
        Store the texts of hits.
    words : bool, default False
        Store words, to search them by BM25.
    """
    from pymilvus import DataType

    vector = DataType.FLOAT16_VECTOR if can.dtype == "float16" else DataType.FLOAT_VECTOR
    described: list[dict[str, Any]] = [
        {"field_name": KEY, "datatype": DataType.INT64, "is_primary": True},
        {"field_name": DIGEST, "datatype": DataType.INT64},
        {"field_name": VECTOR, "datatype": vector, "dim": dim},
    ]
    if full_dim:
        described.append({"field_name": FULL, "datatype": vector, "dim": full_dim})
    if hits:
        described.append(_text(HIT))
    if words:
        # This tokenizer, unlike others, is in every version; it keeps letters and digits together.
        analyzer = {"enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
        described.append(_text(WORDS) | analyzer)
        described.append({"field_name": BM25, "datatype": DataType.SPARSE_FLOAT_VECTOR})
    for field in (ID_FIELD, *fields):
        number = {"field_name": field.name, "datatype": getattr(DataType, field.kind)}
        described.append(_text(field.name) if field.kind == "VARCHAR" else number)
        if field.missing:
            described.append({"field_name": field.missing, "datatype": DataType.BOOL})
    return described


def functions(*, words: bool) -> list[Any]:
    """Functions of a collection, for `add_function`."""
    from pymilvus import Function, FunctionType

    return [Function(BM25, FunctionType.BM25, WORDS, BM25)] if words else []


def settings_fields() -> list[dict[str, Any]]:
    """Fields of a collection that stores texts by name."""
    from pymilvus import DataType

    return [
        {**_text("part"), "is_primary": True, "max_length": 200},
        _text("body"),
        # Older servers require a vector.
        {"field_name": "vector", "datatype": DataType.FLOAT_VECTOR, "dim": 2},
    ]


def indexes(kind: IndexKind, *, full: bool, words: bool) -> Mapping[str, Any]:
    """Index of each vector field; full vectors are compared exactly."""
    by_field = {VECTOR: kind.build()}
    if full:
        by_field[FULL] = IndexKind("FLAT", 0, 0).build()
    if words:
        by_field[BM25] = {
            "index_type": "SPARSE_INVERTED_INDEX",
            "metric_type": "BM25",
            "params": {"params": BM25_PARAMS},
        }
    return by_field


def _text(name: str) -> dict[str, Any]:
    from pymilvus import DataType

    return {"field_name": name, "datatype": DataType.VARCHAR, "max_length": LONGEST_TEXT}
