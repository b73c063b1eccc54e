"""The whole command line: commands on indexes, `slimdex plan` and `slimdex bench`."""

from __future__ import annotations

from .retrieval.cli.app import program

app = program({"plan": "slimdex.bench.workload:plan", "bench": "slimdex.bench.cli:app"})
