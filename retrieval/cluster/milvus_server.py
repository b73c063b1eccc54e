"""Server: a Milvus that answers, what its version has, and one clear line when it does not."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import sleep
from typing import Any, Self
from urllib.parse import urlsplit

from slimdex.indexes.errors import InputError

from ..address import is_loopback
from ..extras import install_command

SECONDS = "SLIMDEX_MILVUS_SECONDS"
"""A variable of the environment: how long a server may take to answer before it counts as gone."""
USUAL_SECONDS = 30.0
MOST_HITS = 16_384
"""Rows that Milvus gives for one query, at most."""
READ_AT_ONCE = 4096
POLL_SECONDS = 0.1
"""Between two looks at an index that is being built."""
LITE_TRIES = 5
"""How often the embedded server is asked to load: it may read a file that it is still writing."""
LITE = "milvus_lite"
"""What the embedded server calls itself, before its version."""
_SECOND_VECTOR = _FLOAT16 = (2, 4)
_MORE_KINDS = {(2, 5): ("HNSW_SQ",), (2, 6): ("IVF_RABITQ",)}
_EVER = ("FLAT", "IVF_FLAT", "IVF_SQ8", "IVF_PQ", "HNSW", "SCANN")
_OF_LITE = ("FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW", "HNSW_SQ")
BOUNDED, STRONG = "Bounded", "Strong"
"""What searches see: rows of five seconds ago, at once; or all, after a wait of up to 0.2 s."""
CONNECTION_FAILED = 2
"""The client's own code."""
_EMBEDDED = Counter[str]()
"""Files of embedded servers -> connections of this process."""


class RefusedError(InputError):
    """What a server that answers does not do."""


class GoneError(InputError):
    """A server that does not answer, or not in time."""


@dataclass(frozen=True)
class Abilities:
    """What a version has.

    Attributes
    ----------
    version : as the server says it.
    kinds : index kinds of vectors that are no less than float16.
    float16 : whether vectors can be stored so; else they are float32.
    second_vector : whether a row can have two vectors.
    """

    version: str
    kinds: tuple[str, ...]
    float16: bool
    second_vector: bool

    @classmethod
    def of(cls, version: str) -> Self:
        """By what a server says of itself.

        >>> Abilities.of("v2.3.5-lite").kinds
        ('FLAT', 'IVF_FLAT', 'IVF_SQ8', 'IVF_PQ', 'HNSW', 'SCANN')
        >>> Abilities.of("2.6.1").float16, Abilities.of("milvus_lite-3.2.2").float16
        (True, False)

        Raises
        ------
        InputError
            If it is older than 2.3, or says nothing of the kind.
        """
        if version.startswith(LITE):
            return cls(version, _OF_LITE, float16=False, second_vector=True)
        found = re.search(r"(\d+)\.(\d+)", version)
        number = (int(found[1]), int(found[2])) if found else (0, 0)
        if number < (2, 3):
            raise InputError(f"Milvus {version!r}; expected version 2.3 or newer")
        more = [kind for since, kinds in _MORE_KINDS.items() if number >= since for kind in kinds]
        return cls(version, (*_EVER, *more), number >= _FLOAT16, number >= _SECOND_VECTOR)


LOADING_SECONDS = 3600.0
"""In which the embedded server makes the graph of a large collection."""


