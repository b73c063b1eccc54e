"""Options that experiments share, and numbers in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from slimdex.indexes.errors import InputError

from .rows import MEASURED

Data = Annotated[Path | None, typer.Option(help="Folder with sets in BEIR's layout.")]
Models = Annotated[
    str, typer.Option(help="Models, as for `slimdex build --model`, separated by commas.")
]
Out = Annotated[Path, typer.Option(help="Folder for the rows of results.")]
Cache = Annotated[Path, typer.Option(help="Folder where encoded vectors are kept, on a disk.")]
Results = Annotated[Path, typer.Option(help="Folder with the rows of results.")]
Quick = Annotated[bool, typer.Option("--quick", help="Measure a small part, in under 3 minutes.")]
CACHE = Path("bench-cache")


@dataclass(frozen=True)
class SetOptions:
    """Which sets are searched, by which models, and where rows and vectors go."""

    data: Data = None
    sets: Annotated[
        str,
        typer.Option(
            help="Sets in DATA, separated by commas: folders, or tables with a column `sentence` "
            "(.tsv, .tsv.gz); docstrings: Python's own; all: all folders."
        ),
    ] = "docstrings"
    models: Models = "all-MiniLM-L6-v2"
    out: Out = MEASURED
    cache: Cache = CACHE
    precision: Annotated[
        str | None,
        typer.Option(
            help="Precision to encode in: auto, fp32, bf16, fp16 or int8; default: fp32, but auto "
            "where encoding is timed."
        ),
    ] = None
    pooling: Annotated[str | None, typer.Option(help="As for `slimdex build --pooling`.")] = None
    max_length: Annotated[int | None, typer.Option(help="As for `slimdex build --max-length`.")] = (
        None
    )
    quick: Quick = False


def over_sets(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of `SetOptions` as options; it takes them as one, `options`."""
    hints = get_type_hints(SetOptions, include_extras=True)
    shared = {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(SetOptions)
    }
    signature = inspect.signature(command, eval_str=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.name != "options"
    ]

    @wraps(command)
    def called(**given: Any) -> None:
        options = SetOptions(**{name: given.pop(name) for name in shared})
        command(options=options, **given)

    parameters = [*own, *shared.values()]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def whole_numbers(option: str, words: str, least: int) -> list[int]:
    """The numbers of an option, separated by commas; none is less than `least`."""
    found = [int(word) if word.isdecimal() else -1 for word in words.split(",")]
    if min(found) < least:
        raise InputError(f"{option} {words!r}; expected whole numbers from {least} on")
    return found


def chosen(option: str, words: str, known: list[str]) -> list[str]:
    """The names of an option, separated by commas; "" means all that are known."""
    names = words.split(",") if words else known
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{option} {unknown[0]!r}; expected some of {', '.join(known)}")
    return names
