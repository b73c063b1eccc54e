"""`slimdex bench hybrid`."""

from __future__ import annotations

from typing import Annotated

from ..options import CACHE, SetOptions


def hybrid(
    *,
    names: Annotated[bool, "Also ask for documents by their ids: half of all queries."] = False,
    options: SetOptions,
) -> None:
    """Measure hybrid search: quality of each fusion and of what tune chooses; memory, time."""
    from ..experiments.hybrid_study import measure_hybrid
    from ..runner import Runner

    Runner(
        "hybrid",
        lambda job: measure_hybrid(
            job.task, job.encoder, CACHE, job.results, job.about, names=names
        ),
        ["tantivy", "faiss-cpu", "numpy"],
        {"seed": 0},
    ).run(options)
