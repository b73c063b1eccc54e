"""Shared: options of several commands, and the sets, encoders and tasks that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slimdex.indexes.errors import InputError
from slimdex.retrieval.extras import install_command

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.opened import OpenedEncoder

    from ..data.datasets import Dataset
    from ..experiments.retrieval_study import Task
    from ..rows import ResultsFile

Data = Annotated[Path | None, typer.Option(help="Folder with sets in BEIR's layout.")]
Sets = Annotated[
    str,
    typer.Option(
        help="Sets in DATA, separated by commas: folders, or tables with a column `sentence` "
        "(.tsv, .tsv.gz); docstrings: Python's own; all: all folders."
    ),
]
Models = Annotated[
    str, typer.Option(help="Models, as for `slimdex build --model`, separated by commas.")
]
Out = Annotated[Path, typer.Option(help="Folder for the rows of results.")]
Cache = Annotated[Path, typer.Option(help="Folder where encoded vectors are kept.")]
Results = Annotated[Path, typer.Option(help="Folder with the rows of results.")]
Precision = Annotated[
    str, typer.Option(help="Precision to encode in: auto, fp32, bf16, fp16 or int8.")
]
Pooling = Annotated[str | None, typer.Option(help="As for `slimdex build --pooling`.")]
MaxLength = Annotated[int | None, typer.Option(help="As for `slimdex build --max-length`.")]
Quick = Annotated[bool, typer.Option("--quick", help="Measure a small part, in under 3 minutes.")]


def tell(results: ResultsFile, *lines: str) -> None:
    """Where the rows are, and last what they come to."""
    from slimdex.retrieval.cli import console

    for line in (f"{len(results.rows)} rows in {results.path}", *lines):
        console.out.print(line, soft_wrap=True, markup=False)


def whole_numbers(option: str, words: str, least: int) -> list[int]:
    """The numbers that an option has, with commas between them; none is less than `least`."""
    found = [int(word) if word.isdecimal() else -1 for word in words.split(",")]
    if min(found) < least:
        raise InputError(f"{option} {words!r}; expected whole numbers from {least} on")
    return found


def datasets(data: Path | None, sets: str, models: str) -> list[Dataset]:
    """The sets; what is wrong with a name is said before the first one is worked on for hours."""
    from slimdex.retrieval.encoders.opened import is_static

    from ..data.datasets import load_dataset, names_of

    for model in models.split(","):
        is_static(model)
    return [load_dataset(name, data) for name in names_of(sets, data)]


def open_encoders(
    models: str, precision: str, pooling: str | None, max_length: int | None
) -> Iterator[OpenedEncoder]:
    """One by one, so that one at a time is in memory."""
    from slimdex.retrieval.encoders.opened import open_encoder

    for model in models.split(","):
        yield open_encoder(model, pooling=pooling, max_length=max_length, precision=precision)


def tasks(
    chosen: Sequence[Dataset], encoders: Iterable[OpenedEncoder], cache: Path, quick: bool
) -> Iterator[Task]:
    """Every set by every model, encoded."""
    for encoder in encoders:
        for dataset in chosen:
            yield _task(dataset, encoder, cache, quick)


def _task(dataset: Dataset, encoder: OpenedEncoder, cache: Path, quick: bool) -> Task:
    from slimdex.retrieval.cli import console

    from ..experiments.retrieval_study import Task

    with console.progress() as progress:
        return Task.encoded(dataset.quick() if quick else dataset, encoder, cache, progress)


def reopened(
    chosen: Sequence[Dataset],
    encoders: Iterable[OpenedEncoder],
    cache: Path,
    quick: bool,
    pooling: str | None,
    max_length: int | None,
) -> Iterator[tuple[Task, Callable[[], OpenedEncoder]]]:
    """The same, each with what opens its encoder in another process, in the same precision."""
    from slimdex.retrieval.encoders.opened import open_encoder

    for encoder in encoders:
        opened = partial(
            open_encoder,
            encoder.spec()["model"],
            pooling=pooling,
            max_length=max_length,
            precision=encoder.precision,
        )
        for dataset in chosen:
            yield _task(dataset, encoder, cache, quick), opened


def note_missing(names: Sequence[str]) -> None:
    """Say which of the engines asked for are not installed."""
    from slimdex.retrieval.cli import console

    from ..engines.peers import missing_peers

    if missing := [name for name in missing_peers() if name in names]:
        console.note(f"not installed: {', '.join(missing)}; {install_command('peers')}")
