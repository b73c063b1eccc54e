"""The command line, `slimdex`: its commands, each imported when it is used."""

from __future__ import annotations

import click

from .retrieval.cli.click_commands import Commands

PLACES = {
    "demo": "build:demo",
    "build": "build:build",
    "search": "search:search",
    "add": "changes:add",
    "sync": "changes:sync",
    "encode": "changes:encode",
    "delete": "changes:delete",
    "undo": "changes:undo",
    "dedup": "changes:dedup",
    "compact": "changes:compact",
    "open": "search:open_document",
    "info": "facts:info",
    "push": "export:push",
    "verify": "integrity:verify",
    "repair": "integrity:repair",
    "doctor": "integrity:doctor",
    "reduce": "settings:reduce",
    "serve": "serve:serve",
    "mcp": "serve:mcp",
    "tune": "settings:tune",
    "migrate": "encoders:migrate",
    "export": "export:export",
    "models": "encoders:models",
    "eval": "facts:evaluate",
}
"""Commands on indexes in the order of `slimdex --help`, and their functions in `retrieval.cli`."""


def _print_version(ctx: click.Context, param: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version  # slow to import

        print(f"slimdex {version('slimdex')}")
        ctx.exit()


app = Commands(
    {name: f"slimdex.retrieval.cli.{place}" for name, place in PLACES.items()}
    | {"bench": "slimdex.bench.command_line:app"},
    "Semantic search in a fraction of the memory.",
    [
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version and exit.",
        )
    ],
)
