"""`slimdex bench peers`: slimdex and popular alternatives, on the same vectors and queries.

All are built first, one after the other; then each answers a few queries in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from slimdex.indexes.codes.kinds import by_size
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.settings import Settings

from ..engines.engine import VECTORS, Seconds
from ..engines.measured import MeasuredEngine, engine_process
from ..engines.processes import Contender, Subprocess, WorkerError, in_turns, replace_rows
from ..engines.registry import CANDIDATES, Method, missing, names_of
from ..memory_cap import MemoryGroup
from ..paired_measures import Judge, depth_for
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import ANSWERS, RESCORED, Task, part, sizes, uncompressed

QUERIES = 1000
"""Most queries of a set: some peers take 30 ms for one."""
ROUNDS, ROUND_QUERIES = 8, 40
BUILDS, SHORT_BUILD = 3, 12.0
"""Builds of each method, and seconds above which there is only one."""
CAPPED, CAPPED_ROUNDS = "capped", 2
"""Suffix of the columns of times under a memory limit; number of rounds, since a query may read the
whole index."""
BATCH_QUERIES = 500
"""Queries in one call for the throughput: some peers answer 30 per second."""


@dataclass(kw_only=True)
class _Asked(Contender[MeasuredEngine]):
    """A method at one effort; the efforts of a method share its process and its group."""

    effort: int = 0
    group: MemoryGroup | None = None

    def prepare(self) -> None:
        """Set the effort."""
        self.process.remote.set_effort(self.effort)


def contenders(dim: int, rows: int, names: Sequence[str] = ()) -> list[Method]:
    """float32 and slimdex, then the installed peers, or those of these names.

    slimdex uses the exact search's metric here (beta = gamma = 0), since its order is the
    reference for all; its default, which is better by labels, is measured too.
    """
    ours = [
        uncompressed(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0, "pq"), CANDIDATES),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0, "pq"), CANDIDATES),
        Method("slimdex 1/64, whitened", Settings(part(dim, 2), kind="pq"), (RESCORED,)),
    ]
    if (kind := by_size(rows).name) != "pq":
        ours.append(Method(f"slimdex {kind}", Settings(part(dim, 2), 0.0, 0.0, kind), CANDIDATES))
    peers = [name for name in names_of(VECTORS) if not names or name in names]
    absent = missing(peers)
    return [*ours, *(Method.of_peer(name) for name in peers if name not in absent)]


def measure_peers(
    task: Task, methods: Sequence[Method], results: ResultsFile, about: Row, cap: int | None = None
) -> list[str]:
    """Write a row for each effort of each method, unless all exist; returns failures.

    With a `cap` in bytes, queries are timed again while no process may take more. Rows of methods
    that don't fit have no such times.
    """
    keys = {(m, e): _key(task, methods, m, e, cap) for m in methods for e in m.efforts}
    if results.rows.keys() == set(keys.values()):
        return []
    depth = depth_for(task.dataset, ANSWERS)
    with ExitStack() as stack:
        built = _built(task, methods, keys, stack, in_groups=cap is not None)
        exact = Judge(task.dataset, *built[0].process.remote.answer(depth))
        in_turns(built, partial(_judge, exact, depth), "answers")
        in_turns(built, partial(_time, task, "one"), "one thread", ROUNDS)
        in_turns(built, partial(_rate, task), "throughput")
        if cap is not None:
            _time_capped(task, built, cap)
    return replace_rows(results, built, about)


def _judge(exact: Judge, depth: int, asked: _Asked, _: int) -> None:
    columns = exact.columns(*asked.process.remote.answer(depth))
    asked.row |= {name: v for name, v in columns.items() if not name.startswith("recall@100")}


def _time(task: Task, name: str, asked: _Asked, turn: int) -> None:
    count = max(min(ROUND_QUERIES, len(task.queries) // ROUNDS), 1)
    start = turn * count % len(task.queries)
    asked.seconds[name] += asked.process.remote.latencies(ANSWERS, start, start + count)


def _rate(task: Task, asked: _Asked, _: int) -> None:
    batch = min(BATCH_QUERIES, len(task.queries))
    asked.row["queries_per_s"] = asked.process.remote.throughput(ANSWERS, batch)
    asked.row |= sizes(*asked.process.remote.memory(), task)


def _time_capped(task: Task, built: Sequence[_Asked], cap: int) -> None:
    """Time queries of each method that fits; last, since the system may kill processes."""
    for turn in range(CAPPED_ROUNDS):
        for done, asked in enumerate(built, start=1):
            asked.row["cap_bytes"] = cap
            progress("capped", turn * len(built) + done, CAPPED_ROUNDS * len(built))
            if asked.error is not None or asked.group is None:
                continue
            try:
                asked.group.limit(cap)
                asked.prepare()
                _time(task, CAPPED, asked, turn)
            except InputError:
                asked.seconds.pop(CAPPED, None)


def _key(
    task: Task, methods: Sequence[Method], method: Method, effort: int, cap: int | None
) -> str:
    names = sorted(m.name for m in methods)  # figures beside other methods are not comparable
    conditions = {"with": names, "seed": 0} | ({} if cap is None else {"cap": cap})
    return key_of(task.facts() | method.columns(effort) | conditions)


def _built(
    task: Task,
    methods: Sequence[Method],
    keys: dict[tuple[Method, int], str],
    stack: ExitStack,
    *,
    in_groups: bool,
) -> list[_Asked]:
    """Build all methods in turn, fast ones repeatedly; medians are kept."""
    processes: dict[Method, Subprocess[MeasuredEngine]] = {}
    groups = {m: stack.enter_context(MemoryGroup()) for m in methods if in_groups}
    seconds: dict[Method, list[Seconds]] = defaultdict(list)
    errors: dict[Method, str] = {}
    for turn in range(BUILDS):
        for done, method in enumerate(methods, start=1):
            progress("building", turn * len(methods) + done, BUILDS * len(methods))
            if method in errors or (turn and sum(seconds[method][0].values()) > SHORT_BUILD):
                continue
            if turn:
                processes[method].close()
            group = groups[method].folder if method in groups else None
            process = engine_process(method, task.vectors, task.queries, group)
            processes[method] = stack.enter_context(process)
            try:
                seconds[method].append(process.remote.build())
            except WorkerError as error:
                errors[method] = str(error)
    asked = []
    for method, effort in keys:
        row = {"key": keys[method, effort]} | task.facts() | method.columns(effort)
        row |= _median(seconds[method])
        own = _Asked(
            name=method.name,
            row=row,
            process=processes[method],
            effort=effort,
            group=groups.get(method),
        )
        own.error = errors.get(method)
        asked.append(own)
    return asked


def _median(builds: Sequence[Seconds]) -> Row:
    """Stages of the build of median time."""
    if not builds:
        return {}
    middle = sorted(builds, key=lambda stages: sum(stages.values()))[len(builds) // 2]
    return dict(middle) | {"build_s": sum(middle.values()), "builds": len(builds)}
