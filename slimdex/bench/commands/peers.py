"""`slimdex bench peers` and `slimdex bench lists`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from slimdex.indexes.errors import InputError

from ..options import SetOptions, chosen, whole_numbers

QUERIES = 1000
"""Most queries of a set: some peers take 30 ms for one."""


def peers(
    *, only: Annotated[str, "Peers to measure, separated by commas."] = "", options: SetOptions
) -> None:
    """Measure slimdex and vector databases and libraries in turns; requires the extra `peers`."""

    from ..engines.engine_specs import PEERS, missing_peers, packages_of
    from ..experiments.peer_study import contenders, measure_peers
    from ..reporting.verdict import peers_line
    from ..runner import Job, Runner

    names = chosen("--only", only, list(PEERS))

    def measure(job: Job) -> list[str]:
        methods = contenders(job.task.vectors.dim, len(job.task.vectors), names)
        return measure_peers(job.task, methods, job.results, job.about)

    missing = missing_peers()
    absent = [name for name in names if name in missing]
    packages = packages_of(names)
    Runner("peers", measure, peers_line, packages, {"seed": 0}, QUERIES, absent).run(options)


def lists(
    *,
    only: Annotated[str, "Kinds of index to measure, separated by commas."] = "",
    documents: Annotated[
        str,
        "Numbers of documents to index, separated by commas: drawn at random, and beyond those of "
        "the set noisy copies; default: all.",
    ] = "",
    queries_of: Annotated[
        str, "Sets in DATA whose queries are asked instead of the documents' own."
    ] = "",
    options: SetOptions,
) -> None:
    """Measure inverted lists (`ivf-pq`) of several kinds, and `pq`, in turns on one thread."""
    from ..inverted.list_study import KINDS, Asked, measure_lists
    from ..reporting.verdict import lists_line
    from ..runner import Job, Runner

    names = chosen("--only", only, list(KINDS))
    sizes = whole_numbers("--documents", documents, 1) if documents else []
    named = _named_queries(queries_of, options, QUERIES)

    def measure(job: Job) -> Sequence[str]:
        own = {job.task.dataset.name: job.task.dataset.query_texts}
        texts = [text for found in (named or own).values() for text in found]
        asked = Asked(list(named or own), texts, job.encoder)
        total = len(job.task.vectors)
        about = job.task.facts() | {"queries": len(texts)} | job.about
        for size in sizes or [total]:
            measure_lists(
                job.task.vectors,
                asked,
                names,
                job.results,
                about,
                documents=size,
                folder=options.cache,
            )
        return ()

    Runner("lists", measure, lists_line, (), {"seed": 0}, QUERIES, timed=True).run(options)


def _named_queries(sets: str, options: SetOptions, most: int) -> dict[str, Sequence[str]]:
    """Set -> its first queries, as many of each as give `most` together."""
    from ..data.datasets import load_dataset

    names = sets.split(",") if sets else []
    if names and options.data is None:
        raise InputError(f"--queries-of {sets!r} without --data; expected the folder of the sets")
    found = [load_dataset(name, options.data) for name in names]
    return {each.name: each.query_texts[: most // len(found)] for each in found}
