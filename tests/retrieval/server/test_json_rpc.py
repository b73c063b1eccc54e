"""Every message that is no valid one is answered with an error, and the server lives on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.json_rpc import refusal
from slimdex.system.locks import FileLock
from tests import ctrl_c

from .asking import asking, made
from .running import built

PARSE, REQUEST, PARAMS, METHOD = -32700, -32600, -32602, -32601
HALF = r"\ud83d"


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def call(id: Any, tool: str, **arguments: Any) -> bytes:
    return message(id=id, method="tools/call", params={"name": tool, "arguments": arguments})


WRONG: list[tuple[bytes, int, Any]] = [
    (call(1, "search", query="cat \ud83d"), PARSE, 1),
    (call(2, "get", documents=[{"id": "1"}, {"id": "\udfff"}]), PARSE, 2),
    (message(id="\ud83d", method="ping"), PARSE, None),
    (call(5, "search", query="?").replace(b"?", b"\xed\xa0\xbd"), PARSE, 5),
    (call(7, "search", query="?").replace(b'"?"', b"[" * 300 + b"]" * 300), PARSE, 7),
    (call(8, "search", query="?").replace(b'"?"', b"[" * 9000 + b"]" * 9000), PARSE, None),
    (b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "method": "ping"}', PARSE, 9),
    (b"hello", PARSE, None),
    (call(10, "search", query="cat")[:-1], PARSE, None),
    (b"[" + call(11, "search", query="cat") + b"]", REQUEST, None),
    (b'"ping"', REQUEST, None),
    (b'{"id": 12, "method": "ping"}', REQUEST, 12),
    (message(id=14), REQUEST, 14),
    (message(id=15, method=3), REQUEST, 15),
    (message(id=None, method="ping"), REQUEST, None),
    (message(id=True, method="ping"), REQUEST, None),
    (message(id=None, method="ping", error={"code": 1, "message": "x"}), REQUEST, None),
    (message(id=17, method="tools/call", params=["search"]), PARAMS, 17),
    (message(id=19, result=3), REQUEST, 19),
]
"""Messages, the code of their error, and its id."""
ANSWERED = [
    (message(id=20, method="nothing/such"), METHOD, 20),
    (message(id=21, method="prompts/get", params={"name": "x"}), PARAMS, 21),
    (message(id=23, method="tools/call", params={}), PARAMS, 23),
]
"""The same of valid messages."""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
)


@given(st.binary(max_size=20) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_message_has_an_error(data: bytes) -> None:
    assert refusal(data) is not None


@given(st.integers() | st.text(max_size=5), st.dictionaries(st.text(), JSON, max_size=3))
def test_valid_messages_have_none(id: int | str, params: dict[str, Any]) -> None:
    assert refusal(message(id=id, method="tools/call", params=params)) is None
    assert refusal(message(method="notifications/x", params=params)) is None
    assert refusal(message(id=id, result=params)) is None
    assert refusal(message(id=None, error={"code": 1, "message": "x"})) is None


def test_a_server_on_stdin_answers_each_request_and_lives_on(tmp_path: Path) -> None:
    """Also requests that are under way when the input ends."""
    index = built(tmp_path, [{"id": "1", "text": "the cat sat"}])
    last = call("last", "search", query="a cat \N{GRINNING FACE}")
    started = [*greeting(), b"", b" \r"]
    sent = [*started, *(data for data, _, _ in (*WRONG, *ANSWERED)), last]
    command = [sys.executable, "-m", "slimdex", "mcp", str(index)]
    lines = b"".join(data + b"\n" for data in sent)
    ended = subprocess.run(command, input=lines, stdout=subprocess.PIPE, timeout=120, check=True)
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(told) == len(sent) - 3
    errors = [(answer["error"]["code"], answer["id"]) for answer in told if "error" in answer]
    assert sorted(errors, key=str) == sorted([each[1:] for each in (*WRONG, *ANSWERED)], key=str)
    (found,) = (answer["result"] for answer in told if answer["id"] == "last")
    assert found["structuredContent"]["passages"][0]["id"] == "1"
    (hello,) = (answer["result"] for answer in told if answer["id"] == "hello")
    assert hello["serverInfo"]["name"] == "notes"


@pytest.mark.parametrize("end", ["input", "Ctrl-C"])
def test_a_change_that_would_take_long_ends_with_the_server(tmp_path: Path, end: str) -> None:
    index = built(tmp_path, [{"id": "1", "text": "the cat sat"}])
    command = ctrl_c.slimdex("mcp", str(index), "--write", "--wait", "3600")
    added = call("added", "add", documents=[{"text": "a dog"}])
    pipe = subprocess.PIPE
    with (
        FileLock(index, "writer").hold(),  # so the addition waits for an hour
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for data in (*greeting(), added, message(id="last", method="ping")):
            process.stdin.write(data + b"\n")
        process.stdin.flush()
        told = [json.loads(process.stdout.readline())["id"] for _ in range(2)]
        assert told == ["hello", "last"]
        if end == "Ctrl-C":
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        else:
            process.stdin.close()
            assert json.loads(process.stdout.readline())["result"]["isError"]
            assert process.wait(60) == 0
    with Collection.open(index) as collection:
        assert [document.id for document in collection] == ["1"]


def greeting() -> list[bytes]:
    """What a client sends first; its request has the id "hello"."""
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    started = message(id="hello", method="initialize", params=hello)
    return [started, message(method="notifications/initialized")]


async def test_a_service_answers_each_message(tmp_path: Path) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}

    async def told(client: httpx.AsyncClient, data: bytes) -> Any:
        answer = await client.post("/mcp", content=data, headers=headers)
        assert answer.status_code < 500, data
        return answer.json()

    async with asking({"notes": made(tmp_path / "notes")}) as (client, _):
        for data, code, id in (*WRONG, *ANSWERED):
            answer = await told(client, data)
            assert (answer["error"]["code"], answer["id"]) == (code, id), data
            assert "\n" not in answer["error"]["message"]
        found = await told(client, call(1, "search", query="a cat"))
        assert found["result"]["structuredContent"]["passages"][0]["id"] == "1"
