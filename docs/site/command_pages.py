"""Pages of the command line, from Click's tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from slimdex.command_line import app


@dataclass(frozen=True)
class Described:
    """A command: its words, how it is called, its help, and its parameters with theirs."""

    name: str
    usage: str
    help: str
    parameters: list[tuple[str, str]]


def commands(group: click.Group = app, name: str = "slimdex") -> Iterator[Described]:
    """Yield the commands of a group, in the order of its help."""
    group_context = click.Context(group, info_name=name)
    for word in group.list_commands(group_context):
        command = group.get_command(group_context, word)
        assert command is not None
        context = click.Context(command, group_context, word)
        usage = f"{name} {word} {' '.join(command.collect_usage_pieces(context))}"
        records = [parameter.get_help_record(context) for parameter in command.params]
        shown = [record for record in records if record]  # None for a hidden parameter
        yield Described(f"{name} {word}", usage, command.help or "", shown)


def group_of(name: str) -> click.Group:
    """Return the group of commands with this name, such as `bench`."""
    group = app.get_command(click.Context(app), name)
    assert isinstance(group, click.Group)
    return group


def plain(text: str) -> str:
    """Escape text for Markdown, except code between backticks.

    >>> plain("a*b `a*b`")
    'a\\\\*b `a*b`'
    """
    parts = re.split(r"(`[^`]*`)", text)
    marks = re.compile(r"([\\*_\[\]<>#|])")
    return "".join(part if part.startswith("`") else marks.sub(r"\\\1", part) for part in parts)


def commands_page() -> str:
    """Write the page of all commands, those of `bench` apart."""
    lines = [
        "# Command line",
        "Every command has `--help`. For bad input a command prints one line and exits with code "
        "2; if a file could not be read, it leaves out that file and exits with code 1. [The shell "
        "completes](../usage.md#completion-and-manual) commands and options.",
    ]
    for command in commands():
        if command.name != "slimdex bench":
            lines += _section(command)
    bench = "[Commands of their own](bench.md) measure quality, memory and time."
    return "\n\n".join([*lines, "## slimdex bench", bench])


def bench_page() -> str:
    """Write the page of the commands of `bench`."""
    lines = [
        "# Experiments",
        "`slimdex bench` alone measures settings on an index of yours, or on Python's docstrings: "
        "see `settings`. Its commands measure slimdex and other systems on sets with labels; "
        "[benchmarks](../research/benchmarks.md) has the results.",
    ]
    for command in commands(group_of("bench"), "slimdex bench"):
        lines += _section(command)
    return "\n\n".join(lines)


def _section(command: Described) -> Iterator[str]:
    """Yield the paragraphs of a command in Markdown: heading, help, usage, parameters."""
    yield f"## {command.name}"
    yield from (plain(" ".join(part.split())) for part in command.help.split("\n\n"))
    yield f"```text\n{command.usage}\n```"
    for names, help in command.parameters:
        yield f"`{names.replace(', ', '`, `')}`\n:   {plain(help)}"
