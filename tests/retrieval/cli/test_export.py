"""`slimdex push` as a user meets it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from slimdex.retrieval.cluster import milvus_server

from .running import Runner


@pytest.mark.slow
def test_pushed_and_kept_in_step(pets: Runner) -> None:
    first = pets("push", "pets", "--milvus", "pets.db", "--json").json
    assert {name: first[name] for name in ("rows", "sent", "removed", "is_new")} == {
        "rows": 3,
        "sent": 3,
        "removed": 0,
        "is_new": True,
    }
    assert pets("delete", "pets", "dog").code == 0
    told = pets("push", "pets", "--milvus", "pets.db")
    assert told.out == f"0 sent, 1 removed, 2 in {first['collection']}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--milvus", "pets"], "milvus pets: uri: pets is illegal"),
        (["--milvus", "pets.db", "--name", "a-b"], "name 'a-b'"),
        (["--milvus", "a.db", "--leave-out", "size"], "column 'size'"),
        (
            ["--milvus", "http://root:secret@10.0.0.1:19530"],
            "milvus http://10.0.0.1: the token would be sent unencrypted",
        ),
        (["--milvus", "http://127.0.0.1:1", "--token", "a:b"], "milvus http://127.0.0.1:1: Fail"),
        (
            ["--milvus", "http://127.0.0.2:1", "--token", "a:b", "--insecure"],
            "milvus http://127.0.0.2:1: Fail",
        ),
    ],
)
def test_a_refused_push_is_one_line(
    pets: Runner,
    options: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(milvus_server, "SECONDS", 2.0)
    assert pets.refuses("push", "pets", *options).startswith(f"error: {said}")


@contextmanager
def guarded() -> Iterator[tuple[str, list[str]]]:
    """A server that lets nobody in: its address, and the credentials that it was shown."""
    shown = list[str]()

    class Guard(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            sent = dict(details.invocation_metadata)
            if "authorization" in sent:
                shown.append(base64.b64decode(sent["authorization"]).decode())

            def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "who is it?")
                return b""

            return grpc.unary_unary_rpc_method_handler(refuse)

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads, handlers=(Guard(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"http://127.0.0.1:{port}", shown
        server.stop(None).wait()


def test_the_token_is_shown_to_the_server(pets: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_server, "SECONDS", 2.0)
    with guarded() as (address, shown):
        said = pets.refuses("push", "pets", "--milvus", address, "--token", "me:secret")
        assert said.startswith(f"error: milvus {address}: ")
        assert {*shown} == {"me:secret"}
        shown.clear()
        monkeypatch.setenv("MILVUS_TOKEN", "key")
        assert "secret" not in pets.refuses("push", "pets", "--milvus", address)
        assert {*shown} == {"key"}
