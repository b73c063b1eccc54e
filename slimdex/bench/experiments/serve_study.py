"""`slimdex bench serve`: a service under load, compared with the same index in process.

Callers send the next query as soon as they have an answer; more callers make batches larger. In
process, one thread does the same. Chroma's server takes vectors only: to compare with it, both
services get vectors that were encoded before.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Any

import psutil

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.quality.evaluation import latency

from ..engines.databases import Database
from ..engines.engine import DOCUMENTS, Batch, Place
from ..engines.registry import LIBRARIES, missing
from ..machine import memory_parts
from ..rows import ResultsFile, Row, key_of

LIMIT = 10
CALLERS = (1, 8, 64)
"""Numbers of concurrent callers."""
WARM_UP_S, MEASURED_S = 3.0, 10.0
PATIENCE_S = 120.0
IN_PROCESS, SERVICE, CHROMA = "in process", "slimdex serve", "Chroma's server"
TEXTS, VECTORS = "texts", "vectors"
SCRIPT = Path(__file__).with_name("load.lua")
"""For wrk; its place of bodies is filled in."""
TIMEOUT_S = 60


@dataclass(frozen=True)
class Load:
    """Results of a load; `failed` counts requests without an answer of status 2xx or 3xx."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


def measure_serve(index: Path, queries: Sequence[str], results: ResultsFile, about: Row) -> None:
    """Write a row for each way of searching and number of callers.

    Raises `InputError` if a request fails.
    """
    study = _Study(index, queries)
    total = 2 + len(CALLERS) * (3 if study.chroma else 2)
    for row in study.memory():
        results.append(row | about)
    for done, row in enumerate(study.rows(), start=1):
        results.append(row | about)
        progress("measuring", done, total)


