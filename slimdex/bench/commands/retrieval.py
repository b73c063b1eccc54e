"""`slimdex bench retrieval`."""

from __future__ import annotations

from ..options import SetOptions


def retrieval(options: SetOptions) -> None:
    """Measure quality, memory and time of every method on sets; existing rows are kept."""
    from ..engines.engine import VECTORS
    from ..engines.registry import missing, packages_of
    from ..experiments.measured_methods import GRID_PEERS
    from ..experiments.retrieval_study import measure_grid
    from ..runner import Runner

    Runner(
        "retrieval",
        lambda job: measure_grid(job.task, job.results, job.about, quick=options.quick),
        packages_of(GRID_PEERS),
        {"seed": 0},
        absent=[name for name in GRID_PEERS if name in missing(VECTORS)],
    ).run(options)
