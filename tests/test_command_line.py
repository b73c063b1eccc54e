"""Every command and option has help, and every option is on a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.retrieval.cli.click_commands import Commands

TESTS = Path(__file__).parent
PAGES = [TESTS.parent / "README.md", *(TESTS.parent / "docs").rglob("*.md")]
Command = tuple[str, ...]


def walked(found: click.Command, path: Command = ()) -> Iterator[tuple[Command, click.Command]]:
    """The commands at any depth: the words of each, and what Click runs."""
    if isinstance(found, Commands):
        context = click.Context(found, **found.context_settings)
        for name in found.list_commands(context):
            below = found.get_command(context, name)
            assert below is not None
            yield from walked(below, (*path, name))
    else:
        yield path, found


COMMANDS = dict(walked(app))


def options_of(command: Command) -> list[click.Option]:
    return [option for option in COMMANDS[command].params if isinstance(option, click.Option)]


def spellings(option: click.Option) -> Iterator[tuple[str, ...]]:
    """What turns it on, and what turns it off: one of each is to be tested."""
    yield from (tuple(names) for names in (option.opts, option.secondary_opts) if names)


def test_the_tree_is_whole() -> None:
    assert len(COMMANDS) > 30
    assert {("search",), ("bench", "retrieval"), ("bench", "tables")} <= {*COMMANDS}
    assert ("--cors",) in {
        names for option in options_of(("serve",)) for names in spellings(option)
    }


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_and_its_options_have_help(command: Command) -> None:
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert f"Usage: root {' '.join(command)} " in done.output
    assert COMMANDS[command].help, f"slimdex {' '.join(command)}: no docstring"
    for option in options_of(command):
        assert option.help, f"slimdex {' '.join(command)} {option.opts[0]}: no help"


def test_every_option_is_on_a_page() -> None:
    """Of the experiments' options, most are for whoever makes the pages' tables: help is enough."""
    said = {word for page in PAGES for word in re.findall(r"--?[a-z][\w-]*", page.read_text())}
    missing = [
        f"slimdex {command[0]} {names[0]}"
        for command in COMMANDS
        if command[0] != "bench"
        for option in options_of(command)
        for names in spellings(option)
        if not said & {*names}
    ]
    assert not missing, "neither README nor docs name these options:\n" + "\n".join(missing)
