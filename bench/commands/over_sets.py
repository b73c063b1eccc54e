"""Commands that measure search on sets of documents, queries and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from slimdex.indexes.errors import InputError
from slimdex.retrieval.extras import install_command

from ..rows import MEASURED
from .shared import (
    Cache,
    Data,
    MaxLength,
    Models,
    Out,
    Pooling,
    Precision,
    Quick,
    Sets,
    datasets,
    note_missing,
    open_encoders,
    reopened,
    tasks,
    tell,
)

PEER_QUERIES = 1000
"""Some peers take 30 ms for one, and each is asked by every effort it has."""
CODES_QUERIES = 2000
"""Of a set at most; twenty ways are asked each of them."""


def retrieval(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Measure every method on every set; existing rows are not measured again."""
    from slimdex.retrieval.cli import console

    from ..experiments.measured_methods import GRID_PEERS
    from ..experiments.retrieval_study import measure_grid, results_file
    from ..machine import provenance
    from ..reporting.verdict import retrieval_line

    chosen = datasets(data, sets, models)
    note_missing(GRID_PEERS)
    about = provenance(_packages(GRID_PEERS)) | {"seed": 0}
    encoders = open_encoders(models, precision, pooling, max_length)
    for task in tasks(chosen, encoders, cache, quick):
        results = results_file(task, "retrieval", out)
        with console.progress() as progress:
            measure_grid(task, results, about, quick=quick, progress=progress)
        tell(results, retrieval_line(list(results.rows.values()), (task.dataset.name, task.model)))


def peers(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Peers to measure, separated by commas.")] = "",
) -> None:
    """Measure slimdex and vector databases and libraries in turns; requires the extra `peers`."""
    from slimdex.retrieval.cli import console

    from ..experiments.peer_study import contenders, measure_peers
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance
    from ..reporting.verdict import peers_line

    names = _peer_names(only)
    chosen = [dataset.asking(PEER_QUERIES) for dataset in datasets(data, sets, models)]
    note_missing(names)
    about = provenance(_packages(names)) | {"seed": 0}
    encoders = open_encoders(models, precision, pooling, max_length)
    for task in tasks(chosen, encoders, cache, quick):
        results = results_file(task, "peers", out)
        methods = contenders(task.vectors.dim, len(task.vectors), names)
        with console.progress() as progress:
            failed = measure_peers(task, methods, results, about, progress=progress)
        for line in failed:
            console.note(line)
        tell(results, peers_line(list(results.rows.values()), (task.dataset.name, task.model)))


def filters(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Search under conditions that allow few documents, or all: agreement and time by its parts."""
    from slimdex.retrieval.cli import console

    from ..experiments.filter_study import measure_filters
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance
    from ..reporting.verdict import filters_line

    chosen = datasets(data, sets, models)
    about = provenance(["duckdb"])
    for task in tasks(chosen, open_encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "filters", out)
        with console.progress() as progress:
            measure_filters(task, results, about, progress=progress)
        tell(results, filters_line(list(results.rows.values())))


def milvus(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    uri: Annotated[
        str,
        typer.Option(
            "--milvus",
            metavar="URI",
            help="http://HOST:19530 of a server; by default the embedded one, in --cache.",
        ),
    ] = "",
) -> None:
    """Compare an index served from Milvus with the local one and with Milvus' own index kinds."""
    from slimdex.retrieval.cli import console

    from ..experiments.milvus_study import QUERIES, measure_milvus, milvus_lines
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance

    chosen = [dataset.asking(QUERIES) for dataset in datasets(data, sets, models)]
    about = provenance(["pymilvus", "milvus-lite", "faiss-cpu"])
    place = uri or str(cache / "milvus.db")
    for task in tasks(chosen, open_encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "milvus", out)
        with console.progress() as progress:
            measure_milvus(task, results, about, place, progress=progress)
        tell(results, *milvus_lines(list(results.rows.values()), task.dataset))


def codes(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Also measure those that take a minute or more per set.")
    ] = False,
) -> None:
    """Compare codes of the same size, alone: quality, and time to train, add and search."""
    from slimdex.retrieval.cli import console

    from ..experiments.codes_study import measure_codes
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance
    from ..reporting.codes_tables import codes_line

    chosen = [dataset.asking(CODES_QUERIES) for dataset in datasets(data, sets, models)]
    about = provenance(["faiss-cpu", "numpy"])
    for task in tasks(chosen, open_encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "codes", out)
        with console.progress() as progress:
            measure_codes(task, results, about, slow=slow, progress=progress)
        tell(results, codes_line(list(results.rows.values())))


