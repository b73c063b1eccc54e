"""`slimdex bench peers`."""

from __future__ import annotations

from typing import Annotated

from ..options import SetOptions, chosen

QUERIES = 1000
"""Most queries of a set: some peers take 30 ms for one."""


def peers(
    *, only: Annotated[str, "Peers to measure, separated by commas."] = "", options: SetOptions
) -> None:
    """Measure slimdex and vector databases and libraries in turns; requires the extra `peers`."""
    from ..engines.engine import VECTORS
    from ..engines.registry import missing, names_of, packages_of
    from ..experiments.peer_study import contenders, measure_peers
    from ..runner import Job, Runner

    names = chosen("--only", only, names_of(VECTORS))

    def measure(job: Job) -> list[str]:
        methods = contenders(job.task.vectors.dim, len(job.task.vectors), names)
        return measure_peers(job.task, methods, job.results, job.about)

    absent = [name for name in names if name in missing(VECTORS)]
    packages = packages_of(names)
    Runner("peers", measure, packages, {"seed": 0}, QUERIES, absent).run(options)
