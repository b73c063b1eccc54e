"""`slimdex bench retrieval` and `slimdex bench peers`: methods over the vectors of a set.

Each method has a process of its own. `retrieval` measures a grid of slimdex's settings on every
set, one method after the other. Sizes are shares of the model's d dimensions, so that they are
comparable between models; a new reducer or kind of the catalog needs one line in the grid. `peers`
builds slimdex and other libraries, one after the other; then each answers a few queries in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from slimdex.errors import InputError
from slimdex.indexes.codes.kinds import by_size
from slimdex.indexes.options import CANDIDATES
from slimdex.indexes.settings import Settings
from slimdex.system.progress import progress

from ..datasets import Task
from ..engines.engine import CANDIDATE_EFFORTS, Seconds
from ..engines.measured import MeasuredEngine, engine_process
from ..engines.processes import Contender, WorkerError, in_turns, replace_rows
from ..engines.registry import Method
from ..machine import MemoryGroup
from ..paired_measures import Judge, depth_for
from ..rows import ResultsFile, Row, key_of

QUERIES = 1000
"""Most queries of a set beside peers, some of which take 30 ms for one."""
ROUNDS, ROUND_QUERIES = 8, 40
"""Rounds of queries timed one at a time, and queries in each."""
BUILDS, SHORT_BUILD = 3, 12.0
"""Builds of each method, and seconds above which there is only one."""
BATCH_QUERIES = 500
"""Queries in one call for the throughput: some peers answer 30 per second."""
CAPPED, CAPPED_ROUNDS = "capped", 2
"""Suffix of the columns of times under a memory limit; number of rounds, since a query may read the
whole index."""
ANSWERS = 10
"""Answers of a timed query."""
RESCORED = CANDIDATES
DEFAULTS = Settings(gamma=0.25, kind="pq", candidates=RESCORED)
"""Defaults of an index of up to 60,000 documents when its rows were measured, but for gamma, which
is 0 since; used for larger sets too so that rows compare."""
UNCOMPRESSED = "float32"
PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity")
"""No reducer."""
REDUCERS: dict[str, Settings] = {
    "slimdex": DEFAULTS,
    "PCA": Settings(beta=1.0, gamma=0.0),
    "rotation": Settings(beta=0.0, gamma=0.0),
    "BERT-whitening": Settings(beta=1.0, gamma=1.0),
    "truncate": Settings(beta=0.0, gamma=0.0, reducer="truncate"),
    "random projection": Settings(beta=0.0, gamma=0.0, reducer="random"),
}
"""Name -> way of reducing dimensions; the name also stands for its (beta, gamma)."""
OTHERS: dict[str, Settings] = {
    "all but the top": Settings(beta=0.0, gamma=0.0, reducer="all-but-the-top"),
    "tied autoencoder": Settings(beta=0.0, gamma=0.0, reducer="autoencoder"),
    "flow": Settings(beta=0.0, gamma=0.0, reducer="flow"),
}
"""The same, for half of the dimensions only."""
CURVE = ((1, 12), (1, 6), (1, 4), (1, 2), (2, 3))
"""k as shares of d."""


@dataclass(kw_only=True)
class _Asked(Contender[MeasuredEngine]):
    """A method at one effort; the efforts of a method share its process and its group."""

    effort: int
    group: MemoryGroup | None = None

    def prepare(self) -> None:
        """Set the effort."""
        self.process.remote.set_effort(self.effort)


Keys = Mapping[tuple[Method, int], str]
"""Method and effort -> key of their row."""


def measure_grid(task: Task, results: ResultsFile, about: Row, *, quick: bool = False) -> None:
    """Append the rows of the grid that are missing; `about` are columns of every row."""
    methods = grid(task.vectors.dim, len(task.vectors), quick=quick)
    stage = f"{task.dataset.name}, {task.model}"
    judge = None
    for done, method in enumerate(methods):
        every = {(method, effort): _key(task, method, effort) for effort in method.efforts}
        keys = {of: key for of, key in every.items() if _is_missing(results, key)}
        if keys:
            progress(stage, done, len(methods))
            judge = judge or _exact_judge(task)
            for asked in _measured(task, keys, judge, depth_for(task.dataset)):
                results.append(asked.measured() | about)
    progress(stage, len(methods), len(methods))


def _is_missing(results: ResultsFile, key: str) -> bool:
    """Return whether there is no row, or one that failed."""
    row = results.rows.get(key)
    return row is None or "error" in row


def _exact_judge(task: Task) -> Judge:
    with engine_process(uncompressed(task.vectors.dim), task.vectors, task.queries) as process:
        process.remote.build()
        return Judge(task.dataset, *process.remote.answer(depth_for(task.dataset)))


def measure_peers(
    task: Task, methods: Sequence[Method], results: ResultsFile, about: Row, cap: int | None = None
) -> list[str]:
    """Write a row for each effort of each method, unless all exist; returns failures.

    The first method is the uncompressed search. With a `cap` in bytes, queries are timed again
    while no process may take more. Rows of methods that don't fit have no such times.
    """
    # Figures beside other methods are not comparable.
    beside: Row = {"with": sorted(method.name for method in methods)}
    beside |= {} if cap is None else {"cap": cap}
    keys = {(m, e): _key(task, m, e, **beside) for m in methods for e in m.efforts}
    if results.rows.keys() == set(keys.values()):
        return []
    asked = _measured(task, keys, None, depth_for(task.dataset, ANSWERS), cap)
    return replace_rows(results, asked, about)


def _key(task: Task, method: Method, effort: int, **conditions: object) -> str:
    """Key of a row, from its vectors, its method and what it is measured beside."""
    return key_of(task.facts() | method.columns(effort) | {"seed": 0} | conditions)


def _measured(
    task: Task, keys: Keys, judge: Judge | None, depth: int, cap: int | None = None
) -> list[_Asked]:
    """Build all methods, and measure them in turns; without a judge, the first one is exact."""
    with ExitStack() as stack:
        built = _built(task, keys, stack, in_groups=cap is not None)
        judge = judge or Judge(task.dataset, *built[0].process.remote.answer(depth))
        in_turns(built, partial(_judge, judge, depth), "answers")
        in_turns(built, partial(_time, task, "one"), "one thread", ROUNDS)
        in_turns(built, partial(_rate, task), "throughput")
        if cap is not None:
            _time_capped(task, built, cap)
    return built


def _built(task: Task, keys: Keys, stack: ExitStack, *, in_groups: bool) -> list[_Asked]:
    """Build each method in a process of its own, fast ones repeatedly; the last process is kept."""
    built = list[_Asked]()
    for method in dict.fromkeys(method for method, _ in keys):
        progress("building", len(built), len(keys))
        group = stack.enter_context(MemoryGroup()) if in_groups else None
        builds = list[Seconds]()
        error = None
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
        for effort in (effort for of, effort in keys if of == method):
            row = {"key": keys[method, effort]} | task.facts() | method.columns(effort)
            row |= _median(builds)
            asked = _Asked(name=method.name, row=row, process=process, effort=effort, group=group)
            asked.error = error
            built.append(asked)
    return built


def _median(builds: Sequence[Seconds]) -> Row:
    """Stages of the build of median time."""
    if not builds:
        return {}
    middle = sorted(builds, key=lambda stages: sum(stages.values()))[len(builds) // 2]
    return dict(middle) | {"build_s": sum(middle.values()), "builds": len(builds)}


def _judge(judge: Judge, depth: int, asked: _Asked, _: int) -> None:
    columns = judge.columns(*asked.process.remote.answer(depth))
    is_deep = depth > ANSWERS + 1  # one may be the query's own document
    asked.row |= {n: v for n, v in columns.items() if is_deep or not n.startswith("recall@100")}


def _time(task: Task, name: str, asked: _Asked, turn: int) -> None:
    count = max(min(ROUND_QUERIES, len(task.queries) // ROUNDS), 1)
    start = turn * count % len(task.queries)
    asked.seconds[name] += asked.process.remote.latencies(ANSWERS, start, start + count)


def _rate(task: Task, asked: _Asked, _: int) -> None:
    """Measure the throughput, and the memory: bytes that the structures report, and the growth."""
    process = asked.process.remote
    batch = min(BATCH_QUERIES, len(task.queries))
    asked.row["queries_per_s"] = process.throughput(ANSWERS, batch)
    footprint, growth = process.memory()
    asked.row |= {f"{name}_bytes": value for name, value in asdict(footprint).items()}
    if footprint.ram_row is not None:
        asked.row["compression"] = 4 * task.vectors.dim / footprint.ram_row
    count = len(task.vectors)
    asked.row["process_row_bytes"] = growth.own / count
    asked.row["mapped_row_bytes"] = growth.files / count


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


def contenders(dim: int, rows: int, names: Sequence[str]) -> list[Method]:
    """float32 and slimdex, then peers, which are installed.

    slimdex uses the exact search's metric here (beta = gamma = 0), since its order is the
    reference for all; its default, which is better by labels, is measured too.
    """
    efforts = CANDIDATE_EFFORTS
    ours = [
        uncompressed(dim),
        Method("slimdex 1/64", Settings(part(dim, 2), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/128", Settings(part(dim, 4), 0.0, 0.0, "pq"), efforts),
        Method("slimdex 1/64, whitened", Settings(part(dim, 2), kind="pq"), (RESCORED,)),
    ]
    kind = by_size(rows).name
    if kind != "pq":
        ours.append(Method(f"slimdex {kind}", Settings(part(dim, 2), 0.0, 0.0, kind), efforts))
    return [*ours, *map(Method.of_peer, names)]


def results_file(task: Task, experiment: str, folder: Path) -> ResultsFile:
    """Return the file of rows of an experiment, set and model."""
    name = re.sub(r"[^\w.]+", "-", f"{experiment}-{task.dataset.name}-{task.model}").strip("-")
    return ResultsFile(folder / f"{name}.jsonl")


def uncompressed(dim: int) -> Method:
    """Exact float32 search, the reference for all methods."""
    return _method(UNCOMPRESSED, PLAIN, dim, "flat")


def grid(dim: int, rows: int, *, quick: bool = False) -> list[Method]:
    """Methods for `rows` vectors of `dim` dimensions, uncompressed first."""
    ways = (REDUCERS | OTHERS).items()
    reduced = [_method(name, like, part(dim, 2), "pq", RESCORED) for name, like in ways]
    found = [uncompressed(dim), *_usual(dim, rows), *reduced, *(() if quick else _more(dim))]
    return [*{repr(method): method for method in found}.values()]


def _usual(dim: int, rows: int) -> Iterator[Method]:
    """Floats, scalar and binary quantisers without reduction; slimdex at 1/64 to 1/192."""
    yield _method("float16", PLAIN, dim, "fp16")
    yield _method("int8", PLAIN, dim, "sq8")
    yield _method("RaBitQ", PLAIN, dim, "rabitq", RESCORED)
    efforts = (0, *sorted({RESCORED, max(rows // 100, 10)}))  # 1% of the rows
    for of in (2, 3, 4, 6):
        settings = Settings(k=part(dim, of), gamma=DEFAULTS.gamma, kind="pq")
        yield Method("slimdex", settings, efforts)


def _more(dim: int) -> Iterator[Method]:
    """Quality against k alone, other index kinds, codes alone, and OPQ, which trains for long."""
    half = part(dim, 2)
    quarter = part(dim, 4)
    for share, of in CURVE:
        for name, settings in REDUCERS.items():
            if name != "rotation":  # it differs from PCA by the mean only
                yield _method(name, settings, part(dim, of, share), "flat")
    for kind in ("rabitq", "sq4", "sq8", "fp16", "ivf-pq", "hnsw"):
        yield _method("slimdex", DEFAULTS, half, kind, RESCORED)
    sizes = {8: ["sq8"], 16: ["sq4", f"PQ{half}x4fs"], 32: [f"PQ{half // 2}x4fs", f"PQ{half // 4}"]}
    for kind in (kind for kinds in sizes.values() for kind in kinds):
        yield _method("slimdex", DEFAULTS, half, kind)
    for kind in ("sq8", "sq4"):  # 1/16, 1/32
        yield _method("slimdex", DEFAULTS, quarter, kind)
    yield _method("int4", PLAIN, dim, "sq4")
    for most in (half, quarter):  # 1/16, 1/32
        yield _method("PQ", PLAIN, dim, f"PQ{_divisor(dim, most)}x4fs")
    for of in (16, 8):  # 1/64, 1/32
        groups = _divisor(dim, dim // of)
        yield _method("OPQ+PQ", PLAIN, dim, f"OPQ{groups},PQ{groups}", RESCORED)


def part(dim: int, of: int, share: int = 1) -> int:
    """Return the fraction share/of of the dimensions, as a multiple of 4, which `pq` requires.

    >>> part(384, 2), part(384, 3, share=2), part(312, 8)
    (192, 256, 36)
    """
    return max(dim * share // of // 4 * 4, 4)


def _divisor(dim: int, most: int) -> int:
    return max(m for m in range(1, max(most, 1) + 1) if dim % m == 0)


def _method(name: str, like: Settings, k: int, kind: str, rescored: int = 0) -> Method:
    """Make a method with some settings' reducer, by codes alone and, if asked, rescored."""
    settings = Settings(k, like.beta, like.gamma, kind, rescored, like.reducer)
    return Method(name, settings, (0, rescored) if rescored else (0,))
