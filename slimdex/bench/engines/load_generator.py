"""Load generator: wrk in one thread, with a number of connections that each send and wait.

wrk is written in C and takes little of the processor that it shares with the measured service.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from slimdex.indexes.errors import InputError

SCRIPT = """
local bodies, asked = {}, 0
for line in io.lines("%(bodies)s") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
%(headers)s
request = function()
  asked = asked + 1
  return wrk.format(nil, nil, nil, bodies[(asked - 1) %% #bodies + 1])
end
done = function(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '\\n{"requests": %%d, "us": %%d, "failed": %%d, "p50": %%d, "p99": %%d}\\n',
    summary.requests, summary.duration,
    failed.connect + failed.read + failed.write + failed.status + failed.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""
TIMEOUT_S = 60


@dataclass(frozen=True)
class Load:
    """Results of a load; `failed` counts requests without an answer of status 2xx or 3xx."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


def is_there() -> bool:
    """Return whether wrk is installed."""
    return shutil.which("wrk") is not None


def load(
    url: str,
    bodies: Sequence[str],
    callers: int,
    seconds: float,
    headers: Mapping[str, str] | None = None,
) -> Load:
    """Have callers POST bodies in turn for some seconds; each waits for its answer.

    Raises `InputError` if wrk is not installed or fails.
    """
    if not is_there():
        raise InputError("wrk is not installed; expected it, as by `apt install wrk`")
    with TemporaryDirectory(prefix="slimdex-wrk-") as folder:
        lines, script = Path(folder) / "bodies", Path(folder) / "script.lua"
        lines.write_text("".join(body + "\n" for body in bodies))
        said = "\n".join(f'wrk.headers["{k}"] = "{v}"' for k, v in (headers or {}).items())
        script.write_text(SCRIPT % {"bodies": lines, "headers": said})
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
