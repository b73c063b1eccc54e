"""`slimdex bench`: experiments on search, each of which writes rows of results."""

from __future__ import annotations

from slimdex.retrieval.cli.options.click_commands import Commands

NAMES = (
    *("retrieval", "search", "peers", "start", "encode", "serve", "tune", "hybrid", "sts"),
    *("report", "tables"),
)
app = Commands(
    {name: f"{__package__}.commands.{name}:{name}" for name in NAMES},
    "Measure quality against memory and time.",
)
