"""The manual page `docs/slimdex.1`, which `make manual` writes from Click's tree for `man`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from command_pages import Described, commands, group_of

import slimdex

HEAD = """.TH SLIMDEX 1 "" "slimdex {version}" "User commands"
.SH NAME
slimdex \\- semantic search in a fraction of the memory
.SH SYNOPSIS
.B slimdex
.I COMMAND
[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]
.SH DESCRIPTION
An index is a folder. \\fBslimdex build\\fR makes one from files, \\fBslimdex search\\fR asks it,
and \\fBslimdex add\\fR, \\fBsync\\fR and \\fBdelete\\fR change it.
Every command has \\fB\\-\\-help\\fR.
.SH EXIT STATUS
0 if all went well; 1 if a file could not be read and was left out; 2 after one line on standard
error for bad input, wrong options or a damaged index.
.SH COMMANDS"""


def manual() -> str:
    """Write the page, with a sub-section for each command."""
    lines = [HEAD.format(version=slimdex.__version__)]
    for command in commands():
        lines += _section(command)
    lines.append(".SH EXPERIMENTS")
    for command in commands(group_of("bench"), "slimdex bench"):
        lines += _section(command)
    return "\n".join(lines) + "\n"


def _section(command: Described) -> Iterator[str]:
    """Yield the lines of a command: .SS is a heading, .B bold, .PP a paragraph, .TP an item."""
    yield f".SS {roff(command.name)}"
    yield f".B {roff(command.usage)}"
    for part in command.help.split("\n\n"):
        yield f".PP\n{roff(' '.join(part.split()))}"
    for names, help in command.parameters:
        yield f".TP\n.B {roff(names)}\n{roff(help)}"


def roff(text: str) -> str:
    """Write text for `man`: no line is a request, and a dash can be copied.

    >>> print(roff(".a `b` -c"))
    \\&.a \\fBb\\fR \\-c
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    bold = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escaped)
    return re.sub(r"^(?=[.'])", r"\\&", bold)


if __name__ == "__main__":
    (Path(__file__).parent.parent / "slimdex.1").write_text(manual())
