"""`slimdex bench tune`."""

from __future__ import annotations

from ..options import SetOptions


def tune(options: SetOptions) -> None:
    """Compare what `slimdex tune` chooses and proves with defaults, oracles and real queries."""
    from ..experiments.tuning_study import measure_tuning
    from ..runner import Runner

    Runner(
        "tune",
        lambda job: measure_tuning(job.task, job.encoder, job.results, job.about),
        ["faiss-cpu", "numpy"],
        {"seed": 0},
    ).run(options)
