"""`slimdex bench migrate`."""

from __future__ import annotations

from ..options import SetOptions


def migrate(*, options: SetOptions) -> None:
    """Measure what maps between all pairs of encoders retain, and answers during a migration.

    In a migration, the first model's documents move to each of the others.
    """
    from slimdex.retrieval.cli import console

    from ..machine import not_installed, provenance
    from ..reporting.verdict import migrate_line
    from ..rows import ResultsFile
    from ..runner import datasets, note_absent, tell
    from .migration_study import PEER, measure_pairs, tasks_of
    from .moving_study import measure_moving

    note_absent([*not_installed({PEER: [PEER]})])
    about = provenance(["numpy", PEER]) | {"seed": 0}
    for dataset in datasets(options, None):
        with console.progress():
            tasks = tasks_of(dataset.quick() if options.quick else dataset, options)
            results = ResultsFile(options.out / f"migrate-{dataset.name}.jsonl")
            measure_pairs(tasks, results, about)
            moving = ResultsFile(options.out / f"moving-{dataset.name}.jsonl")
            measure_moving(tasks, moving, about)
        tell(results, migrate_line(list(results.rows.values())))
        tell(moving)
