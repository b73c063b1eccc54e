"""The command line: `slimdex`. A command is imported when it is used."""

from __future__ import annotations

import click

from .options.click_commands import Commands

PLACES = {
    "demo": "documents.demo:demo",
    "build": "documents.build:build",
    "search": "documents.search:search",
    "related": "documents.search:related",
    "add": "documents.changes:add",
    "sync": "documents.sync:sync",
    "delete": "documents.changes:delete",
    "undo": "documents.changes:undo",
    "dedup": "documents.changes:dedup",
    "compact": "documents.changes:compact",
    "lexical": "index.settings:lexical",
    "open": "documents.search:open_document",
    "info": "index.facts:info",
    "health": "index.facts:health",
    "push": "publishing.export:push",
    "verify": "index.integrity:verify",
    "repair": "index.integrity:repair",
    "copy": "index.integrity:copy",
    "doctor": "index.integrity:doctor",
    "reduce": "index.settings:reduce",
    "serve": "publishing.serve:serve",
    "mcp": "publishing.mcp:mcp",
    "tune": "index.settings:tune",
    "migrate": "index.migrate:migrate",
    "export": "publishing.export:export",
    "map": "publishing.export:map_documents",
    "models": "index.encoders:models",
    "distill": "index.encoders:distill",
    "eval": "index.facts:evaluate",
}
"""Commands in the order of `slimdex --help`, and their functions in the folder `commands`."""


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
    folder = f"{__package__}.commands"
    own = {name: f"{folder}.{place}" for name, place in PLACES.items()}
    return Commands(own | others, "Semantic search in a fraction of the memory.", [version])


app = program({})
