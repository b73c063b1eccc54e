"""The lines of docs/agents.md that give an index to a client: one of them starts the server."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from .running import slimdex, word_vectors

PAGE = Path(__file__).parents[3] / "docs/agents.md"


def blocks(language: str) -> list[str]:
    clients = PAGE.read_text().partition("## Clients")[2]
    return re.findall(rf"^```{language}\n(.*?)^```", clients, re.MULTILINE | re.DOTALL)


def servers() -> dict[str, list[str]]:
    """Commands that start the server, by the first word or key of their block."""
    found: dict[str, list[str]] = {}
    for words in map(shlex.split, blocks("sh")):
        after = words.index("--") + 1 if "--" in words else None
        found[words[0]] = words[after:] if after else _words(json.loads(words[-1]))
    for block in [*map(json.loads, blocks("json")), *map(tomllib.loads, blocks("toml"))]:
        ((key, named),) = block.items()
        found[key] = _words(named["notes"])
    return found


def _words(server: dict[str, Any]) -> list[str]:
    return [server["command"], *server["args"]]


def test_the_page_gives_every_client_the_same_server() -> None:
    clients = ["claude", "codex", "code"]
    keys = ["servers", "mcpServers", "context_servers", "mcp_servers"]
    server = ["slimdex", "mcp", "/srv/notes.index", "--sync", "/srv/notes"]
    assert servers() == dict.fromkeys([*clients, *keys], server)


async def test_a_server_of_the_page_finds_an_edit(tmp_path: Path) -> None:
    """A folder is edited while the server runs, and the next answer has the edit."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cat.txt").write_text("the cat sat on the mat")
    index, model = tmp_path / "notes.index", word_vectors(tmp_path)
    assert slimdex("build", folder, "--model", model, "--out", index).returncode == 0
    command, *words = servers()["claude"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    server = StdioServerParameters(
        command=command,
        args=[word.replace("/srv", str(tmp_path)) for word in words],
        env={**os.environ, "PATH": path},
    )

    async with Client(server) as client:

        async def first() -> str:
            """Text of the best passage, once the index has caught up, on a busy machine too."""
            while True:
                answer = await client.call_tool("search", {"query": "a dog on a rug"})
                found: dict[str, Any] | None = answer.structured_content
                assert found is not None, answer
                if "may lack recent changes" not in found["note"]:
                    return str(found["passages"][0]["text"])

        assert await first() == "the cat sat on the mat"
        (folder / "cat.txt").write_text("a dog slept on a rug")
        assert await first() == "a dog slept on a rug"