class Server:
    """A connection to Milvus; every call ends within `SECONDS` or raises `InputError`.

    Parameters
    ----------
    uri : http://HOST:19530 of a server, or a file NAME.db of the embedded one.
    token : of servers that ask who it is: USER:PASSWORD, or a key.
    insecure : whether the token may go to another machine without TLS.

    Attributes
    ----------
    can : what its version has.
    consistency : of searches, `BOUNDED` or `STRONG`; all else is strong.

    Raises
    ------
    InputError
        If nothing answers there, a token would be sent unencrypted, or the extra `cluster` is not
        installed.
    """

    def __init__(self, uri: str, token: str = "", *, insecure: bool = False) -> None:
        self.uri, self.seconds = uri, _seconds_allowed()
        self.consistency = BOUNDED
        if "://" not in uri and not uri.endswith(".db"):
            raise InputError(f"milvus {uri!r}; expected http://HOST:19530 or a file NAME.db")
        if not insecure:
            _check_encrypted(uri, token)
        try:
            from pymilvus import MilvusClient
        except ImportError as error:
            raise InputError(f"milvus ({error}): {install_command('cluster')}") from error
        # What goes wrong is raised, too; its own report would be a traceback beside our line.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._embedded = None if "://" in uri else os.path.abspath(uri)
        with self.answering():
            self.client = MilvusClient(uri, token=token, timeout=self.seconds)
            self.can = Abilities.of(str(self.client.get_server_version(timeout=self.seconds)))
        if self._embedded is not None:
            _EMBEDDED[self._embedded] += 1

    def _ask(self, call: str, *values: Any, **named: Any) -> Any:
        """Call a method of the client's."""
        with self.answering():
            return getattr(self.client, call)(*values, **{"timeout": self.seconds} | named)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Around calls: what a server or the network does wrong becomes one line."""
        from grpc import FutureTimeoutError, RpcError
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except MilvusException as error:
            line = f"milvus {self.uri}: {_first(error.message)}"
            # Where the network is at fault, the code is grpc's or that of a failed connection.
            gone = not isinstance(error.code, int) or error.code == CONNECTION_FAILED
            raise (GoneError if gone else RefusedError)(line) from error
        except (RpcError, FutureTimeoutError, ConnectionError, OSError) as error:
            raise GoneError(f"milvus {self.uri}: {_first(str(error))}") from error
        except ValueError as error:
            if isinstance(error, InputError) or "closed" not in str(error):
                raise
            raise GoneError(f"milvus {self.uri}: the connection is closed") from error

    def close(self) -> None:
        """End the connection, and the embedded server with the last one to it."""
        with suppress(Exception):
            self.client.close()
        if self._embedded is None:
            return
        path, self._embedded = self._embedded, None
        _EMBEDDED[path] -= 1
        if not _EMBEDDED[path]:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def collection_of(self, alias: str) -> str | None:
        """The collection that an alias stands for, or that has the name; None if there is none."""
        if not self._ask("has_collection", alias):
            return None
        return str(self._ask("describe_collection", alias)["collection_name"])

    def has_whole(self, name: str, fields: Sequence[str]) -> bool:
        """Whether there is a collection with the indexes of its vectors.

        One without them was left by a process that was killed as it made it; nothing was ever in
        it, and it is dropped.
        """
        if self.collection_of(name) is None:
            return False
        if set(fields) <= set(self._ask("list_indexes", name)):
            return True
        self.drop(name)
        return False

    def collections(self) -> list[str]:
        """The names of all collections."""
        return [*self._ask("list_collections")]

    def create(
        self, name: str, fields: Sequence[Mapping[str, Any]], index: Mapping[str, Any]
    ) -> None:
        """A collection of these fields, as `add_field` takes them, with indexes.

        Parameters
        ----------
        index : a mapping of field -> what `add_index` takes of it.
        """
        with self.answering():
            schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
            for field in fields:
                schema.add_field(**field)
            params = self.client.prepare_index_params()
            for field_name, asked in index.items():
                params.add_index(field_name, **asked)
            self.client.create_collection(
                name,
                schema=schema,
                index_params=params,
                consistency_level="Strong",
                timeout=self.seconds,
            )

    def load(self, name: str) -> None:
        """Have a collection in memory, so that it can be asked; that may take long.

        A server begins to load and says how far it is; the embedded one answers when it has.
        """
        for left in reversed(range(1 if self._embedded is None else LITE_TRIES)):
            try:
                self._begin_loading(name)
                break
            except RefusedError:
                if not left:
                    raise
            sleep(POLL_SECONDS)
        while not self._is_loaded(name):
            sleep(POLL_SECONDS)

    def _begin_loading(self, name: str) -> None:
        seconds = self.seconds if self._embedded is None else LOADING_SECONDS
        self._ask("load_collection", name, timeout=seconds, _async=True)

    def _is_loaded(self, name: str) -> bool:
        from pymilvus.client.types import LoadState

        state = self._ask("get_load_state", name)["state"]
        if state not in (LoadState.Loading, LoadState.Loaded):
            raise RefusedError(f"milvus {self.uri}: {name} could not be loaded")
        return bool(state == LoadState.Loaded)

    def reload(self, name: str) -> None:
        """Have a collection in memory anew: with its indexes, not what is searched meanwhile.

        Until a server has taken up an index that was just built, it searches by a makeshift one,
        which finds less.
        """
        self._ask("release_collection", name)
        self.load(name)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._ask("drop_collection", name)

    def drop_with_alias(self, alias: str, name: str) -> None:
        """Remove a collection, and the alias if it stands for that."""
        if self.collection_of(alias) == name:
            self._ask("drop_alias", alias)
        self.drop(name)

    def point(self, alias: str, name: str) -> None:
        """Let an alias stand for a collection from now on."""
        has_alias = self._ask("has_collection", alias)
        self._ask("alter_alias" if has_alias else "create_alias", name, alias)

    def put(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write rows; one of the same key takes the other's place."""
        self._ask("upsert", name, rows)

    def remove(self, name: str, ids: Sequence[int] | Sequence[str]) -> None:
        """Remove rows by their keys."""
        self._ask("delete", name, ids=list(ids))

    def rows(self, name: str, filter: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """The rows that a filter holds for, `MOST_HITS` at most."""
        found = self._ask("query", name, filter=filter, output_fields=[*fields], limit=MOST_HITS)
        return [dict(row) for row in found]

    def every(self, name: str, fields: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """All rows of a collection, some at a time."""
        iterator = self._ask("query_iterator", name, READ_AT_ONCE, output_fields=[*fields])
        try:
            while True:
                with self.answering():
                    found = iterator.next()
                if not found:
                    return
                yield [dict(row) for row in found]
        finally:
            iterator.close()

    def count(self, name: str, filter: str = "") -> int:
        """How many rows a filter holds for, or how many there are."""
        (row,) = self._ask("query", name, filter=filter, output_fields=["count(*)"])
        return int(row["count(*)"])

    def nearest(
        self,
        name: str,
        field: str,
        vectors: Sequence[Any],
        limit: int,
        *,
        filter: str,
        params: Mapping[str, Any],
        output: Sequence[str] = (),
    ) -> list[list[dict[str, Any]]]:
        """For each vector the rows of the largest product: "key", "distance" and "entity"."""
        found = self._ask(
            "search",
            name,
            data=list(vectors),
            anns_field=field,
            limit=limit,
            filter=filter,
            output_fields=[*output],
            search_params={"metric_type": "IP", "params": dict(params)},
            consistency_level=self.consistency,
        )
        return [
            [
                {"key": hit.id, "distance": hit.distance, "entity": dict(hit.get("entity") or {})}
                for hit in hits
            ]
            for hits in found
        ]

    def settle(self, name: str, fields: Sequence[str]) -> None:
        """Wait until all rows are written and indexed; it may take long, and is no failure."""
        self._ask("flush", name)
        for field in fields:
            while self._pending(name, field):
                sleep(POLL_SECONDS)

    def _pending(self, name: str, field: str) -> bool:
        said = self._ask("describe_index", name, field)
        state = str(said.get("state", "Finished"))
        if state == "Failed":
            raise InputError(
                f"milvus {self.uri}: index of {name}: {said.get('index_state_fail_reason')}"
            )
        return int(said.get("pending_index_rows", 0)) > 0


def _check_encrypted(uri: str, token: str) -> None:
    """Raise `InputError` for a token, or a password in the URI, that others could read."""
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
    said = os.environ.get(SECONDS, str(USUAL_SECONDS))
    with suppress(ValueError):
        if 0 < float(said) < 1e6:
            return float(said)
    raise InputError(f"{SECONDS}={said!r}; expected a number of seconds, more than 0")


def _first(message: str) -> str:
    """What a server says, without the trees and traces after it."""
    line = " ".join(str(message).split())
    return line if len(line) <= 300 else f"{line[:300]}..."
