"""`slimdex bench serve`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError
from slimdex.retrieval.cli.options.click_commands import Argument

from ..options import Out, whole_numbers
from ..rows import MEASURED


def serve(
    path: Annotated[Path, Argument("DIR", "The index's folder.")],
    queries: Annotated[Path, "A file of queries, as for `slimdex search`."],
    callers: Annotated[str, "Numbers of concurrent callers, separated by commas."] = "1,8,64",
    seconds: Annotated[float, "How long each number of callers asks."] = 10,
    out: Out = MEASURED,
) -> None:
    """Measure a service under load (by wrk), and the same index in process."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.sources.source import read_pairs

    from ..experiments.serve_study import measure_serve
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import tell

    counts = whole_numbers("--callers", callers, 1)
    if not 1 <= seconds < math.inf:  # also refuses NaN
        raise InputError(f"--seconds {seconds:g}; expected 1 or more")
    texts = [text for _, text in read_pairs(str(queries))]
    about = provenance(["fastapi", "uvicorn", "faiss-cpu", "chromadb"])
    results = ResultsFile(out / "serve-load.jsonl")
    with console.progress():
        measure_serve(path, texts, counts, seconds, results, about)
    tell(results, "serve")
