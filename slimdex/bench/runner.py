"""Runner: measures sets by models, and prints where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.errors import InputError
from slimdex.retrieval.cli import console
from slimdex.retrieval.encoders.opening import is_static
from slimdex.system.extras import install_command

from .datasets import Dataset, Task, load_dataset, names_of, open_local
from .experiments.retrieval_study import results_file
from .machine import provenance
from .memory_cap import MemoryGroup
from .options import CACHE, SetOptions
from .rows import ResultsFile, Row

if TYPE_CHECKING:
    from .datasets import LocalEncoder


@dataclass(frozen=True)
class Job:
    """A set encoded by a model, and the file of its rows.

    Attributes
    ----------
    open_encoder : opens the same encoder in another process.
    about : columns of every row: versions, machine, commit.
    """

    task: Task
    encoder: LocalEncoder
    open_encoder: Callable[[], LocalEncoder]
    results: ResultsFile
    about: Row


Measure = Callable[[Job], Sequence[str] | None]
"""Appends the missing rows of a job, or replaces all; returns a line for each failure."""


def run(
    name: str,
    measure: Measure,
    options: SetOptions,
    packages: Iterable[str],
    more: Row,
    *,
    queries: int | None = None,
    absent: Sequence[str] = (),
    timed: bool = False,
) -> None:
    """Measure every set by every model; rows of an interrupted run are kept.

    The other parameters are as for `jobs`.
    """
    for job in jobs(name, options, packages, more, queries=queries, absent=absent, timed=timed):
        measure_and_tell(name, job.results, partial(measure, job))


def jobs(
    name: str,
    options: SetOptions,
    packages: Iterable[str],
    more: Row,
    *,
    queries: int | None = None,
    absent: Sequence[str] = (),
    timed: bool = False,
) -> Iterator[Job]:
    """Yield every set, encoded by every model.

    Parameters
    ----------
    name : of the experiment in `reporting.tables`, and start of its files' names.
    packages : packages whose versions the rows have, in addition to `machine.LIBRARIES`.
    more : further columns of every row.
    queries : maximum number of queries of a set; None: all.
    absent : requested methods that need the extra `peers`.
    timed : whether encoding is timed, and therefore in the precision that users get.
    """
    chosen = datasets(options, queries)
    note_absent(absent)
    about = provenance(packages) | more
    precision = options.precision or ("auto" if timed else "fp32")
    how = partial(open_local, pooling=options.pooling, max_length=options.max_length)
    for model in options.models.split(","):
        encoder = how(model, precision=precision)
        again = partial(how, encoder.spec()["model"], precision=encoder.precision)
        for dataset in chosen:
            small = dataset.quick() if options.quick else dataset
            with console.progress():
                task = Task.encoded(small, encoder, CACHE)
            yield Job(task, encoder, again, results_file(task, name, options.out), about)


def datasets(options: SetOptions, queries: int | None) -> list[Dataset]:
    """Load the sets; all names are checked before hours of work on the first."""
    for model in options.models.split(","):
        is_static(model)
    found = [load_dataset(name, options.data) for name in names_of(options.sets, options.data)]
    return found if queries is None else [dataset.asking(queries) for dataset in found]


def run_alone(
    experiment: str,
    file: Path,
    packages: Iterable[str],
    measure: Callable[[ResultsFile, Row], Sequence[str] | None],
) -> None:
    """Measure without sets: `measure` is given the file of rows, and columns of every row."""
    results = ResultsFile(file)
    about = provenance(packages)
    measure_and_tell(experiment, results, lambda: measure(results, about))


def measure_and_tell(
    experiment: str, results: ResultsFile, measure: Callable[[], Sequence[str] | None]
) -> None:
    """Measure with a progress bar; note failures, and print the rows' place and tables."""
    with console.progress():
        failed = measure()
    for line in failed or ():
        console.note(line)
    tell(results, experiment)


def tell(results: ResultsFile, experiment: str) -> None:
    """Print where the rows of an experiment are, and its tables as Markdown."""
    from .reporting.tables import tables_of

    rows = list(results.rows.values())
    console.line(f"{len(rows)} rows in {results.path}")
    for table in tables_of(experiment, rows):
        console.line("")
        console.line(f"{table.title} ({table.note})" if table.note else table.title)
        for line in table.markdown().splitlines():
            console.line(line)


def note_absent(names: Sequence[str]) -> None:
    """Note that these need the extra `peers`."""
    if names:
        console.note(f"not installed: {', '.join(names)}; {install_command('peers')}")


def possible_cap(megabytes: int | None) -> int | None:
    """Convert a cap to bytes; None, with a note, if the system can't limit memory."""
    if megabytes is None:
        return None
    if megabytes < 1:
        raise InputError(f"--memory-cap {megabytes}; expected 1 MB or more")
    try:
        with MemoryGroup():
            return megabytes * 1_000_000
    except InputError as error:
        console.note(f"--memory-cap is left out: {error}")
        return None
