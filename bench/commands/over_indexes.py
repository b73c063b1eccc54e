"""Commands that measure indexes: an existing one, changes, and pages cut into passages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from slimdex.indexes.errors import InputError

from ..rows import MEASURED
from .shared import Data, Models, Out, tell, whole_numbers


def index(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="The index's folder.")],
    candidates: Annotated[
        str, typer.Option(help="Numbers of candidates, separated by commas; auto: the index's own.")
    ] = "200,400,auto",
    queries: Annotated[int, typer.Option(help="How many queries to make of the documents.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """An index of yours: agreement with exact search, and time from a vector and from a text."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.options import candidates_asked
    from slimdex.retrieval.collection.collection import Collection

    from ..experiments.index_study import PARTS, measure_index
    from ..machine import Resident, provenance

    numbers = [candidates_asked(word) for word in candidates.split(",")]
    if bad := [number for number in numbers if number is not None and number < 1]:
        raise InputError(f"candidates={bad[0]}; expected 1 or more")
    if queries < 1:
        raise InputError(f"queries={queries}; expected 1 or more")
    before = Resident.now()
    with Collection.open(path, read_only=True) as collection, console.progress() as progress:
        size = len(collection._index.index)
        opened = Resident.now().since(before)
        rows = measure_index(collection, numbers, queries=queries, progress=progress)
        facts = collection.info()
    report = {
        "documents": facts["documents"],
        "rows": size,
        "kind": facts["settings"]["kind"],
        "k": facts["settings"]["k"],
        "bytes_per_vector": facts["memory"]["ram_bytes_per_vector"],
        "opened_bytes": opened.own,
        "by_candidates": rows,
    }
    if as_json:
        console.print_json(report | provenance())
        return
    console.line(
        f"{size:,} rows, {report['kind']}, k={report['k']}, {report['bytes_per_vector']:.0f} bytes "
        f"a vector in RAM; opened, {opened.own / 1e6:.0f} MB more than an empty process"
    )
    heads = ["candidates", "agreement@10", "vector to rows, p50 ms", "p99", "encoding", "p99"]
    heads += ["vector to documents", "p99", "text to documents", "p99"]
    table = []
    for row in rows:
        times = [f"{row[f'{p}_ms_{part}']:.2f}" for part in PARTS for p in ("p50", "p99")]
        table.append([f"{row['candidates']:,}", f"{row['agreement@10']:.4f}", *times])
    console.show_table(heads, table)


def serve(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="The index's folder.")],
    queries: Annotated[Path, typer.Option(help="A file of queries, as for `slimdex search`.")],
    callers: Annotated[
        str, typer.Option(help="Numbers of concurrent callers, separated by commas.")
    ] = "1,8,64",
    seconds: Annotated[float, typer.Option(help="How long each number of callers asks.")] = 10,
    out: Out = MEASURED,
) -> None:
    """Measure a service under load (by wrk), and the same index in process."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.sources.source import read_pairs

    from ..experiments.serve_study import measure_serve
    from ..machine import provenance
    from ..rows import ResultsFile

    counts = whole_numbers("--callers", callers, 1)
    _check_seconds(seconds)
    texts = [text for _, text in read_pairs(str(queries))]
    about = provenance(["fastapi", "uvicorn", "faiss-cpu", "chromadb"])
    results = ResultsFile(out / "serve-load.jsonl")
    with console.progress() as progress:
        measure_serve(path, texts, counts, seconds, results, about, progress)
    tell(results)


def updates(
    rows: Annotated[str, typer.Option(help="Sizes of indexes, separated by commas.")] = (
        "10000,100000,1000000"
    ),
    seconds: Annotated[float, typer.Option(help="How long to search while changes go on.")] = 60.0,
    out: Out = MEASURED,
) -> None:
    """Measure what changes cost in indexes of different sizes, and searches during changes."""
    from slimdex.retrieval.cli import console

    from ..experiments.update_study import measure_traffic, measure_updates
    from ..machine import provenance
    from ..rows import ResultsFile

    sizes = tuple(whole_numbers("--rows", rows, 1))
    _check_seconds(seconds)
    about, results = provenance(["duckdb"]), ResultsFile(out / "updates-random.jsonl")
    with console.progress() as progress:
        measure_updates(results, about, sizes, progress)
        faults = measure_traffic(results, about, sizes[0], seconds, progress)
    tell(results)
    if faults:
        raise InputError(f"{len(faults)} searches or changes failed: {faults[0]}")


def _check_seconds(seconds: float) -> None:
    if not 1 <= seconds < math.inf:  # also refuses NaN
        raise InputError(f"--seconds {seconds:g}; expected 1 or more")


def passages(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Python's documentation in HTML.", show_default=False
        ),
    ] = None,
    data: Data = None,
    sets: Annotated[
        str,
        typer.Option(
            help="Folders in DATA in BEIR's layout, separated by commas; all: all of them."
        ),
    ] = "all",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Compare long texts cut off and cut into passages: what is found, and what a build takes."""
    from slimdex.retrieval.cli import console

    from ..data.datasets import names_of
    from ..experiments.passages_study import measure_passages, measure_set
    from ..machine import provenance
    from ..reporting.verdict import passages_line
    from ..rows import ResultsFile

    if folder is None and data is None:
        raise InputError("no FOLDER and no --data; expected pages or sets to measure")
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    about = provenance(["faiss-cpu"])
    judged = [data / name for name in names_of(sets, data)] if data is not None else []
    for asked in judged:
        if not (asked / "corpus.jsonl").is_file():
            raise InputError(f"{asked}: no corpus.jsonl; expected a set in BEIR's layout")
    for model in models.split(","):
        name = Path(model).name
        if folder is not None:
            results = ResultsFile(out / f"passages-{name}.jsonl")
            with console.progress() as progress:
                measure_passages(folder, model, results, about, progress)
            tell(results, passages_line(list(results.rows.values())))
        for asked in judged:
            results = ResultsFile(out / f"passages-{asked.name}-{name}.jsonl")
            with console.progress() as progress:
                measure_set(asked, model, results, about, progress)
            tell(results, passages_line(list(results.rows.values())))
