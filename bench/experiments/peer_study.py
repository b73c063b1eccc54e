"""`slimdex bench peers`: slimdex beside what people use, on the same vectors and queries.

All are built first, one after the other. Then every one of them is asked a few queries in turn,
round after round, so that whatever else the machine does meets all alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from slimdex.indexes.progress import progress
from slimdex.indexes.settings import Settings
from slimdex.retrieval.evaluation import latency

from ..data.paired_measures import Judge, depth_for
from ..engines.engine import Seconds
from ..engines.engine_process import Worker
from ..engines.engine_specs import PEERS, Method, missing_peers
from ..engines.remote_object import WorkerError
from ..rows import ResultsFile, Row, key_of
from .measured_methods import RESCORED, part, uncompressed
from .retrieval_study import ANSWERS, Task, sizes

ROUNDS, ROUND_QUERIES = 8, 40
BUILDS, SHORT_BUILD = 3, 12.0
"""How often each is built, unless that takes longer than so many seconds."""
BATCH_QUERIES = 500
"""Queries asked in one call for the throughput: some peers answer 30 a second."""


@dataclass
class _Contender:
    """A method in its process, and its rows by effort; with an error it is out of the round."""

    method: Method
    worker: Worker
    rows: dict[int, Row]
    error: str | None = None

    def ask(self, step: Callable[[_Contender, int], Row]) -> None:
        """Let `step` add columns to the row of each effort."""
        try:
            for effort in () if self.error else self.method.efforts:
                self.worker.set_effort(effort)
                self.rows[effort] |= step(self, effort)
        except WorkerError as error:
            self.error = str(error)


def contenders(dim: int, rows: int, names: Sequence[str] = ()) -> list[Method]:
    """float32 and slimdex, then the peers that are installed, or those of these names.

    slimdex keeps the exact search's metric here (beta = gamma = 0), since that is the order that
    all are held against; its default, which the labels like better, is there too.
    """
    candidates = {50, 75, 100, 125, 150, 200, 300, 400, 600, max(rows // 100, 10)}
    efforts = tuple(sorted(candidates))
    ours = [
        uncompressed(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/64, whitened", Settings(part(dim, 2), kind="pq"), (RESCORED,)),
    ]
    missing = missing_peers()
    peers = [name for name in PEERS if name not in missing and (not names or name in names)]
    return [*ours, *map(Method.of_peer, peers)]


def measure_peers(
    task: Task, methods: Sequence[Method], results: ResultsFile, about: Row, *, seed: int = 0
) -> list[str]:
    """Write a row for each effort of each method, unless all are there; returns what failed.

    Figures are comparable within a run only, so that a run replaces all rows of the one before.
    """
    keys = {(m, e): _key(task, methods, m, e, seed) for m in methods for e in m.efforts}
    if results.rows.keys() == set(keys.values()):
        return []
    with ExitStack() as stack:
        built = _built(task, methods, stack)
        judge = _judge(task, built[0], seed)
        for done, contender in enumerate(built, start=1):
            contender.ask(lambda c, _: _quality(c, task, judge))
            progress("answers", done, len(built))
        for name, threads in (("one", 1), ("all", None)):
            _interleave(built, task, name, threads)
        for contender in built:
            contender.ask(lambda c, _: _rate_and_size(c, task))
    rows = []
    for contender in built:
        for effort, row in contender.rows.items():
            method = contender.method
            facts = {"key": keys[method, effort], **task.facts(), **method.columns(effort)}
            failed = {"error": contender.error} if contender.error else {}
            rows.append(facts | row | failed | about)
    results.replace(rows)
    return [f"{c.method.name} failed: {c.error}" for c in built if c.error]


def _key(task: Task, methods: Sequence[Method], method: Method, effort: int, seed: int) -> str:
    names = sorted(m.name for m in methods)  # figures of other company are another measurement
    return key_of(task.facts() | method.columns(effort) | {"with": names, "seed": seed})


def _built(task: Task, methods: Sequence[Method], stack: ExitStack) -> list[_Contender]:
    """All methods built in turn, the short builds again in further rounds; medians are kept."""
    built: list[_Contender] = []
    seconds: dict[Method, list[Seconds]] = defaultdict(list)
    total = len(methods) * BUILDS
    for round_ in range(BUILDS):
        for i, method in enumerate(methods):
            progress("building", round_ * len(methods) + i + 1, total)
            if round_ == 0:
                worker = stack.enter_context(Worker(method, task.vectors, task.queries))
                built.append(_Contender(method, worker, {effort: {} for effort in method.efforts}))
            elif built[i].error or sum(seconds[method][0].values()) > SHORT_BUILD:
                continue
            else:
                built[i].worker.close()
                built[i].worker = stack.enter_context(Worker(method, task.vectors, task.queries))
            try:
                seconds[method].append(built[i].worker.build())
            except WorkerError as error:
                built[i].error = str(error)
    for contender in built:
        for row in contender.rows.values():
            row |= _median(seconds[contender.method])
    return built


def _median(builds: Sequence[Seconds]) -> Row:
    """The stages of the build that was neither the fastest nor the slowest."""
    if not builds:
        return {}
    middle = sorted(builds, key=lambda stages: sum(stages.values()))[len(builds) // 2]
    return dict(middle) | {"build_s": sum(middle.values()), "builds": len(builds)}


def _judge(task: Task, exact: _Contender, seed: int) -> Judge:
    return Judge(task.dataset, *exact.worker.answer(depth_for(task.dataset, ANSWERS)), seed)


def _quality(contender: _Contender, task: Task, judge: Judge) -> Row:
    columns = judge.columns(*contender.worker.answer(depth_for(task.dataset, ANSWERS)))
    return {name: v for name, v in columns.items() if not name.startswith("recall@100")}


def _interleave(built: Sequence[_Contender], task: Task, name: str, threads: int | None) -> None:
    """Single queries: each contender gets a few of them in turn, round after round."""
    seconds: dict[tuple[Method, int], list[float]] = defaultdict(list)
    count = max(min(ROUND_QUERIES, len(task.queries) // ROUNDS), 1)
    for turn in range(ROUNDS):
        start = turn * count % len(task.queries)

        def time_some(contender: _Contender, effort: int, start: int = start) -> Row:
            found = contender.worker.latencies(ANSWERS, start, start + count, threads)
            seconds[contender.method, effort] += found
            return {}

        for contender in built:
            contender.ask(time_some)
        progress("one thread" if threads == 1 else "all threads", turn + 1, ROUNDS)
    for (method, effort), found in seconds.items():
        row = next(c.rows[effort] for c in built if c.method == method)
        row |= {f"{measure}_{name}": value for measure, value in latency(found).items()}


def _rate_and_size(contender: _Contender, task: Task) -> Row:
    rate = contender.worker.throughput(ANSWERS, min(BATCH_QUERIES, len(task.queries)))
    return {"queries_per_s": rate} | sizes(*contender.worker.memory(), task)
