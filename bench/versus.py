"""`python -m bench peers`: slimdex beside what people use, on the same vectors and queries.

All are built first, one after the other. Then every one of them is asked a few queries in turn,
round after round, so that whatever else the machine does meets all alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from indexes.progress import Progress, silent
from indexes.settings import Settings
from retrieval.evaluation import latency

from .engines import Seconds
from .grid import part, uncompressed
from .machine import Resident
from .methods import Method
from .peers import PEERS, missing_peers
from .quality import Judge, depth_for
from .results import ResultsFile, Row, key_of
from .retrieval import ANSWERS, BATCH_QUERIES, Task, sizes
from .worker import Worker, WorkerError

ROUNDS, ROUND_QUERIES = 8, 40


@dataclass
class _Contender:
    """A method in its process, built."""

    method: Method
    worker: Worker
    seconds: Seconds
    growth: Resident


def contenders(dim: int, rows: int, names: Sequence[str] = ()) -> list[Method]:
    """float32 and slimdex, then the peers that are installed, or those of these names.

    slimdex keeps the exact search's metric here (beta = gamma = 0), since that is the order that
    all are held against; its default, which the labels like better, is there too.
    """
    efforts = tuple(sorted({50, 75, 100, 125, 150, 200, 300, 400, 600, max(rows // 100, 10)}))
    ours = [
        uncompressed(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0), efforts),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0), efforts),
        Method("slimdex whitened", Settings(part(dim, 2)), (Settings().candidates,)),
    ]
    missing = missing_peers()
    peers = [name for name in PEERS if name not in missing and (not names or name in names)]
    return [*ours, *map(Method.of_peer, peers)]


def measure_peers(
    task: Task,
    methods: Sequence[Method],
    results: ResultsFile,
    about: Row,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> None:
    """Append a row for each effort of each method, unless all have theirs already."""
    keys = {(m, e): _key(task, methods, m, e, seed) for m in methods for e in m.efforts}
    if all(key in results.rows for key in keys.values()):
        return
    with ExitStack() as stack:
        built = list(_built(task, methods, stack, progress))
        rows = _quality(task, built, seed, progress)
        for name, threads in (("one", 1), ("all", None)):
            for key, seconds in _interleaved(built, task, threads, progress).items():
                measured = latency(seconds).items()
                rows[key] |= {f"{measure}_{name}": value for measure, value in measured}
        for contender in built:
            _rate_and_size(contender, task, rows)
    for (method, effort), row in rows.items():
        facts = {"key": keys[method, effort], **task.facts(), **method.columns(effort)}
        results.append(facts | row | about)


def _key(task: Task, methods: Sequence[Method], method: Method, effort: int, seed: int) -> str:
    names = sorted(m.name for m in methods)  # figures of other company are another measurement
    return key_of(task.facts() | method.columns(effort) | {"with": names, "seed": seed})


def _built(
    task: Task, methods: Sequence[Method], stack: ExitStack, progress: Progress
) -> Iterator[_Contender]:
    for done, method in enumerate(methods, start=1):
        worker = stack.enter_context(Worker(method, task.vectors, task.queries))
        try:
            yield _Contender(method, worker, *worker.build())
        except WorkerError as error:
            progress(f"{method.name} failed, {error}", 1, 1)
        progress("building", done, len(methods))


def _quality(
    task: Task, built: Sequence[_Contender], seed: int, progress: Progress
) -> dict[tuple[Method, int], Row]:
    """Rows with what the answers are worth, by method and effort."""
    depth = depth_for(task.dataset, ANSWERS)
    exact = built[0].worker.answer(depth)
    judge = Judge(task.dataset, *exact, seed)
    rows: dict[tuple[Method, int], Row] = {}
    for done, contender in enumerate(built, start=1):
        for effort in contender.method.efforts:
            contender.worker.set_effort(effort)
            columns = judge.columns(*contender.worker.answer(depth))
            kept = {name: v for name, v in columns.items() if not name.startswith("recall@100")}
            rows[contender.method, effort] = kept
        progress("answers", done, len(built))
    return rows


def _interleaved(
    built: Sequence[_Contender], task: Task, threads: int | None, progress: Progress
) -> dict[tuple[Method, int], list[float]]:
    """Seconds of single queries, by method and effort."""
    out: dict[tuple[Method, int], list[float]] = defaultdict(list)
    count = min(ROUND_QUERIES, len(task.queries) // ROUNDS)
    stage = "one thread" if threads == 1 else "all threads"
    for turn in range(ROUNDS):
        start = turn * count
        for contender in built:
            for effort in contender.method.efforts:
                contender.worker.set_effort(effort)
                seconds = contender.worker.latencies(ANSWERS, start, start + count, threads)
                out[contender.method, effort] += seconds
        progress(stage, turn + 1, ROUNDS)
    return out


def _rate_and_size(contender: _Contender, task: Task, rows: dict[tuple[Method, int], Row]) -> None:
    built = dict(contender.seconds) | {"build_s": sum(contender.seconds.values())}
    for effort in contender.method.efforts:
        contender.worker.set_effort(effort)
        rate = contender.worker.throughput(ANSWERS, min(BATCH_QUERIES, len(task.queries)))
        rows[contender.method, effort] |= built | {"queries_per_s": rate}
        rows[contender.method, effort] |= sizes(*contender.worker.memory(), contender.growth, task)
