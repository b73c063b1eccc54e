"""Prompts reach the encoder on every path by which a query comes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from slimdex.haystack import SlimdexDocumentStore, SlimdexRetriever
from slimdex.langchain import SlimdexVectorStore
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.over_http.http_encoder import HttpEncoder
from slimdex.retrieval.remote.remote_collection import RemoteCollection
from tests.retrieval.server.running import serving, slimdex

from .conftest import TEXTS
from .proxy import Proxy

QUERY = "what a cat does"
NEW = "what a dog does"


def by_python(index: Path) -> None:
    with Collection.open(index) as opened:
        opened.search(QUERY)


def by_command(index: Path) -> None:
    assert slimdex("search", index, QUERY).returncode == 0


def by_evaluation(index: Path) -> None:
    queries, labels = index.parent / "queries.jsonl", index.parent / "qrels.tsv"
    queries.write_text(json.dumps({"_id": "q", "text": QUERY}) + "\n")
    labels.write_text(f"query-id\tcorpus-id\tscore\nq\t{TEXTS[0]}\t1\n")
    done = slimdex("eval", index, "--queries", queries, "--qrels", labels)
    assert done.returncode == 0, done.stderr


def by_remote_collection(index: Path) -> None:
    with serving([index]) as running:
        remote = RemoteCollection.open(f"{running.url}/indexes/{index.stem}")
        assert remote.search(QUERY)
        remote.add([{"id": "new", "text": NEW}])


def by_agent(index: Path) -> None:
    words = ["-m", "slimdex", "mcp", str(index)]

    async def ask() -> None:
        async with Client(StdioServerParameters(command=sys.executable, args=words)) as client:
            assert not (await client.call_tool("search", {"query": QUERY})).is_error

    asyncio.run(ask())


def by_langchain(index: Path) -> None:
    assert SlimdexVectorStore(index).similarity_search(QUERY)


def by_haystack(index: Path) -> None:
    assert SlimdexRetriever(SlimdexDocumentStore(str(index))).run(query=QUERY)["documents"]


PATHS = (
    *(by_python, by_command, by_evaluation, by_remote_collection),
    *(by_agent, by_langchain, by_haystack),
)


@pytest.mark.slow
@pytest.mark.parametrize("ask", PATHS)
def test_a_query_gets_its_prompt(proxy: Proxy, tmp_path: Path, ask: Callable[..., None]) -> None:
    index = tmp_path / "notes.index"
    encoder = HttpEncoder(proxy.url, query_prompt="rain ", document_prompt="snow ")
    with Collection.create(index, encoder) as made:
        made.add({"id": text, "text": text} for text in TEXTS)
    assert {f"snow {text}" for text in TEXTS} < set(proxy.texts())
    proxy.asked.clear()
    ask(index)
    found = [text for text in proxy.texts() if QUERY in text]
    assert set(found) == {f"rain {QUERY}"}
    added = {text for text in proxy.texts() if NEW in text}
    assert added == ({f"snow {NEW}"} if ask is by_remote_collection else set())
