"""Milvus: a connection with a time limit for each call and one-line errors, and collections."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from slimdex.errors import InputError
from slimdex.system.extras import install_command

from ..encoders.over_http.connection import is_loopback

SECONDS = 30.0
"""Time after which a server counts as unreachable."""
LOADING_SECONDS = 3600.0
"""Time that a server may take to load a collection into memory."""
READ_AT_ONCE = 4096
LISTS = 1024
PROBED = 768
"""Lists of a segment's inverted file and those that a search reads. Milvus makes fewer lists, with
39 rows each, in segments of less than 40,000 rows, so that small ones are read whole."""
INDEX = {"nlist": LISTS, "refine": True, "refine_type": "FP16"}
"""Parameters of IVF_RABITQ: a bit for each dimension, and the nearest compared by float16."""
INDEX_OF_LITE = {"nlist": 1}
"""Parameters of IVF_SQ8, a byte for each dimension; the embedded server can't refine."""
LONGEST_TEXT = 65_535
"""Largest text of Milvus in bytes."""
KEY = "_pk"
DIGEST = "_digest"
VECTOR = "_vector"
HIT = "_hit"
WORDS = "_words"
BM25 = "_bm25"
ID = "id"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Server:
    """A connection to Milvus; every call ends within `SECONDS` or raises `InputError`.

    The parameters are those of `MilvusCollection`. Raises `InputError` if nothing answers, the
    token would be sent unencrypted, or the extra `cluster` is not installed.
    """

    def __init__(self, uri: str, token: str = "", *, insecure: bool = False) -> None:
        self.uri = uri
        if not insecure:
            _check_encrypted(uri, token)
        try:
            from pymilvus import MilvusClient  # of the extra `cluster`
        except ImportError as error:
            raise InputError(f"milvus ({error}): {install_command('cluster')}") from error
        # Errors are raised as well; the client's own log would add a traceback.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        with self._answering():
            self.client = MilvusClient(uri, token=token, timeout=SECONDS)
        self.is_lite = str(self.ask("get_server_version")).startswith("milvus_lite")

    def ask(self, call: str, *values: Any, **named: Any) -> Any:
        """Call a method of `MilvusClient`."""
        with self._answering():
            return getattr(self.client, call)(*values, **{"timeout": SECONDS} | named)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Convert errors of the server or the network to one-line errors."""
        # Loaded by the client.
        from grpc import FutureTimeoutError, RpcError
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, RpcError, FutureTimeoutError, OSError) as error:
            line = " ".join(str(getattr(error, "message", error)).split())
            raise InputError(f"milvus {self.uri}: {line[:300]}") from error

    def close(self) -> None:
        """Close the connection; an embedded server ends with the process."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def collection_of(self, alias: str) -> str | None:
        """The collection with this alias or name; None if none exists."""
        if not self.ask("has_collection", alias):
            return None
        return str(self.ask("describe_collection", alias)["collection_name"])

    def every(self, name: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        """All rows of a collection."""
        iterator = self.ask("query_iterator", name, READ_AT_ONCE, output_fields=[*fields])
        while True:
            with self._answering():
                batch = iterator.next()
            if not batch:
                return
            yield from batch

    def prepare(self, name: str, dim: int, *, words: bool) -> None:
        """Create a collection, unless it exists, and load it into memory.

        With `words`, the server computes BM25's vectors from a text of words.
        """
        # One without its indexes was left, empty, by a process killed while creating it.
        indexed = {VECTOR, BM25} if words else {VECTOR}
        exists = self.ask("has_collection", name)
        if exists and not indexed <= {*self.ask("list_indexes", name)}:
            self.ask("drop_collection", name)
            exists = False
        if not exists:
            schema, indexes = _form(dim, words, self.is_lite)
            options = {"index_params": indexes, "consistency_level": "Strong"}
            self.ask("create_collection", name, schema=schema, **options)
        self.load(name)

    def load(self, name: str) -> None:
        """Load a collection into memory, unless it is there."""
        self.ask("load_collection", name, timeout=LOADING_SECONDS)


def _form(dim: int, words: bool, is_lite: bool) -> tuple[Any, Any]:
    """Schema and indexes of a collection; other fields may be added to each row."""
    from pymilvus import DataType, Function, FunctionType, MilvusClient  # loaded by the client

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=True)
    indexes = MilvusClient.prepare_index_params()
    schema.add_field(KEY, DataType.VARCHAR, max_length=LONGEST_TEXT, is_primary=True)
    schema.add_field(DIGEST, DataType.VARCHAR, max_length=LONGEST_TEXT)
    schema.add_field(HIT, DataType.JSON)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=dim)
    index_type, params = ("IVF_SQ8", INDEX_OF_LITE) if is_lite else ("IVF_RABITQ", INDEX)
    # Nested parameters work on all servers; the embedded one reads no others.
    indexes.add_index(VECTOR, index_type, metric_type="IP", params={"params": params})

    # The words, from which the server computes BM25's vectors.
    if words:
        # This tokenizer, unlike others, is in every server; it keeps letters and digits.
        analyzer = {"enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
        schema.add_field(WORDS, DataType.VARCHAR, max_length=LONGEST_TEXT, **analyzer)
        schema.add_field(BM25, DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(Function(BM25, FunctionType.BM25, WORDS, BM25))
        indexes.add_index(BM25, "SPARSE_INVERTED_INDEX", metric_type="BM25")
    return schema, indexes


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


def alias_of(name: str | None, folder: str | Path) -> str:
    """Validate the name of a pushed index, by default its folder's.

    Raises `InputError` if Milvus does not accept it.

    >>> alias_of(None, "a/notes.index")
    'notes_index'
    """
    if name is None:
        name = re.sub(r"\W", "_", Path(folder).absolute().name, flags=re.ASCII)[:99]
        name = name if _NAME.fullmatch(name) else f"_{name}"
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
    return re.fullmatch(rf"{alias}_[0-9a-f]{{12}}(_model)?", collection) is not None
