"""`slimdex bench tune`."""

from __future__ import annotations

from typing import Annotated

from ..options import SetOptions, chosen


def tune(
    *,
    only: Annotated[str, "Parts, separated by commas: metric, target, coverage."] = "",
    options: SetOptions,
) -> None:
    """Compare what `slimdex tune` chooses and proves with defaults, oracles and real queries."""
    from ..experiments.tuning_study import PARTS, measure_tuning
    from ..runner import Runner

    parts = chosen("--only", only, list(PARTS))
    Runner(
        "tune",
        lambda job: measure_tuning(job.task, job.encoder, job.results, job.about, parts),
        ["faiss-cpu", "numpy"],
        {"seed": 0},
    ).run(options)
