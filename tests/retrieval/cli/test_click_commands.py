"""Options as the fields of dataclasses, and as Click shows and fills them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from click.testing import CliRunner

from slimdex.retrieval.cli.options.click_commands import Argument, command_of


@dataclass(frozen=True)
class Sizes:
    place: Annotated[Path, Argument("PLACE", "A place.")]
    width: Annotated[int, "-w", "COLUMNS", "How wide."] = 3
    is_deep: Annotated[bool, "Be deep."] = False


BIG = Sizes(Path("big"), width=9)


def test_a_function_gets_the_given_options() -> None:
    got = list[object]()

    def show(sizes: Sizes, more: Annotated[str, "More."] = "none") -> None:
        """Show it."""
        got.extend([sizes, more])

    def enlarge(sizes: Sizes = BIG) -> None:
        got.append(sizes)

    app = click.Group(commands=[command_of(show, "show"), command_of(enlarge, "enlarge")])
    run = CliRunner().invoke
    assert run(app, ["show", "a", "--is-deep", "--more", "x"]).exit_code == 0
    assert run(app, ["enlarge", "-w", "7"]).exit_code == 0
    assert got == [Sizes(Path("a"), 3, True), "x", Sizes(Path("big"), 7)]
    help = run(app, ["show", "--help"], env={"COLUMNS": "100"}).output
    for part in ("Show it.", "A place.", "-w", "COLUMNS", "How wide.", "--is-deep", "Be deep."):
        assert part in help
    assert "--no-is-deep" not in help
    assert run(app, ["show"]).exit_code == 2
