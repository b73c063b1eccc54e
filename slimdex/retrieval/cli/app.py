"""The command line: `slimdex`. A command is imported when it is used."""

from __future__ import annotations

import click

from .click_commands import Commands

PLACES = {
    "demo": "build:demo",
    "build": "build:build",
    "search": "search:search",
    "related": "search:related",
    "add": "changes:add",
    "sync": "changes:sync",
    "delete": "changes:delete",
    "undo": "changes:undo",
    "dedup": "changes:dedup",
    "compact": "changes:compact",
    "lexical": "settings:lexical",
    "open": "search:open_document",
    "info": "facts:info",
    "health": "facts:health",
    "push": "export:push",
    "verify": "integrity:verify",
    "repair": "integrity:repair",
    "copy": "integrity:copy",
    "doctor": "integrity:doctor",
    "reduce": "settings:reduce",
    "serve": "serve:serve",
    "mcp": "serve:mcp",
    "tune": "settings:tune",
    "migrate": "encoders:migrate",
    "export": "export:export",
    "map": "export:map_documents",
    "models": "encoders:models",
    "distill": "encoders:distill",
    "eval": "facts:evaluate",
}
"""Commands in the order of `slimdex --help`, and their functions."""


def _print_version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"slimdex {version('slimdex')}")
        ctx.exit()


def program(others: dict[str, str]) -> Commands:
    """Make the program of all commands on indexes, and others as "module:function"."""
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version and exit.",
    )
    own = {name: f"{__package__}.{place}" for name, place in PLACES.items()}
    return Commands(own | others, "Semantic search in a fraction of the memory.", [version])


app = program({})
