"""`slimdex bench`: its experiments, whose functions are in `bench.commands`.

`slimdex --help` imports this file, and not the experiments: they take half a second.
"""

from __future__ import annotations

import click

from slimdex.retrieval.cli.click_commands import Commands

NAMES = (
    *("settings", "index", "encode", "retrieval", "search", "peers", "report"),
    *("hybrid", "weight", "code", "sts", "tables"),
)
"""Order of the commands in `bench --help`: those that users need come first."""


class Experiments(Commands):
    """The experiments; words that name none are those of `settings`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `settings` before words that name no command, or if there are none."""
        is_named = bool(args) and args[0] in (*self.import_paths, *ctx.help_option_names)
        if not is_named and not ctx.resilient_parsing:
            args = [NAMES[0], *args]
        return super().parse_args(ctx, args)


app = Experiments(
    {name: f"slimdex.bench.commands:{name}" for name in NAMES},
    "Measure quality against memory and time. Without a command: the settings of an index.",
)
