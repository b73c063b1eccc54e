"""Commands that measure what one machine is not enough for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slimdex.indexes.errors import InputError

from ..rows import MEASURED
from .shared import Out, tell, whole_numbers


def ray(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A file, as for `slimdex build`.")
    ],
    folder: Annotated[Path, typer.Option(help="A new folder for the indexes, which are kept.")],
    model: Annotated[
        str, typer.Option(help="The encoder's model, as for `slimdex build`.")
    ] = "all-MiniLM-L6-v2",
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1,2",
    kills: Annotated[
        str,
        typer.Option(
            metavar="W,B",
            help="How many workers and builds to kill at random in one more build; 0,0: none.",
        ),
    ] = "0,0",
    out: Out = MEASURED,
) -> None:
    """Compare indexes built by one process and by Ray: time, and whether they are the same."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.encoders.opened import model_place

    from ..experiments.ray_study import measure_ray
    from ..machine import provenance
    from ..rows import ResultsFile

    counts, killed = whole_numbers("--workers", workers, 1), whole_numbers("--kills", kills, 0)
    if len(killed) != 2:
        raise InputError(f"--kills {kills!r}; expected two numbers, of workers and of builds")
    if not source.exists():
        raise InputError(f"{source}: no such file")
    model_place(model)
    if folder.exists():
        raise InputError(f"{folder} exists; expected a new folder")
    folder.mkdir(parents=True)
    about, results = provenance(["ray"]), ResultsFile(out / "ray-builds.jsonl")
    with console.progress() as progress:
        kills_of = (killed[0], killed[1])
        measure_ray(source, model, counts, kills_of, results, about, folder, progress)
    tell(results)
