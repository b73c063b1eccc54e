"""`slimdex bench`: experiments on search, each of which writes rows of results."""

from __future__ import annotations

from slimdex.retrieval.cli.options.click_commands import Commands

NAMES = (
    *("retrieval", "search", "peers", "lists", "start", "encode", "serve", "updates", "tune"),
    *("hybrid", "functions", "migrate", "sts", "report", "tables"),
)
PLACES = {
    "lists": "commands.peers",
    "tables": "commands.report",
    "functions": "code.command",
    "migrate": "migration.command",
}
"""Command -> its module, if that is not of its name in `commands`."""
app = Commands(
    {name: f"{__package__}.{PLACES.get(name, f'commands.{name}')}:{name}" for name in NAMES},
    "Measure quality against memory and time.",
)
