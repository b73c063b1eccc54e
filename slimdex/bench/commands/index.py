"""`slimdex bench index`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError
from slimdex.retrieval.cli.click_commands import Argument

from ..options import Out
from ..rows import MEASURED


def index(
    path: Annotated[Path, Argument("DIR", "The index's folder.")],
    queries: Annotated[
        Path | None,
        "A file of queries, as for `slimdex search`; default: documents without some of the words.",
    ] = None,
    candidates: Annotated[
        str, "Numbers of candidates, separated by commas; auto: the index's own."
    ] = "200,400,auto",
    where: Annotated[
        list[str] | None, "CONDITION", "A condition to search with; can be repeated."
    ] = None,
    out: Out = MEASURED,
) -> None:
    """Measure an index of yours: agreement and times, with conditions, and with a cold disk."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.settings import parsed_candidates
    from slimdex.retrieval.sources.source import read_pairs

    from ..experiments.index_study import Asked, measure_index
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import tell

    numbers = [parsed_candidates(word) for word in candidates.split(",")]
    if bad := [number for number in numbers if number is not None and number < 1]:
        raise InputError(f"candidates={bad[0]}; expected 1 or more")
    texts = None if queries is None else [text for _, text in read_pairs(str(queries))]
    about = provenance(["duckdb", "openvino"])
    results = ResultsFile(out / f"index-{path.absolute().name}.jsonl")
    with console.progress():
        measure_index(path, Asked(numbers, where or (), texts), results, about)
    tell(results, "index")