def stored(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
) -> None:
    """Compare full vectors stored as int8 and float16: quality, bytes on disk, time to rescore."""
    from slimdex.retrieval.cli import console

    from ..experiments.retrieval_study import results_file
    from ..experiments.stored_study import measure_stored
    from ..machine import provenance
    from ..reporting.verdict import stored_line

    chosen = datasets(data, sets, models)
    about = provenance(["faiss-cpu", "numpy"])
    for task in tasks(chosen, open_encoders(models, precision, pooling, max_length), cache, quick):
        results = results_file(task, "stored", out)
        with console.progress() as progress:
            measure_stored(task, results, about, progress=progress)
        tell(results, stored_line(list(results.rows.values())))


def tune(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[
        str, typer.Option(help="Parts, separated by commas: metric, target, coverage, growth.")
    ] = "",
) -> None:
    """Compare what `slimdex tune` chooses and proves with defaults, oracles and real queries."""
    from slimdex.retrieval.cli import console

    from ..experiments.retrieval_study import results_file
    from ..experiments.tuning_study import PARTS, measure_tuning
    from ..machine import provenance
    from ..reporting.verdict import tune_line

    parts = only.split(",") if only else list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        raise InputError(f"--only {unknown[0]}; expected {', '.join(PARTS)}")
    chosen = datasets(data, sets, models)
    about = provenance(["faiss-cpu", "numpy"]) | {"seed": 0}
    encoders = list(open_encoders(models, precision, pooling, max_length))
    for encoder in encoders:
        for task in tasks(chosen, [encoder], cache, quick):
            results = results_file(task, "tune", out)
            with console.progress() as progress:
                measure_tuning(task, encoder, results, about, parts, progress=progress)
            tell(results, tune_line(list(results.rows.values())))


def search(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="Stores to measure, separated by commas.")] = "",
) -> None:
    """Time searches from text to documents, beside other stores; requires the extra `peers`."""
    from slimdex.retrieval.cli import console

    from ..engines.document_stores import STORES, missing_stores
    from ..experiments.retrieval_study import results_file
    from ..experiments.search_study import QUERIES, QUICK_ROUNDS, ROUNDS, measure_search
    from ..machine import provenance
    from ..reporting.verdict import search_line

    names = only.split(",") if only else list(STORES)
    if unknown := [name for name in names if name not in STORES]:
        raise InputError(f"store {unknown[0]!r}; expected some of {', '.join(STORES)}")
    chosen = [dataset.asking(QUERIES) for dataset in datasets(data, sets, models)]
    missing = missing_stores()
    if absent := [name for name in names if name in missing]:
        console.note(f"not installed: {', '.join(absent)}; {install_command('peers')}")
    names = [name for name in names if name not in missing]
    packages = {package for name in names for package in STORES[name].packages}
    about = provenance(sorted({"duckdb", "openvino"} | packages))
    encoders = open_encoders(models, precision, pooling, max_length)
    for task, opened in reopened(chosen, encoders, cache, quick, pooling, max_length):
        results = results_file(task, "search", out)
        with console.progress() as progress:
            failed = measure_search(
                task,
                opened,
                names,
                results,
                about,
                folder=cache,
                rounds=QUICK_ROUNDS if quick else ROUNDS,
                progress=progress,
            )
        for line in failed:
            console.note(line)
        tell(results, search_line(list(results.rows.values())))


