"""`slimdex bench peers`: slimdex and popular alternatives, on the same vectors and queries.

All are built first, one after the other; then each answers a few queries in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from slimdex.indexes.codes.kinds import by_size
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.settings import Settings

from ..engines.engine import VECTORS, Seconds
from ..engines.measured import MeasuredEngine, engine_process
from ..engines.processes import Contender, Subprocess, WorkerError, in_turns, replace_rows
from ..engines.registry import Method, missing, names_of
from ..paired_measures import Judge, depth_for
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import ANSWERS, RESCORED, Task, part, sizes, uncompressed

QUERIES = 1000
"""Most queries of a set: some peers take 30 ms for one."""
ROUNDS, ROUND_QUERIES = 8, 40
BUILDS, SHORT_BUILD = 3, 12.0
"""Builds of each method, and seconds above which there is only one."""
BATCH_QUERIES = 500
"""Queries in one call for the throughput: some peers answer 30 per second."""


@dataclass(kw_only=True)
class _Asked(Contender[MeasuredEngine]):
    """A method at one effort; the efforts of a method share its process."""

    effort: int = 0

    def prepare(self) -> None:
        """Set the effort."""
        self.process.remote.set_effort(self.effort)


def contenders(dim: int, rows: int, names: Sequence[str] = ()) -> list[Method]:
    """float32 and slimdex, then the installed peers, or those of these names.

    slimdex uses the exact search's metric here (beta = gamma = 0), since its order is the
    reference for all; its default, which is better by labels, is measured too.
    """
    candidates = {50, 75, 100, 125, 150, 200, 300, 400, 600, 800, 1000, 1500}
    efforts = tuple(sorted(candidates | {max(rows // 100, 10)}))
    ours = [
        uncompressed(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/64, whitened", Settings(part(dim, 2), kind="pq"), (RESCORED,)),
    ]
    if (kind := by_size(rows).name) != "pq":
        ours.append(Method(f"slimdex {kind}", Settings(part(dim, 2), 0.0, 0.0, kind), efforts))
    peers = [name for name in names_of(VECTORS) if not names or name in names]
    absent = missing(peers)
    return [*ours, *(Method.of_peer(name) for name in peers if name not in absent)]


def measure_peers(
    task: Task, methods: Sequence[Method], results: ResultsFile, about: Row
) -> list[str]:
    """Write a row for each effort of each method, unless all exist; returns failures."""
    keys = {(m, e): _key(task, methods, m, e) for m in methods for e in m.efforts}
    if results.rows.keys() == set(keys.values()):
        return []
    depth = depth_for(task.dataset, ANSWERS)
    count = max(min(ROUND_QUERIES, len(task.queries) // ROUNDS), 1)

    def judge(asked: _Asked, _: int) -> None:
        columns = exact.columns(*asked.process.remote.answer(depth))
        asked.row |= {name: v for name, v in columns.items() if not name.startswith("recall@100")}

    def ask(asked: _Asked, turn: int) -> None:
        start = turn * count % len(task.queries)
        found = asked.process.remote.latencies(ANSWERS, start, start + count, threads)
        asked.seconds[name] += found

    def rate(asked: _Asked, _: int) -> None:
        batch = min(BATCH_QUERIES, len(task.queries))
        asked.row["queries_per_s"] = asked.process.remote.throughput(ANSWERS, batch)
        asked.row |= sizes(*asked.process.remote.memory(), task)

    with ExitStack() as stack:
        built = _built(task, methods, keys, stack)
        exact = Judge(task.dataset, *built[0].process.remote.answer(depth))
        in_turns(built, judge, "answers")
        for name, threads in (("one", 1), ("all", None)):
            in_turns(built, ask, f"{name} thread{'s' if threads is None else ''}", ROUNDS)
        in_turns(built, rate, "throughput")
    return replace_rows(results, built, about)


def _key(task: Task, methods: Sequence[Method], method: Method, effort: int) -> str:
    names = sorted(m.name for m in methods)  # figures beside other methods are not comparable
    return key_of(task.facts() | method.columns(effort) | {"with": names, "seed": 0})


def _built(
    task: Task, methods: Sequence[Method], keys: dict[tuple[Method, int], str], stack: ExitStack
) -> list[_Asked]:
    """Build all methods in turn, fast ones repeatedly; medians are kept."""
    processes: dict[Method, Subprocess[MeasuredEngine]] = {}
    seconds: dict[Method, list[Seconds]] = defaultdict(list)
    errors: dict[Method, str] = {}
    for turn in range(BUILDS):
        for done, method in enumerate(methods, start=1):
            progress("building", turn * len(methods) + done, BUILDS * len(methods))
            if method in errors or (turn and sum(seconds[method][0].values()) > SHORT_BUILD):
                continue
            if turn:
                processes[method].close()
            process = engine_process(method, task.vectors, task.queries)
            processes[method] = stack.enter_context(process)
            try:
                seconds[method].append(process.remote.build())
            except WorkerError as error:
                errors[method] = str(error)
    asked = []
    for method, effort in keys:
        row = {"key": keys[method, effort]} | task.facts() | method.columns(effort)
        row |= _median(seconds[method])
        own = _Asked(name=method.name, row=row, process=processes[method], effort=effort)
        own.error = errors.get(method)
        asked.append(own)
    return asked


def _median(builds: Sequence[Seconds]) -> Row:
    """Stages of the build of median time."""
    if not builds:
        return {}
    middle = sorted(builds, key=lambda stages: sum(stages.values()))[len(builds) // 2]
    return dict(middle) | {"build_s": sum(middle.values()), "builds": len(builds)}
