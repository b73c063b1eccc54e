"""Workers forked from a process that has opened a service's indexes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .asking import made

WORKERS = """
    import asyncio, os, signal, sys
    from functools import partial
    from pathlib import Path
    import httpx
    from slimdex import Collection
    from slimdex.retrieval.index import Index
    from slimdex.retrieval.server.access import Listening
    from slimdex.retrieval.server.app import application
    from slimdex.retrieval.server.middleware import guard
    from slimdex.retrieval.server.service import Service
    from tests.encoders import WordEncoder

    def opened():
        one = partial(Index.open, encoder=WordEncoder())
        return Service.open({"notes": Path(sys.argv[1])}, open_one=one)

    async def served(service):
        app = application(service)
        public = guard(app, Listening(), service.metrics)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(public), base_url="http://localhost"
        )
        async with app.router.lifespan_context(app), client:
            found = await client.post("/indexes/notes/search", json={"query": "cat", "limit": 1})
            at = f"/indexes/notes/documents/{os.getpid()}"
            changed = await client.put(at, json={"text": "a bird sang"})
        print(found.status_code, changed.status_code, found.json(), flush=True)

    def worker(service):
        forked = os.fork()
        if not forked:
            signal.alarm(60)
            asyncio.run(served(service()))
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)

    inherited = opened()
    Collection(inherited.indexes["notes"].index).count("id = '1'")  # DuckDB runs
    worker(lambda: inherited)
    worker(opened)
    asyncio.run(served(inherited))
"""


ANSWER = "200 200 {'queries': [{'query': 'cat', 'hits': [{'id': '1'"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_worker_opens_indexes_of_its_own_and_an_inherited_one_refuses(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:.*fork",
            "-c",
            textwrap.dedent(WORKERS),
            str(made(tmp_path / "notes")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    refused, code, found, own_code, parent = done.stdout.splitlines()
    error = {"error": "notes was opened in another process: open it again here"}
    assert refused == f"400 400 {error}", done.stderr
    assert found.startswith(ANSWER)
    assert parent.startswith(ANSWER)
    assert code == own_code == "0"
