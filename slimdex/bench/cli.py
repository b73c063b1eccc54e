"""`slimdex bench`: experiments on search, each of which writes rows of results."""

from __future__ import annotations

from slimdex.retrieval.cli.click_commands import Commands

NAMES = (
    *("retrieval", "search", "peers", "start", "encode", "index", "serve", "updates"),
    *("tune", "hybrid", "sts", "report", "tables"),
)
PLACES = {"tables": "report"}
"""Command -> its module in `commands`, if that is not of its name."""
app = Commands(
    {name: f"{__package__}.commands.{PLACES.get(name, name)}:{name}" for name in NAMES},
    "Measure quality against memory and time.",
)
