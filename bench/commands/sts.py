"""`slimdex bench sts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import CACHE, Cache, Models, Out, Quick
from ..rows import MEASURED


def sts(
    data: Annotated[Path, typer.Option(help="Folder with sts/, nli/ and chinese/.")],
    models: Models = "all-MiniLM-L6-v2",
    language: Annotated[
        str, typer.Option(help="Language of the sets: english or chinese.")
    ] = "english",
    modes: Annotated[
        str, typer.Option(help="Poolings, separated by commas: mean, cls, max, last, wk, own.")
    ] = "mean,cls,wk",
    max_length: Annotated[int, typer.Option(help="Most tokens to read of a sentence.")] = 128,
    no_curves: Annotated[
        bool,
        typer.Option(
            "--no-curves", help="Leave out the curves of the papers' figures, and other reducers."
        ),
    ] = False,
    out: Out = MEASURED,
    cache: Cache = CACHE,
    quick: Quick = False,
) -> None:
    """Measure how whitening, k, layers and reducers change similarity."""
    from slimdex.retrieval.cli import console

    from ..experiments.similarity_study import Sentences, measure_model
    from ..machine import provenance
    from ..reporting.verdict import sts_line
    from ..runner import tell

    sentences = Sentences.read(data, language, quick=quick)
    about = provenance(["openvino"]) | {"seed": 0}
    for model in models.split(","):
        with console.progress():
            results, rows = measure_model(
                model,
                sentences,
                modes.split(","),
                max_length,
                (out, cache),
                about,
                curves=not no_curves,
            )
        tell(results, sts_line(rows))
