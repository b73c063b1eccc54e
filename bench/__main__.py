"""`python -m bench`: experiments on search, each of which leaves rows of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrieval.exits import one_line_errors

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[Path | None, typer.Option(help="Folder with sets in BEIR's layout.")]
Sets = Annotated[
    str, typer.Option(help="Folders in DATA, with commas; docstrings: Python's own; all: all.")
]
Models = Annotated[str, typer.Option(help="As for `slimdex build --model`, with commas.")]
Out = Annotated[Path, typer.Option(help="Folder for the rows.")]
Cache = Annotated[Path, typer.Option(help="Folder where encoded vectors are kept.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part, in under 3 minutes.")]


@app.callback()
def main() -> None:
    """Measure quality against memory and time."""


@app.command()
def retrieval(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = Path("bench-results"),
    cache: Cache = Path("bench-cache"),
    quick: Quick = False,
) -> None:
    """Every method on every set: rows that are there already are not measured again."""
    from retrieval import console
    from retrieval.encoder import TransformerEncoder

    from .datasets import load_dataset, names_of
    from .grid import GRID_PEERS
    from .machine import provenance
    from .peers import missing_peers
    from .retrieval import Task, measure_grid, results_file

    for peer, package in missing_peers().items():
        if peer in GRID_PEERS:
            console.note(f"{peer} is missing: pip install {package}")
    about = provenance(("sentence-transformers",)) | {"seed": 0}
    chosen = [load_dataset(name, data) for name in names_of(sets, data)]
    for model in models.split(","):
        encoder = TransformerEncoder(model)
        for dataset in chosen:
            part = dataset.quick() if quick else dataset
            with console.progress() as progress:
                task = Task.encoded(part, encoder, cache, progress)
                results = results_file(task, out)
                measure_grid(task, results, about, quick=quick, progress=progress)
            console.out.print(f"{len(results.rows)} rows in {results.path}", soft_wrap=True)


if __name__ == "__main__":
    with one_line_errors():
        app()