class _Study:
    def __init__(self, index: Path, queries: Sequence[str]) -> None:
        self._index, self._texts = index, list(queries)
        self.chroma = not missing(["Chroma"])
        with Collection.open(index) as collection:
            self._vectors = encode_queries(collection.encoder, self._texts)
            self._facts: Row = {
                "documents": len(collection),
                "dim": collection.index.state.dim,
                "model": Path(str(collection.index.state.encoder.get("model"))).name,
            }

    def memory(self) -> list[Row]:
        """Rows of the service's memory: after a search, and after the most callers."""
        with served(self._index) as (url, process):
            idle = memory_parts(process, self._index)
            bodies = [json.dumps({"query": text, "limit": LIMIT}) for text in self._texts]
            load(f"{url}/indexes/served/search", bodies, CALLERS[-1], MEASURED_S)
            loaded = memory_parts(process, self._index)
        parts = [(part, idle.get(part, (0, 0)), now) for part, now in loaded.items()]
        whole = [
            [sum(each) for each in zip(*found.values(), strict=True)] for found in (idle, loaded)
        ]
        rows = list[Row]()
        for part, before, now in (*parts, ("whole process", *whole)) if loaded else ():
            row = self._facts | {"what": "memory", "part": part}
            sizes = {"idle_bytes": before[0], "idle_private_bytes": before[1]}
            sizes |= {"loaded_bytes": now[0], "loaded_private_bytes": now[1]}
            rows.append({"key": key_of(row)} | row | sizes)
        return rows

    def rows(self) -> Iterator[Row]:
        with Collection.open(self._index) as collection:
            yield self._alone(collection, TEXTS, self._texts)
            yield self._alone(collection, VECTORS, self._vectors)
        with served(self._index) as (url, process):
            place = f"{url}/indexes/served/search"
            texts = [json.dumps({"query": text, "limit": LIMIT}) for text in self._texts]
            vectors = [
                json.dumps({"vector": row, "limit": LIMIT}) for row in self._vectors.tolist()
            ]
            for asked, bodies in ((TEXTS, texts), (VECTORS, vectors)):
                yield from self._loaded(SERVICE, asked, place, bodies, process)
        if self.chroma:
            with TemporaryDirectory(prefix="slimdex-bench-") as folder:
                self._fill_chroma(Path(folder))
                with chroma_served(Path(folder)) as (place, process):
                    bodies = [
                        json.dumps({"query_embeddings": [row], "n_results": LIMIT})
                        for row in self._vectors.tolist()
                    ]
                    yield from self._loaded(CHROMA, VECTORS, place, bodies, process)

    def _alone(self, collection: Collection, asked: str, queries: Any) -> Row:
        times = list[float]()
        end = monotonic() + WARM_UP_S + MEASURED_S
        for query in cycle(queries):
            start = perf_counter()
            collection.search(query, LIMIT)
            times.append(perf_counter() - start)
            if monotonic() > end:
                break
        kept = times[len(times) // 10 :]  # the first ones load what the others need
        own = {"searches_per_s": len(kept) / sum(kept), **latency(kept)}
        return self._row(IN_PROCESS, asked, 1, own, psutil.Process())

    def _loaded(
        self, method: str, asked: str, url: str, bodies: Sequence[str], process: psutil.Process
    ) -> Iterator[Row]:
        for callers in CALLERS:
            load(url, bodies, callers, WARM_UP_S)
            found = load(url, bodies, callers, MEASURED_S)
            if found.failed:
                raise InputError(f"{method}: {found.failed} requests failed; expected none")
            own = {"searches_per_s": found.requests_per_s}
            own |= {"p50_ms": found.p50_ms, "p99_ms": found.p99_ms}
            yield self._row(method, asked, callers, own, process)

    def _row(self, method: str, asked: str, callers: int, own: Row, process: psutil.Process) -> Row:
        row = self._facts | {"what": "serve", "method": method, "way": asked, "callers": callers}
        memory = {"memory_bytes": process.memory_info().rss}
        return {"key": key_of(row)} | row | own | memory

    def _fill_chroma(self, folder: Path) -> None:
        """Fill Chroma with the same documents and vectors."""
        with Collection.open(self._index) as collection:
            documents, rows = list(collection), collection.index.snapshot.live_documents()
            vectors = collection.index.snapshot.vectors()
            chroma: Database = LIBRARIES["Chroma"].make()
            chroma.open(Place(folder, vectors.dim, DOCUMENTS))
            for part in batches(len(rows)):
                found = [(each.id, each.text or " ") for each in documents[part]]
                ids, texts = zip(*found, strict=True)
                chroma.add([Batch(range(len(ids)), ids, texts, vectors.take(rows[part]))])


def load(url: str, bodies: Sequence[str], callers: int, seconds: float) -> Load:
    """Have callers POST bodies in turn for some seconds; each waits for its answer.

    wrk is written in C and takes little of the processor that it shares with the measured service.

    Raises `InputError` if wrk is not installed or fails.
    """
    if shutil.which("wrk") is None:
        raise InputError("wrk is not installed; expected it, as by `apt install wrk`")
    with TemporaryDirectory(prefix="slimdex-wrk-") as folder:
        lines, script = Path(folder) / "bodies", Path(folder) / "script.lua"
        lines.write_text("".join(body + "\n" for body in bodies))
        script.write_text(SCRIPT.read_text("utf-8").replace("BODIES", str(lines)))
        command = ["wrk", "--threads", "1", "--connections", str(callers)]
        command += ["--duration", f"{round(seconds)}s", "--timeout", f"{TIMEOUT_S}s"]
        done = subprocess.run(
            [*command, "--script", str(script), url], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise InputError(f"wrk: {done.stderr.strip() or done.stdout.strip()}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return Load(
        found["requests"] / (found["us"] / 1e6),
        found["p50"] / 1000,
        found["p99"] / 1000,
        found["failed"],
    )


@contextmanager
def served(index: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve an index as "served" in a process of its own; yields its address."""
    command = [sys.executable, "-m", "slimdex", "serve", f"served={index}", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            url = process.stdout.readline().strip()
            if not url:
                raise InputError(f"slimdex serve: {process.stderr.read().strip()}")
            _await(f"{url}/ready")
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


@contextmanager
def chroma_served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run Chroma's server over a folder; yields the address of its collection."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["chroma", "run", "--path", str(folder), "--port", str(port)]
    tool = Path(sys.executable).parent / command[0]
    with subprocess.Popen(
        [str(tool), *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}/api/v2"
            _await(f"{url}/heartbeat")
            at = f"{url}/tenants/default_tenant/databases/default_database/collections"
            with urllib.request.urlopen(at) as answer:
                (found,) = json.load(answer)
            yield f"{at}/{found['id']}/query", psutil.Process(process.pid)
        finally:
            process.terminate()


def _await(url: str) -> None:
    """Wait until an address answers with 200."""
    end = monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url):
                return
        except OSError as error:
            if monotonic() > end:
                raise InputError(f"{url}: {error}; expected a server within 2 minutes") from error
        sleep(0.1)
