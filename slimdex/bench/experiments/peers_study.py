"""`slimdex bench peers`: slimdex and other libraries over the vectors of a set, side by side.

Each method has a process of its own. All are built, one after the other; then each answers a few
queries in turn. Points of a set (`points_study`) are measured in the same way, one method at a
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.codes.kinds import by_size
from slimdex.indexes.options import CANDIDATES
from slimdex.indexes.settings import Settings
from slimdex.system.progress import progress

from ..datasets import Task
from ..engines.engine import CANDIDATE_EFFORTS, Seconds
from ..engines.measuring import MeasuredEngine, engine_process
from ..engines.processes import (
    Contender,
    WorkerError,
    in_turns,
    replace_rows,
)
from ..engines.registry import Method, exact_method, part
from ..machine import MemoryGroup
from ..paired_measures import ANSWERS, Judge, depth_for
from ..rows import ResultsFile, Row, key_of

QUERIES = 1000
"""Most queries of a set beside peers, some of which take 30 ms for one."""
ROUNDS = 8
ROUND_QUERIES = 40
"""Rounds of queries timed one at a time, and queries in each."""
BUILDS = 3
SHORT_BUILD = 12.0
"""Builds of each method, and seconds above which there is only one."""
BATCH_QUERIES = 500
"""Queries in one call for the throughput: some peers answer 30 per second."""
CAPPED = "capped"
CAPPED_ROUNDS = 2
"""Suffix of the columns of times under a memory limit; number of rounds, since a query may read the
whole index."""


@dataclass(kw_only=True)
class MethodContender(Contender[MeasuredEngine]):
    """A method at one effort; the efforts of a method share its process and its group."""

    effort: int
    group: MemoryGroup | None = None

    def prepare(self) -> None:
        """Set the effort."""
        self.process.remote.set_effort(self.effort)


Keys = Mapping[tuple[Method, int], str]
"""Method and effort -> key of their row."""


def measure_peers(
    task: Task, methods: Sequence[Method], results: ResultsFile, about: Row, cap: int | None = None
) -> list[str]:
    """Write a row for each effort of each method, unless all exist; returns failures.

    With a `cap` in bytes, queries are timed again while no process may take more. Rows of methods
    that don't fit have no such times.
    """
    # Figures beside other methods are not comparable.
    beside: Row = {"with": sorted(method.name for method in methods)}
    if cap is not None:
        beside["cap"] = cap
    keys = {}
    for method in methods:
        for effort in method.efforts:
            keys[method, effort] = row_key(task, method, effort, **beside)
    if results.rows.keys() == set(keys.values()):
        return []
    judge = Judge(task.dataset, *exact_answers(task, depth_for(task.dataset, ANSWERS)))
    return replace_rows(results, measure_methods(task, keys, judge, cap), about)


def exact_answers(task: Task, depth: int) -> tuple[Matrix, Rows]:
    """Scores and rows (queries, depth) of exact search over the float32 vectors."""
    with engine_process(exact_method(task.vectors.dim), task.vectors, task.queries) as process:
        process.remote.build()
        return process.remote.answer(depth)


def row_key(task: Task, method: Method, effort: int, **conditions: object) -> str:
    """Key of a row, from its vectors, its method and what it is measured beside."""
    return key_of(task.facts() | method.columns(effort) | {"seed": 0} | conditions)


def measure_methods(
    task: Task, keys: Keys, judge: Judge, cap: int | None = None
) -> list[MethodContender]:
    """Build methods, and measure them in turns; those that fail have an error."""
    with ExitStack() as stack:
        built = _build_methods(task, keys, stack, in_groups=cap is not None)
        in_turns(built, partial(_judge, judge), "answers")
        in_turns(built, partial(_time, task, "one"), "one thread", ROUNDS)
        in_turns(built, partial(_rate, task), "throughput")
        if cap is not None:
            _time_capped(task, built, cap)
    return built


def _build_methods(
    task: Task, keys: Keys, stack: ExitStack, *, in_groups: bool
) -> list[MethodContender]:
    """Build each method in a process of its own, fast ones repeatedly; the last process is kept."""
    built = list[MethodContender]()
    for method in dict.fromkeys(method for method, _ in keys):
        progress("building", len(built), len(keys))
        group = stack.enter_context(MemoryGroup()) if in_groups else None
        builds = list[Seconds]()
        error = None

        # Build up to `BUILDS` times; stop after a failure or a slow build.
        while len(builds) < BUILDS:
            folder = group.folder if group else None
            process = engine_process(method, task.vectors, task.queries, folder)
            try:
                builds.append(process.remote.build())
            except WorkerError as failure:
                error = str(failure)
            if error or len(builds) == BUILDS or sum(builds[0].values()) > SHORT_BUILD:
                break
            process.close()
        stack.enter_context(process)

        # One row for each effort, of the same process.
        efforts = [effort for method_of_key, effort in keys if method_of_key == method]
        for effort in efforts:
            row = {"key": keys[method, effort]} | task.facts() | method.columns(effort)
            row |= _median(builds)
            contender = MethodContender(
                name=method.name, row=row, process=process, effort=effort, group=group
            )
            contender.error = error
            built.append(contender)
    return built


def _median(builds: Sequence[Seconds]) -> Row:
    """Return the seconds of the median build, by stage and in total; empty without builds."""
    if not builds:
        return {}
    middle = sorted(builds, key=lambda stages: sum(stages.values()))[len(builds) // 2]
    return dict(middle) | {"build_s": sum(middle.values()), "builds": len(builds)}


def _judge(judge: Judge, contender: MethodContender, _: int) -> None:
    """Measure the quality of a method's answers to all queries."""
    columns = judge.columns(*contender.process.remote.answer(judge.depth))
    is_deep = judge.depth > ANSWERS + 1  # one may be the query's own document
    contender.row |= columns if is_deep else without_deep(columns)