def cold(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Annotated[
        Path, typer.Option(help="Folder for encoded vectors and the index; it must be on a disk.")
    ] = Path("bench-cache"),
    precision: Precision = "auto",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    limit: Annotated[
        int,
        typer.Option(
            help="Memory limit of a second process, in MB, if the system has such; 0: none."
        ),
    ] = 512,
) -> None:
    """Time searches from text to documents when files must be read from disk (Linux only)."""
    from slimdex.retrieval.cli import console

    from ..experiments.cold_study import QUERIES, measure_cold
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance
    from ..memory_limit import check_groups
    from ..page_cache import check_system
    from ..reporting.verdict import cold_line

    check_system()
    chosen = [dataset.asking(QUERIES) for dataset in datasets(data, sets, models)]
    try:
        most = 1_000_000 * limit or None
        if most:
            check_groups()
    except InputError as error:
        console.note(f"no rows under a memory limit: {error}")
        most = None
    about = provenance(["duckdb", "openvino"])
    encoders = open_encoders(models, precision, pooling, max_length)
    for task, opened in reopened(chosen, encoders, cache, quick, pooling, max_length):
        results = results_file(task, "cold", out)
        with console.progress() as progress:
            failed = measure_cold(
                task, opened, results, about, folder=cache, limit=most, progress=progress
            )
        for line in failed:
            console.note(line)
        tell(results, cold_line(list(results.rows.values())))


def _peer_names(only: str) -> list[str]:
    from ..engines.peers import PEERS

    names = only.split(",") if only else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise InputError(f"peer {unknown[0]!r}; expected some of {', '.join(PEERS)}")
    return names


def _packages(names: Sequence[str]) -> list[str]:
    from ..engines.peers import PEERS

    return sorted({package for name in names for package in PEERS[name].packages})


def chance(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
) -> None:
    """Measure how often a search notes that its best hit may be by chance."""
    from slimdex.retrieval.cli import console

    from ..experiments.chance_study import measure_chance
    from ..machine import provenance
    from ..reporting.verdict import chance_line
    from ..rows import ResultsFile

    chosen = datasets(data, sets, models)
    about = provenance(["faiss-cpu"])
    for encoder in open_encoders(models, "auto", None, None):
        name = Path(encoder.spec()["model"]).name
        results = ResultsFile(out / f"chance-{name}.jsonl")
        with console.progress() as progress:
            measure_chance(chosen, name, encoder, results, about, progress)
        tell(results, chance_line(list(results.rows.values())))


def hybrid(
    data: Data = None,
    sets: Sets = "docstrings",
    models: Models = "all-MiniLM-L6-v2",
    out: Out = MEASURED,
    cache: Cache = Path("bench-cache"),
    precision: Precision = "fp32",
    pooling: Pooling = None,
    max_length: MaxLength = None,
    quick: Quick = False,
    names: Annotated[
        bool,
        typer.Option("--names", help="Also ask for documents by their ids: half of all queries."),
    ] = False,
) -> None:
    """Measure hybrid search: quality of each fusion and of what tune chooses; memory, time."""
    from slimdex.retrieval.cli import console

    from ..experiments.hybrid_study import measure_hybrid
    from ..experiments.retrieval_study import results_file
    from ..machine import provenance
    from ..reporting.verdict import hybrid_line

    chosen = datasets(data, sets, models)
    about = provenance(["tantivy", "faiss-cpu", "numpy"]) | {"seed": 0}
    for encoder in open_encoders(models, precision, pooling, max_length):
        for task in tasks(chosen, [encoder], cache, quick):
            results = results_file(task, "hybrid", out)
            with console.progress() as progress:
                measure_hybrid(task, encoder, cache, results, about, names=names, progress=progress)
            tell(results, hybrid_line(list(results.rows.values())))
