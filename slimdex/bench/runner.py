"""Runner: measures sets by models, and prints where the rows are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.errors import InputError
from slimdex.retrieval.cli import console
from slimdex.retrieval.encoders.opening import is_static
from slimdex.system.extras import install_command

from .datasets import Task, load_dataset, names_of, open_local
from .engines.engine import Ability
from .engines.registry import libraries_for, missing
from .machine import MemoryGroup, provenance
from .options import CACHE, SetOptions, parse_names
from .reporting.tables import tables_of
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


def jobs(
    name: str,
    options: SetOptions,
    packages: Iterable[str],
    *,
    queries: int | None = None,
    timed: bool = False,
) -> Iterator[Job]:
    """Yield every set, encoded by every model.

    Parameters
    ----------
    name : of the experiment, and start of its files' names.
    packages : packages whose versions the rows have, in addition to `machine.LIBRARIES`.
    queries : maximum number of queries of a set; None: all.
    timed : whether encoding is timed, and therefore in the precision that users get.
    """
    models = options.models.split(",")
    for model in models:  # all names are checked before hours of work on the first
        is_static(model)
    sets = [load_dataset(each, options.data) for each in names_of(options.sets, options.data)]
    about = provenance(packages) | {"seed": 0}
    precision = options.precision or ("auto" if timed else "fp32")
    open_model = partial(open_local, pooling=options.pooling, max_length=options.max_length)
    for model in models:
        encoder = open_model(model, precision=precision)
        # Use the precision that "auto" has chosen here.
        reopen = partial(open_model, encoder.spec()["model"], precision=encoder.precision)
        for dataset in sets:
            asking = dataset if queries is None else dataset.asking(queries)
            with console.progress():
                task = Task.encode(asking.quick() if options.quick else asking, encoder, CACHE)
            yield Job(task, encoder, reopen, results_file(task, name, options.out), about)


def results_file(task: Task, experiment: str, folder: Path) -> ResultsFile:
    """Return the file of rows of an experiment, set and model."""
    name = re.sub(r"[^\w.]+", "-", f"{experiment}-{task.dataset.name}-{task.model}").strip("-")
    return ResultsFile(folder / f"{name}.jsonl")


def run(
    name: str,
    measure: Callable[[Job], Sequence[str] | None],
    options: SetOptions,
    packages: Iterable[str] = (),
    *,
    queries: int | None = None,
    timed: bool = False,
) -> None:
    """Measure every set by every model; rows of an interrupted run are kept.

    `measure` appends the missing rows of a job, or replaces all, and returns a line for each
    failure. The other parameters are as for `jobs`.
    """
    for job in jobs(name, options, packages, queries=queries, timed=timed):
        _measure_and_tell(name, job.results, partial(measure, job))


def run_alone(
    experiment: str,
    file: Path,
    packages: Iterable[str],
    measure: Callable[[ResultsFile, Row], Sequence[str] | None],
) -> None:
    """Measure without sets: `measure` is given the file of rows, and columns of every row."""
    results = ResultsFile(file)
    _measure_and_tell(experiment, results, partial(measure, results, provenance(packages)))


def _measure_and_tell(
    experiment: str, results: ResultsFile, measure: Callable[[], Sequence[str] | None]
) -> None:
    """Measure and report progress; print the failures, the path of the rows and the tables."""
    with console.progress():
        failures = measure()
    for line in failures or ():
        console.note(line)
    tell(results, experiment)


def tell(results: ResultsFile, experiment: str) -> None:
    """Print where the rows of an experiment are, and its tables as Markdown."""
    rows = list(results.rows.values())
    console.line(f"{len(rows)} rows in {results.path}")
    for table in tables_of(experiment, rows):
        console.line("")
        console.line(f"{table.title} ({table.note})" if table.note else table.title)
        for line in table.markdown().splitlines():
            console.line(line)


def parse_libraries(option: str, words: str, ability: Ability) -> list[str]:
    """Parse names of libraries with an ability; notes those that are not installed."""
    names = parse_names(option, words, libraries_for(ability))
    absent = missing(names)
    if absent:
        console.note(f"not installed: {', '.join(absent)}; {install_command('peers')}")
    return [name for name in names if name not in absent]


def possible_cap(megabytes: int | None) -> int | None:
    """Convert a cap to bytes; None, with a note, if the system can't limit memory."""
    if megabytes is None:
        return None
    if megabytes < 1:
        raise InputError(f"--memory-cap {megabytes}; expected 1 MB or more")
    try:
        with MemoryGroup():  # only to see whether it can be made
            return megabytes * 1_000_000
    except InputError as error:
        console.note(f"--memory-cap is left out: {error}")
        return None
