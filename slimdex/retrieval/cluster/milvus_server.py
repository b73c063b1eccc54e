"""Milvus: a connection with a time limit for each call and one-line errors, and schemas."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, Self
from urllib.parse import urlsplit

from slimdex.errors import InputError
from slimdex.system.extras import install_command

from ..encoders.over_http.connection import is_loopback

SECONDS = "SLIMDEX_MILVUS_SECONDS"
"""Environment variable: seconds after which a server counts as unreachable."""
USUAL_SECONDS = 30.0
MOST_HITS = 16_384
"""Largest number of rows that Milvus returns per query."""
READ_AT_ONCE = 4096
POLL_SECONDS = 0.1
"""Seconds between polls of an index being built."""
LOAD_ATTEMPTS = 5
"""Of the embedded server, which may still be writing the collection's file."""
LITE = "milvus_lite"
"""Prefix of the embedded server's version."""
OLDEST = (2, 6)
OLDEST_LITE = (3, 0)
BOUNDED = "Bounded"
STRONG = "Strong"
"""Consistency: as of up to five seconds ago, at once; or as of now, within 0.2 s."""
CONNECTION_FAILED = 2
"""Error code of the client."""
LOADING_SECONDS = 3600.0
"""Time limit of the embedded server for indexing a large collection."""
LONGEST_TEXT = 65_535
"""Largest text of Milvus in bytes."""
KEY = "_pk"
DIGEST = "_digest"
VECTOR = "_vector"
HIT = "_hit"
WORDS = "_words"
BM25 = "_bm25"
ID = "id"
OURS = {KEY, DIGEST, VECTOR, HIT, WORDS, BM25, ID}
"""slimdex's own fields."""
BOOL = "BOOL"
REAL = "DOUBLE"
TEXT = "VARCHAR"
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
LISTS = 1024
PROBED = 768
"""Lists of a segment's inverted file and those that a search reads. Milvus makes fewer lists, with
39 rows each, in segments of less than 40,000 rows, so that small ones are read whole."""
INDEX = {"nlist": LISTS, "refine": True, "refine_type": "FP16"}
"""Parameters of IVF_RABITQ: a bit for each dimension, and the nearest compared by float16."""
INDEX_OF_LITE = {"nlist": 1}
"""Parameters of IVF_SQ8, a byte for each dimension; the embedded server can't refine."""
BM25_PARAMS = {"bm25_k1": 1.2, "bm25_b": 0.75}
"""Parameters of BM25, those of the local index."""


class RefusedError(InputError):
    """A request that the server refuses."""


def is_lite(version: str) -> bool:
    """True for the embedded server, False for another, by its version.

    Raises `InputError` if it is too old or not a version.

    >>> is_lite("milvus_lite-3.2.2"), is_lite("v2.6.1")
    (True, False)
    >>> is_lite("v2.5.4")
    Traceback (most recent call last):
    slimdex.errors.InputError: Milvus 'v2.5.4'; expected 2.6 or newer, or milvus_lite 3
    """
    is_embedded = version.startswith(LITE)
    digits = re.search(r"(?<!\d)(\d+)\.(\d+)", version)
    number = (int(digits[1]), int(digits[2])) if digits else (0, 0)
    if number < (OLDEST_LITE if is_embedded else OLDEST):
        raise InputError(f"Milvus {version!r}; expected 2.6 or newer, or milvus_lite 3")
    return is_embedded


