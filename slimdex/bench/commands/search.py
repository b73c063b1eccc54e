"""`slimdex bench search`."""

from __future__ import annotations

from typing import Annotated

from ..options import CACHE, SetOptions, chosen


def search(
    *, only: Annotated[str, "Stores to measure, separated by commas."] = "", options: SetOptions
) -> None:
    """Time searches from text to documents, beside other stores.

    Other stores require the extra `peers`.
    """
    from ..engines.engine import DOCUMENTS
    from ..engines.registry import missing, names_of, packages_of
    from ..experiments.search_study import QUERIES, QUICK_ROUNDS, ROUNDS, measure_search
    from ..runner import Runner

    names = chosen("--only", only, names_of(DOCUMENTS))
    absent = [name for name in names if name in missing(DOCUMENTS)]
    names = [name for name in names if name not in absent]
    Runner(
        "search",
        lambda job: measure_search(
            job.task,
            job.open_encoder,
            names,
            job.results,
            job.about,
            folder=CACHE,
            rounds=QUICK_ROUNDS if options.quick else ROUNDS,
        ),
        sorted({"duckdb", "openvino", *packages_of(names)}),
        {},
        QUERIES,
        absent,
        timed=True,
    ).run(options)
