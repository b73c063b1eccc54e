"""`slimdex bench sts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import Models, Out
from ..rows import MEASURED


def sts(
    data: Annotated[Path, "Folder with sts/: its seven English sets."],
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how whitening and fewer dimensions change similarity, by several poolings."""
    from slimdex.retrieval.cli import console

    from ..data.pairs import read_seven
    from ..experiments.similarity_study import measure_model
    from ..machine import provenance
    from ..runner import tell

    sets = read_seven(data / "sts")
    about = provenance(["openvino"]) | {"seed": 0}
    for model in models.split(","):
        with console.progress():
            results = measure_model(model, sets, out, about)
        tell(results, "sts")
