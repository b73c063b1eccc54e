"""`slimdex bench search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError
from slimdex.retrieval.cli.options.click_commands import Argument
from slimdex.retrieval.cli.options.opening import Json

from ..options import SetOptions, chosen


def search(
    *,
    index: Annotated[
        Path | None,
        Argument("DIR", "An index of yours, to be measured instead of sets."),
    ] = None,
    only: Annotated[str, "Stores to measure, separated by commas."] = "",
    candidates: Annotated[
        str, "With DIR: numbers of candidates, separated by commas; auto: the index's own."
    ] = "200,400,auto",
    queries: Annotated[int, "With DIR: how many queries to make of its documents."] = 500,
    as_json: Json = False,
    options: SetOptions,
) -> None:
    """Time searches from text to documents: in sets, beside other stores, or in an index of yours.

    Other stores require the extra `peers`.
    """
    if index is not None:
        if only:
            raise InputError(f"{index} with --only; expected one of them")
        _index(index, candidates, queries, as_json=as_json)
    else:
        _stores(options, only)


def _stores(options: SetOptions, only: str) -> None:
    from ..engines.document_stores import STORES, missing_stores
    from ..experiments.search_study import QUERIES, QUICK_ROUNDS, ROUNDS, measure_search
    from ..runner import Runner

    names, missing = chosen("--only", only, list(STORES)), missing_stores()
    absent = [name for name in names if name in missing]
    names = [name for name in names if name not in missing]
    packages = {package for name in names for package in STORES[name].packages}
    Runner(
        "search",
        lambda job: measure_search(
            job.task,
            job.open_encoder,
            names,
            job.results,
            job.about,
            folder=options.cache,
            rounds=QUICK_ROUNDS if options.quick else ROUNDS,
        ),
        sorted({"duckdb", "openvino"} | packages),
        {},
        QUERIES,
        absent,
        timed=True,
    ).run(options)


def _index(path: Path, candidates: str, queries: int, *, as_json: bool) -> None:
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.options.settings import parsed_candidates

    from ..experiments.index_study import heads_and_lines, measure_path
    from ..machine import provenance

    numbers = [parsed_candidates(word) for word in candidates.split(",")]
    if bad := [number for number in numbers if number is not None and number < 1]:
        raise InputError(f"candidates={bad[0]}; expected 1 or more")
    if queries < 1:
        raise InputError(f"queries={queries}; expected 1 or more")
    with console.progress():
        report = measure_path(path, numbers, queries)
    if as_json:
        console.print_json(report | provenance())
        return
    console.line(
        f"{report['rows']:,} rows, {report['kind']}, k={report['k']}, "
        f"{report['bytes_per_vector']:.0f} bytes a vector in RAM; opened, "
        f"{report['opened_bytes'] / 1e6:.0f} MB more than an empty process"
    )
    console.show_table(*heads_and_lines(report["by_candidates"]))
