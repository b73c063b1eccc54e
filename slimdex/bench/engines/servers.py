"""Services in processes of their own, under a load of concurrent callers."""

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
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import psutil

from slimdex.errors import InputError

from ..rows import Row

SCRIPT = r"""
local bodies, asked = {}, 0
for line in io.lines("BODIES") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  asked = asked + 1
  return wrk.format(nil, nil, nil, bodies[(asked - 1) % #bodies + 1])
end
done = function(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "us": %d, "failed": %d, "p50": %d, "p99": %d}\n',
    summary.requests, summary.duration,
    failed.connect + failed.read + failed.write + failed.status + failed.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""
"""Script of wrk, in which the path of the bodies is filled in."""
PATIENCE_S = 120.0
TIMEOUT_S = 60
"""Seconds to wait for a server to start, and for an answer under load."""


@dataclass(frozen=True)
class Server:
    """A running service: the address of its searches, and its process."""

    url: str
    process: psutil.Process

    def ask(self, body: str) -> bytes:
        """POST a body of JSON."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body.encode(), headers)
        with urllib.request.urlopen(request) as answer:
            content: bytes = answer.read()
        return content

    def measure_load(self, bodies: Sequence[str], callers: int, seconds: float) -> Row:
        """Have callers POST bodies in turn, each as soon as it has an answer.

        wrk is written in C, and takes little of the processors that it shares with the service.

        Raises `InputError` if wrk is not installed, or a request fails.
        """
        if shutil.which("wrk") is None:
            raise InputError("wrk is not installed; expected it, as by `apt install wrk`")
        with TemporaryDirectory(prefix="slimdex-wrk-") as folder:
            # A Lua script makes wrk read the bodies and write a summary as JSON.
            lines = Path(folder) / "bodies"
            lines.write_text("".join(body + "\n" for body in bodies))
            script = Path(folder) / "script.lua"
            script.write_text(SCRIPT.replace("BODIES", str(lines)))
            command = ["wrk", "--threads", "1", "--connections", str(callers)]
            command += ["--duration", f"{ceil(seconds)}s", "--timeout", f"{TIMEOUT_S}s"]
            command += ["--script", str(script), self.url]
            result = subprocess.run(command, capture_output=True, text=True, check=False)

        # If nothing failed, the last line is the summary.
        if result.returncode:
            raise InputError(f"wrk: {result.stderr.strip() or result.stdout.strip()}")
        summary = json.loads(result.stdout.strip().splitlines()[-1])
        if summary["failed"]:
            raise InputError(f"{self.url}: {summary['failed']} requests failed; expected none")
        return {
            "callers": callers,
            "searches_per_s": summary["requests"] / (summary["us"] / 1e6),
            "p50_ms": summary["p50"] / 1000,
            "p99_ms": summary["p99"] / 1000,
            "memory_bytes": self.process.memory_info().rss,
        }


@contextmanager
def serving(index: Path) -> Iterator[Server]:
    """Serve an index by `slimdex serve`."""
    port = _free_port()
    command = [sys.executable, "-m", "slimdex", "serve", f"served={index}", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with _running(command, f"{url}/ready") as process:
        yield Server(f"{url}/indexes/served/search", process)


@contextmanager
def serving_chroma(folder: Path) -> Iterator[Server]:
    """Serve the collection in a folder by Chroma."""
    port = _free_port()
    chroma = str(Path(sys.executable).with_name("chroma"))
    command = [chroma, "run", "--path", str(folder), "--port", str(port)]
    url = f"http://127.0.0.1:{port}/api/v2"
    with _running(command, f"{url}/heartbeat") as process:
        collections = f"{url}/tenants/default_tenant/databases/default_database/collections"
        with urllib.request.urlopen(collections) as answer:
            (collection,) = json.load(answer)
        yield Server(f"{collections}/{collection['id']}/query", process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def _running(command: Sequence[str], ready: str) -> Iterator[psutil.Process]:
    """Run a server, and wait until an address of it answers with 200."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            end = monotonic() + PATIENCE_S
            while not _answers(ready):
                if process.poll() is not None or monotonic() > end:
                    # Quote the last line of the errors.
                    process.kill()
                    _, errors = process.communicate()
                    last = errors.strip().rpartition("\n")[2]
                    raise InputError(f"{' '.join(command)}: no answer of {ready}: {last}")
                sleep(0.1)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except OSError:
        return False
