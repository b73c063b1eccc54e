"""`slimdex bench serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.retrieval.cli.click_commands import Argument

from ..options import Out
from ..rows import MEASURED


def serve(
    path: Annotated[Path, Argument("DIR", "The index's folder.")],
    queries: Annotated[Path, "A file of queries, as for `slimdex search`."],
    out: Out = MEASURED,
) -> None:
    """Measure a service under load (by wrk), and the same index in process."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.sources.source import read_pairs

    from ..experiments.serve_study import measure_serve
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import tell

    texts = [text for _, text in read_pairs(str(queries))]
    about = provenance(["fastapi", "uvicorn", "faiss-cpu", "chromadb"])
    results = ResultsFile(out / "serve-load.jsonl")
    with console.progress():
        measure_serve(path, texts, results, about)
    tell(results, "serve")
