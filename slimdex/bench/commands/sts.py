"""`slimdex bench sts`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from ..options import CACHE, Cache, Models, Out, Quick
from ..rows import MEASURED


def sts(
    data: Annotated[Path, "Folder with sts/: its seven English sets."],
    models: Models = "all-MiniLM-L6-v2",
    modes: Annotated[
        str, "Poolings, separated by commas: mean, cls, max, last, wk, own."
    ] = "mean,cls,wk",
    max_length: Annotated[int, "Most tokens to read of a sentence."] = 128,
    out: Out = MEASURED,
    cache: Cache = CACHE,
    quick: Quick = False,
) -> None:
    """Measure how whitening and fewer dimensions change similarity, by several poolings."""
    from slimdex.retrieval.cli import console

    from ..data.pairs import read_seven
    from ..experiments.similarity_study import measure_model
    from ..machine import provenance
    from ..runner import tell

    sets, language = read_seven(data / "sts"), "english"
    if quick:
        sets, language = [replace(sets[0], others=())], "english (quick)"
    about = provenance(["openvino"]) | {"seed": 0}
    for model in models.split(","):
        with console.progress():
            results = measure_model(
                model, sets, language, modes.split(","), max_length, (out, cache), about
            )
        tell(results, "sts")
