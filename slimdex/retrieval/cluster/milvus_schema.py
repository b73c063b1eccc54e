"""Schema: names, fields and indexes of a collection in Milvus."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

LONGEST_TEXT = 65_535
"""Largest text of Milvus in bytes."""
KEY, DIGEST, VECTOR, HIT, WORDS, BM25 = "_pk", "_digest", "_vector", "_hit", "_words", "_bm25"
ID = "id"
OURS = {KEY, DIGEST, VECTOR, HIT, WORDS, BM25, ID}
"""slimdex's own fields."""
BOOL, REAL, TEXT = "BOOL", "DOUBLE", "VARCHAR"
_KINDS = {
    "BOOLEAN": BOOL,
    "TINYINT": "INT8",
    "SMALLINT": "INT16",
    "INTEGER": "INT32",
    "BIGINT": "INT64",
    "UTINYINT": "INT16",
    "USMALLINT": "INT32",
    "UINTEGER": "INT64",
    **dict.fromkeys(("FLOAT", "DOUBLE"), REAL),
    **dict.fromkeys(("VARCHAR", "UUID", "DATE", "TIME", "TIMESTAMP"), TEXT),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS"), TEXT),
}
"""DuckDB's type -> Milvus' type. Dates and times are texts, which have their order."""
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
LISTS, PROBED = 1024, 768
"""Lists of a segment's inverted file and those that a search reads. Milvus makes fewer lists, with
39 rows each, in segments of less than 40,000 rows, so that small ones are read whole."""
INDEX = {"nlist": LISTS, "refine": True, "refine_type": "FP16"}
"""Parameters of IVF_RABITQ: a bit for each dimension, and the nearest compared by float16."""
INDEX_OF_LITE = {"nlist": 1}
"""Parameters of IVF_SQ8, a byte for each dimension; the embedded server can't refine."""
BM25_PARAMS = {"bm25_k1": 1.2, "bm25_b": 0.75}
"""Parameters of BM25, those of the local index."""


def alias_of(name: str | None, folder: str | Path) -> str:
    """Validate the name of a pushed index, by default its folder's.

    Raises `InputError` if Milvus does not accept it.

    >>> alias_of(None, "a/notes.index")
    'notes_index'
    """
    if name is None:
        name = re.sub(r"\W", "_", Path(folder).absolute().name, flags=re.ASCII)[:100]
        name = name if _NAME.fullmatch(name) else f"_{name}"[:100]
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name!r}; expected letters, digits and underscores, 100 at most, and no digit "
            "first"
        )
    return name


def model_of(target: str) -> str:
    """Name of the collection that describes a collection of rows."""
    return f"{target}_model"


def is_ours(collection: str, alias: str) -> bool:
    """True for the name of a collection that a push under this alias makes."""
    prefix, _, fingerprint = collection.removesuffix("_model").rpartition("_")
    return (
        prefix == alias and len(fingerprint) == 12 and set(fingerprint) <= set("0123456789abcdef")
    )


def kinds_of(columns: Mapping[str, str], left_out: Sequence[str] = ()) -> dict[str, str]:
    """Map the columns, name -> DuckDB type, that get a field to its type in Milvus.

    Others have a type that has no counterpart, or a name that Milvus does not accept.

    Raises `InputError` if a column in `left_out` does not exist.

    >>> kinds_of({"year": "SMALLINT", "price": "DECIMAL(9,2)", "tags": "VARCHAR[]"})
    {'year': 'INT16', 'price': 'DOUBLE'}
    """
    if unknown := sorted(set(left_out) - set(columns)):
        known = ", ".join(columns) or "none"
        raise InputError(f"column {unknown[0]!r}; expected one of the index's columns: {known}")
    kinds = dict[str, str]()
    for column, type_ in columns.items():
        kind = REAL if type_.startswith("DECIMAL") else _KINDS.get(type_)
        is_free = _COLUMN.fullmatch(column) and column not in OURS
        if kind is not None and is_free and column not in left_out:
            kinds[column] = kind
    return kinds


def stored(kind: str, value: Any) -> Any:
    """Convert a column's value for a field of Milvus; NaN and infinity are missing values.

    >>> from datetime import datetime
    >>> stored("VARCHAR", datetime(2024, 12, 31, 9)), stored("DOUBLE", math.nan)
    ('2024-12-31 09:00:00', None)
    """
    if value is None:
        return None
    if kind == TEXT:
        return str(value)
    if kind == REAL:
        return float(value) if math.isfinite(value) else None
    return bool(value) if kind == BOOL else int(value)


def row_schema(
    kinds: Mapping[str, str], width: int, *, is_lite: bool, words: bool
) -> tuple[Any, Any]:
    """Schema and indexes of a collection of rows with columns of `kinds_of`, and words for BM25.

    The embedded server has neither float16 nor refinement.
    """
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = MilvusClient.prepare_index_params()
    schema.add_field(KEY, DataType.INT64, is_primary=True)
    schema.add_field(DIGEST, DataType.INT64)
    vector = DataType.FLOAT_VECTOR if is_lite else DataType.FLOAT16_VECTOR
    schema.add_field(VECTOR, vector, dim=width)
    kind, params = ("IVF_SQ8", INDEX_OF_LITE) if is_lite else ("IVF_RABITQ", INDEX)
    # Nested: all servers read them there, the embedded one nowhere else.
    indexes.add_index(VECTOR, kind, metric_type="IP", params={"params": params})
    schema.add_field(ID, DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(HIT, DataType.VARCHAR, max_length=LONGEST_TEXT, mmap_enabled=True)
    if words:
        schema.add_field(
            WORDS,
            DataType.VARCHAR,
            max_length=LONGEST_TEXT,
            mmap_enabled=True,
            enable_analyzer=True,
            enable_match=True,
            # This tokenizer, unlike others, is in every server; it keeps letters and digits.
            analyzer_params={"tokenizer": "standard"},
        )
        schema.add_field(BM25, DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function(BM25, FunctionType.BM25, WORDS, BM25))
        indexes.add_index(
            BM25,
            "SPARSE_INVERTED_INDEX",
            metric_type="BM25",
            params={"params": BM25_PARAMS},
        )
    for name, kind in kinds.items():
        length = {"max_length": LONGEST_TEXT} if kind == TEXT else {}
        schema.add_field(name, getattr(DataType, kind), nullable=True, **length)
    return schema, indexes


def part_schema() -> tuple[Any, Any]:
    """Schema and indexes of a collection of numbered texts; Milvus requires a vector."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = MilvusClient.prepare_index_params()
    schema.add_field(KEY, DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=2)
    indexes.add_index(VECTOR, "FLAT", metric_type="IP", params={})
    return schema, indexes