def without_deep(columns: Row) -> Row:
    """Return the columns without measures of more answers than were requested."""
    return {name: value for name, value in columns.items() if not name.startswith("recall@100")}


def _time(task: Task, name: str, contender: MethodContender, turn: int) -> None:
    """Time the queries of a round, one at a time; `name` is the suffix of their columns."""
    count = max(min(ROUND_QUERIES, len(task.queries) // ROUNDS), 1)
    start = turn * count % len(task.queries)
    contender.seconds[name] += contender.process.remote.latencies(ANSWERS, start, start + count)


def _rate(task: Task, contender: MethodContender, _: int) -> None:
    """Measure the throughput, and the memory: bytes that the structures report, and the growth."""
    process = contender.process.remote
    batch = min(BATCH_QUERIES, len(task.queries))
    contender.row["queries_per_s"] = process.throughput(ANSWERS, batch)
    footprint, growth = process.memory()
    contender.row |= {f"{name}_bytes": value for name, value in asdict(footprint).items()}
    if footprint.ram_row is not None:
        contender.row["compression"] = 4 * task.vectors.dim / footprint.ram_row
    count = len(task.vectors)
    contender.row["process_row_bytes"] = growth.private / count
    contender.row["mapped_row_bytes"] = growth.files / count


def _time_capped(task: Task, built: Sequence[MethodContender], cap: int) -> None:
    """Time queries of each method that fits; last, since the system may kill processes."""
    for turn in range(CAPPED_ROUNDS):
        for done, contender in enumerate(built, start=1):
            contender.row["cap_bytes"] = cap
            progress("capped", turn * len(built) + done, CAPPED_ROUNDS * len(built))
            if contender.error is not None or contender.group is None:
                continue
            try:
                contender.group.limit(cap)
                contender.prepare()
                _time(task, CAPPED, contender, turn)
            except InputError:  # it does not fit into memory, or was killed
                contender.seconds.pop(CAPPED, None)


def contenders(dim: int, rows: int, names: Sequence[str]) -> list[Method]:
    """Return the methods: float32, slimdex, and the named peers, which must be installed.

    slimdex uses the exact search's metric here (beta = gamma = 0), since its order is the
    reference for all; its default, which is better by labels, is measured too.
    """
    efforts = CANDIDATE_EFFORTS
    ours = [
        exact_method(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/64, whitened", Settings(part(dim, 2), kind="pq"), (CANDIDATES,)),
    ]
    kind = by_size(rows).name
    if kind != "pq":
        ours.append(Method(f"slimdex {kind}", Settings(part(dim, 2), 0.0, 0.0, kind), efforts))
    return [*ours, *map(Method.of_peer, names)]
