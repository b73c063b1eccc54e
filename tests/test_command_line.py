"""Every command of the command line has help, and every option of it a test."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slimdex.command_line import app
from slimdex.retrieval.cli.click_commands import Commands

OWN = Path(__file__)
TESTS = OWN.parent
BENCH = TESTS / "bench"
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


@cache
def literals(is_of_bench: bool) -> list[set[str]]:
    """The words of strings in each test file of `bench`, or of the rest; not of docstrings."""
    files = [path for path in TESTS.rglob("*.py") if (BENCH in path.parents) == is_of_bench]
    return [words(ast.parse(path.read_text())) for path in files if path != OWN]


def words(tree: ast.Module) -> set[str]:
    nodes = [*ast.walk(tree)]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    strings = [node for node in nodes if isinstance(node, ast.Constant) and node not in docstrings]
    return {word for node in strings for word in str(node.value).split()}


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


def test_every_option_is_passed_in_a_test() -> None:
    """One test file has the option and the command's last word, each as a word of a string.

    That file is in tests/bench if the command's code is in bench. The experiments share options
    (`bench.options`): one with the same names and the same help is tested in any of them.
    """
    commands_of = defaultdict(set)
    for command, made in COMMANDS.items():
        is_of_bench = ".bench." in f"{made.callback.__module__}."
        for option in options_of(command):
            for names in spellings(option):
                program = "bench" if command[0] == "bench" else command[0]
                commands_of[program, names, option.help, is_of_bench].add(command[-1])
    untested = [
        f"slimdex {program} {'/'.join(names)} (of {', '.join(sorted(commands))})"
        for (program, names, _, is_of_bench), commands in commands_of.items()
        if not any(commands & s and {*names} & s for s in literals(is_of_bench))
    ]
    assert not untested, "no test file passes these options:\n" + "\n".join(untested)


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