class Server:
    """A connection to Milvus; every call ends within `SECONDS` or raises `InputError`.

    The parameters are those of `MilvusCollection`. `is_lite` is true for the embedded server, also
    in a process of its own; `consistency` is that of searches: everything else is strong.

    Raises `InputError` if nothing answers, the version is too old, the token would be sent
    unencrypted, or the extra `cluster` is not installed.
    """

    def __init__(self, uri: str, token: str = "", *, insecure: bool = False) -> None:
        self.uri = uri
        self.seconds = _seconds_allowed()
        self.consistency = BOUNDED
        if "://" not in uri and not uri.endswith(".db"):
            raise InputError(f"milvus {uri!r}; expected http://HOST:19530 or a file NAME.db")
        if not insecure:
            _check_encrypted(uri, token)
        try:
            from pymilvus import MilvusClient  # of the extra `cluster`
        except ImportError as error:
            raise InputError(f"milvus ({error}): {install_command('cluster')}") from error
        # Errors are raised as well; the client's own log would add a traceback.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        with self.answering():
            self.client = MilvusClient(uri, token=token, timeout=self.seconds)
            self.is_lite = is_lite(str(self.client.get_server_version(timeout=self.seconds)))

    def _ask(self, call: str, *values: Any, **named: Any) -> Any:
        """Call a method of the client."""
        with self.answering():
            return getattr(self.client, call)(*values, **{"timeout": self.seconds} | named)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Convert errors of the server or the network to one-line errors."""
        # Loaded by the client.
        from grpc import FutureTimeoutError, RpcError
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except MilvusException as error:
            line = f"milvus {self.uri}: {_first(error.message)}"
            # Network errors have grpc's code or that of a failed connection.
            is_unreachable = not isinstance(error.code, int) or error.code == CONNECTION_FAILED
            raise (InputError if is_unreachable else RefusedError)(line) from error
        except (RpcError, FutureTimeoutError, ConnectionError, OSError) as error:
            raise InputError(f"milvus {self.uri}: {_first(str(error))}") from error
        except ValueError as error:
            if isinstance(error, InputError) or "closed" not in str(error):
                raise
            raise InputError(f"milvus {self.uri}: the connection is closed") from error

    def close(self) -> None:
        """Close the connection; an embedded server ends with the process."""
        with suppress(Exception):
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def collection_of(self, alias: str) -> str | None:
        """The collection with this alias or name; None if none exists."""
        if not self._ask("has_collection", alias):
            return None
        return str(self._ask("describe_collection", alias)["collection_name"])

    def has_whole(self, name: str, fields: Sequence[str]) -> bool:
        """True if the collection exists with the indexes of its vectors.

        One without them was left, empty, by a process killed while creating it; it is dropped.
        """
        if self.collection_of(name) is None:
            return False
        if set(fields) <= set(self._ask("list_indexes", name)):
            return True
        self.drop(name)
        return False

    def collections(self) -> list[str]:
        """Names of all collections."""
        return [*self._ask("list_collections")]

    def create(self, name: str, schema: Any, indexes: Any) -> None:
        """Create a collection with indexes."""
        options = {"schema": schema, "index_params": indexes, "consistency_level": STRONG}
        self._ask("create_collection", name, **options)

    def load(self, name: str) -> None:
        """Load a collection into memory for searching, which may take long.

        A server loads in the background and reports progress; the embedded one blocks.
        """
        seconds = self.seconds
        attempts = 1
        if self.is_lite:
            seconds = LOADING_SECONDS
            attempts = LOAD_ATTEMPTS

        # Start loading, then wait until the server has finished.
        for attempt in range(1, attempts + 1):
            try:
                self._ask("load_collection", name, timeout=seconds, _async=True)
                break
            except RefusedError:  # the embedded server may still be writing the file
                if attempt == attempts:
                    raise
            sleep(POLL_SECONDS)
        while not self._is_loaded(name):
            sleep(POLL_SECONDS)

    def _is_loaded(self, name: str) -> bool:
        """Return whether a collection has finished loading; raise `RefusedError` if that failed."""
        from pymilvus.client.types import LoadState  # loaded by the client

        state = self._ask("get_load_state", name)["state"]
        if state not in (LoadState.Loading, LoadState.Loaded):
            raise RefusedError(f"milvus {self.uri}: {name} could not be loaded")
        return bool(state == LoadState.Loaded)

    def reload(self, name: str) -> None:
        """Load a collection into memory again, with its indexes; it must not be searched meanwhile.

        Until a server has loaded a newly built index, it searches a temporary one with lower
        recall.
        """
        self._ask("release_collection", name)
        self.load(name)

    def drop(self, name: str) -> None:
        """Delete a collection."""
        self._ask("drop_collection", name)

    def point(self, alias: str, name: str) -> None:
        """Point an alias to a collection."""
        has_alias = self._ask("has_collection", alias)
        self._ask("alter_alias" if has_alias else "create_alias", name, alias)

    def upsert(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Insert rows, replacing those of the same key."""
        self._ask("upsert", name, rows)

    def remove(self, name: str, ids: Sequence[int] | Sequence[str]) -> None:
        """Delete rows by their keys."""
        self._ask("delete", name, ids=list(ids))

    def rows(self, name: str, where: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows that match a condition, at most `MOST_HITS`."""
        matches = self._ask("query", name, filter=where, output_fields=[*fields], limit=MOST_HITS)
        return [dict(row) for row in matches]

    def every(
        self, name: str, fields: Sequence[str], at_once: int = READ_AT_ONCE
    ) -> Iterator[list[dict[str, Any]]]:
        """All rows of a collection, in batches."""
        iterator = self._ask("query_iterator", name, at_once, output_fields=[*fields])
        try:
            while True:
                with self.answering():
                    batch = iterator.next()
                if not batch:
                    return
                yield [dict(row) for row in batch]
        finally:
            iterator.close()

    def count(self, name: str, where: str = "") -> int:
        """Number of rows that match a condition; without one, of all rows."""
        (row,) = self._ask("query", name, filter=where, output_fields=["count(*)"])
        return int(row["count(*)"])

    def nearest(
        self,
        name: str,
        field: str,
        queries: Sequence[Any],
        limit: int,
        where: str,
        params: Mapping[str, Any],
        output: Sequence[str],
    ) -> list[Any]:
        """For each query, a vector or a text, the rows that match and have the largest scores."""
        hits = self._ask(
            "search",
            name,
            data=list(queries),
            anns_field=field,
            limit=limit,
            filter=where,
            output_fields=[*output],
            search_params={"params": dict(params)},
            consistency_level=self.consistency,
        )
        return [*hits]

    def settle(self, name: str, fields: Sequence[str]) -> None:
        """Wait until all rows are written and indexed, without a time limit."""
        self._ask("flush", name)
        for field in fields:
            while self._pending(name, field):
                sleep(POLL_SECONDS)

    def _pending(self, name: str, field: str) -> bool:
        """Return whether rows still wait to be indexed; raise `InputError` if indexing failed."""
        described = self._ask("describe_index", name, field)
        if described.get("state") == "Failed":
            raise InputError(
                f"milvus {self.uri}: index of {name}: {described.get('index_state_fail_reason')}"
            )
        return int(described.get("pending_index_rows", 0)) > 0


def _check_encrypted(uri: str, token: str) -> None:
    """Raise `InputError` if a token, or a password in the URI, would be sent unencrypted."""
    try:
        parts = urlsplit(uri if "://" in uri else "")
    except ValueError as error:
        raise InputError(f"milvus URI: {error}; expected http://HOST:19530") from error
    has_token = bool(token) or parts.password is not None
    if has_token and parts.hostname and parts.scheme != "https" and not is_loopback(parts.hostname):
        raise InputError(
            f"milvus {parts.scheme}://{parts.hostname}: the token would be sent unencrypted; "
            "expected https://, or insecure=True"
        )


def _seconds_allowed() -> float:
    """Read the time limit of a call from the environment; raise `InputError` if it is invalid."""
    seconds = os.environ.get(SECONDS, str(USUAL_SECONDS))
    with suppress(ValueError):
        if 0 < float(seconds) < 1e6:
            return float(seconds)
    raise InputError(f"{SECONDS}={seconds!r}; expected a number of seconds, more than 0")


def _first(message: str) -> str:
    """Shorten a server's message to one line."""
    line = " ".join(str(message).split())
    return line if len(line) <= 300 else f"{line[:300]}..."


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
    unknown = sorted(set(left_out) - set(columns))
    if unknown:
        known = ", ".join(columns) or "none"
        raise InputError(f"column {unknown[0]!r}; expected one of the index's columns: {known}")
    kinds = dict[str, str]()
    for column, type_ in columns.items():
        kind = REAL if type_.startswith("DECIMAL") else _KINDS.get(type_)
        is_usable_name = _COLUMN.fullmatch(column) and column not in OURS
        if kind is not None and is_usable_name and column not in left_out:
            kinds[column] = kind
    return kinds


def field_value(kind: str, value: Any) -> Any:
    """Convert a column's value for a field of Milvus; NaN and infinity are missing values.

    >>> from datetime import datetime
    >>> field_value("VARCHAR", datetime(2024, 12, 31, 9)), field_value("DOUBLE", math.nan)
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
    # Loaded by the connection that will create the collection.
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = MilvusClient.prepare_index_params()

    # The vector, the hit, and what identifies them.
    schema.add_field(KEY, DataType.INT64, is_primary=True)
    schema.add_field(DIGEST, DataType.INT64)
    vector_type = DataType.FLOAT_VECTOR if is_lite else DataType.FLOAT16_VECTOR
    schema.add_field(VECTOR, vector_type, dim=width)
    index_type, params = ("IVF_SQ8", INDEX_OF_LITE) if is_lite else ("IVF_RABITQ", INDEX)
    # Nested parameters work on all servers; the embedded one reads no others.
    indexes.add_index(VECTOR, index_type, metric_type="IP", params={"params": params})
    schema.add_field(ID, DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(HIT, DataType.VARCHAR, max_length=LONGEST_TEXT, mmap_enabled=True)

    # The words, from which the server computes BM25's vectors.
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
            BM25, "SPARSE_INVERTED_INDEX", metric_type="BM25", params={"params": BM25_PARAMS}
        )

    # The columns, for conditions.
    for name, kind in kinds.items():
        length = {"max_length": LONGEST_TEXT} if kind == TEXT else {}
        schema.add_field(name, getattr(DataType, kind), nullable=True, **length)
    return schema, indexes


def part_schema() -> tuple[Any, Any]:
    """Schema and indexes of a collection of numbered texts; Milvus requires a vector."""
    from pymilvus import DataType, MilvusClient  # as in `row_schema`

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = MilvusClient.prepare_index_params()
    schema.add_field(KEY, DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=2)
    indexes.add_index(VECTOR, "FLAT", metric_type="IP", params={})
    return schema, indexes
