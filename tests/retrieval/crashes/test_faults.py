"""Real processes whose calls to the kernel go wrong: killed, cut short, refused.

What a kill leaves is decided by the calls made before it, and by nothing else: no file is changed
through a memory map. So a kill at a random call, before it, after it or after a random part of a
write's bytes, is as good as one at a random time, and none falls where nothing happens.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from slimdex.system.index_names import MANIFEST
from tests.chance import CHANCE, sweep
from tests.conftest import Report

from .fault_child import LAST, OPERATIONS, RESUMED
from .fault_trials import HALF, LOST, Lab, Trial, as_seen, names
from .faults import FAULTS, KILLS, Action, Fault, Forker, Kind, Outcome, compiled, read_trace
from .power_loss import ALL, Disk, Loss, losses

QUICK = "batches"
"""Operation that `make test` kills."""
TRIED = CHANCE.sample([*OPERATIONS], 3)  # replacing, waiting and most of the others
CALLS = 6
"""Calls of each operation at which it is killed, in a sample of them."""
RANDOM = CHANCE.count(200, 2)
"""Random kills of each operation, beside those at its calls."""
FAILURES, LOSSES = CHANCE.count(100, 4), CHANCE.count(200, 4)
"""Calls of each operation that fail; losses of power after others."""
AFTER_KILL, AFTER_FAULT = CHANCE.count(40, 2), CHANCE.count(20, 2)
"""Kills and failures that are followed by losses of power."""
EACH = CHANCE.count(5, 1)
"""Losses of power after each of these."""
WORKERS = CHANCE.count(3, 1)
"""More than cores: they wait for the disk, too."""
Point = tuple[Fault, int]
"""A fault, and at which of the calls that it is for."""
Found = tuple[Counter[str], list[str]]
"""Counts of what was tried, and a line for each fault."""
T = TypeVar("T")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory, if there is enough: it is the test that says what a disk does."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30:
        with TemporaryDirectory(dir=memory) as name:
            yield Path(name)
    else:
        yield tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def trials(folder: Path) -> Iterator[Callable[[str], Trial]]:
    try:
        library = compiled(folder)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    made: dict[str, Trial] = {}
    forkers = [Forker(library) for _ in range(WORKERS)]
    lab = Lab(folder, forkers)

    def trial(operation: str) -> Trial:
        if operation not in made:
            made[operation] = Trial(lab, operation)
        return made[operation]

    yield trial
    for forker in forkers:
        forker.end()


def tried(trial: Trial, points: Sequence[T], attempt: Callable[[T], Found], report: Report) -> None:
    """Attempt something at each point, and report what was done; fail if anything is wrong."""
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(attempt, points))
    counts, bad = Counter[str](), list[str]()
    for done, wrong in found:
        counts += done
        bad += wrong
    report(
        f"{trial.operation} of {len(trial.calls)} calls, seed {CHANCE.seed}: {dict(counts)}; "
        f"{trial.distinct} different folders; {len(bad)} with a fault of ours",
        **counts,
    )
    assert not bad, "\n".join(bad)


def where(trial: Trial, point: Point) -> str:
    """A fault, and the call at which it comes out."""
    fault, n = point
    call = [call for call in trial.calls if call.kind & fault.kinds][n - 1]
    forever = " on" if fault.forever else ""
    return (
        f"{fault.action.name} {fault.error or ''}{forever} at {n}, "
        f"{call.kind.name} {Path(call.path).name}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("operation", TRIED)
def test_no_call_passes_unseen(operation: str, trials: Callable[[str], Trial]) -> None:
    """Played again, the trace gives the very bytes that are on disk."""
    trial = trials(operation)
    disk = Disk.of(trial.base, trial.traced)
    for call in trial.calls:
        disk.play(call)
    folder = Path(trial.traced)
    assert disk.image(ALL) == {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
    columns = (".parquet.tmp", ".parquet")
    for endings in ((f"{MANIFEST}.tmp",), *([] if operation == "reencode" else [columns])):
        kinds = {call.kind for call in trial.calls if call.path.endswith(endings)}
        assert {Kind.WRITE, Kind.SYNC} <= kinds, endings


def test_killed_at_some_calls_nothing_is_lost(
    trials: Callable[[str], Trial], report: Report
) -> None:
    """A part of the next test that takes seconds."""
    check_kills(trials(QUICK), [], report)


@sweep
@pytest.mark.parametrize("operation", TRIED)
def test_killed_nothing_acknowledged_is_lost(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    """At every call, and at random ones."""
    trial, random = trials(operation), CHANCE.random(operation)

    def point() -> Point:
        share = random.random() ** 3  # the first bytes of a block or a header matter more
        return replace(random.choice(KILLS), share=share), random.randrange(len(trial.calls)) + 1

    check_kills(trial, [point() for _ in range(RANDOM)], report)


def check_kills(trial: Trial, more: list[Point], report: Report) -> None:
    """Kill at every call, or a sample of them, and at more points, some of which are killed again.

    As the next writer opens the index: it makes few calls, so that not all of these are met.
    """
    calls = CHANCE.sample(range(1, len(trial.calls) + 1), CALLS)
    points: list[Point] = [(KILLS[0], n) for n in calls]
    random = CHANCE.random(trial.operation, "again")
    again = {point: (random.choice(KILLS), random.randint(1, 8)) for point in more[::4]}
    encoded = dict[Point, int]()

    def attempt(point: Point) -> Found:
        folder = trial.lab.new(trial.base)
        outcome = trial.run(folder, *point)
        assert outcome.exit == -9, f"it ended before the kill at {point}"
        killed = point in again and trial.open(folder, *again[point]).exit == -9
        fault, encoded[point] = trial.found(folder, outcome.acknowledged)
        shutil.rmtree(folder)
        return Counter(kills=1 + killed), [f"{where(trial, point)}: {fault}"] if fault else []

    tried(trial, points + more, attempt, report)
    if trial.operation in RESUMED:
        texts = [encoded[point] for point in points]
        assert texts == sorted(texts, reverse=True), "what was encoded is never lost"
        assert len({*texts}) > 2, "some is kept"


def faulty(trial: Trial, random: Random) -> list[Point]:
    """Every call that each sort of fault is for, or some; then short writes of all sizes."""
    points: list[Point] = [
        (fault, n + 1)
        for fault in FAULTS
        for n in range(sum(bool(call.kind & fault.kinds) for call in trial.calls))
    ]
    chosen = random.sample(points, min(FAILURES, len(points)))
    short = [point for point in points if point[0].action == Action.SHORT]
    while len(chosen) < FAILURES:
        fault, n = random.choice(short)
        chosen.append((replace(fault, share=random.random()), n))
    return chosen


@sweep
@pytest.mark.parametrize("operation", TRIED)
def test_failing_calls_end_in_one_line_and_lose_nothing(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    trial = trials(operation)

    def attempt(point: Point) -> Found:
        folder = trial.lab.new(trial.base)
        outcome = trial.run(folder, *point)
        others = names(folder) ^ trial.expected_names(folder)
        others = {name for name in others if "/work-" not in name}  # removed after a day
        fault = fault_of(trial, *point, outcome, trial.look(folder), others)
        shutil.rmtree(folder)
        return Counter(faults=1), [f"{where(trial, point)}: {fault}"] if fault else []

    tried(trial, faulty(trial, CHANCE.random(operation)), attempt, report)


def after_loss(trial: Trial, loss: Loss, fault_in: Callable[[Path, int], str | None]) -> list[str]:
    """Write what a loss of power leaves to a folder, and report its faults."""
    folder = trial.lab.new()
    loss.write(folder)
    fault = fault_in(folder, loss.acknowledged)
    shutil.rmtree(folder)
    return [f"power lost after {loss.calls} calls, kept {loss.kept}: {fault}"] if fault else []


@sweep
@pytest.mark.parametrize("operation", TRIED)
def test_power_lost_nothing_acknowledged_is_lost(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    trial, random = trials(operation), CHANCE.random(operation)
    after = CHANCE.sample(range(len(trial.trace)), LOSSES)
    possible = losses(trial.base, trial.traced, trial.trace, after, random)

    def attempt(loss: Loss) -> Found:
        return Counter(power_losses=1), after_loss(trial, loss, trial.fault)

    tried(trial, random.sample(possible, min(LOSSES, len(possible))), attempt, report)


@sweep
@pytest.mark.parametrize("operation", TRIED)
def test_power_lost_after_a_kill(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    """Nothing is built on what a killed process left in the system's caches only."""
    trial = trials(operation)
    calls = range(1, len(trial.calls) + 1)

    def attempt(n: int) -> Found:
        folder = trial.lab.new(trial.base)
        traces = [folder.with_name(f"{folder.name}.{who}") for who in ("killed", "next")]
        trial.run(folder, KILLS[-1], n, str(traces[0]))
        trial.open(folder, trace=str(traces[1]))
        killed, opened = (read_trace(trace) for trace in traces)
        after = range(len(killed), len(killed + opened))
        random = CHANCE.random(operation, n)
        possible = losses(trial.base, str(folder), killed + opened, after, random)
        chosen = random.sample(possible, min(EACH, len(possible)))
        shutil.rmtree(folder)
        bad = [line for loss in chosen for line in after_loss(trial, loss, trial.fault)]
        counts = Counter(kills=1, power_losses=len(chosen))
        return counts, [f"killed at {n}: {line}" for line in bad]

    points = CHANCE.random(operation).sample(calls, min(AFTER_KILL, len(calls)))
    tried(trial, points, attempt, report)


@sweep
@pytest.mark.parametrize("operation", TRIED)
def test_power_lost_after_a_failed_call(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    """What could not be made durable does not count as if it were."""
    trial = trials(operation)

    def attempt(point: Point) -> Found:
        folder = trial.lab.new(trial.base)
        file = folder.with_name(f"{folder.name}.trace")
        trial.run(folder, *point, str(file))
        trace = read_trace(file)
        after = CHANCE.sample(range(len(trace)), 2 * EACH)
        random = CHANCE.random(operation, point)
        possible = losses(trial.base, str(folder), trace, after, random)
        chosen = random.sample(possible, min(2 * EACH, len(possible)))
        shutil.rmtree(folder)
        bad = [line for loss in chosen for line in after_loss(trial, loss, trial.fault_of_rest)]
        counts = Counter(faults=1, power_losses=len(chosen))
        return counts, [f"{where(trial, point)}: {line}" for line in bad]

    points = faulty(trial, CHANCE.random(operation, "power"))[:AFTER_FAULT]
    tried(trial, points, attempt, report)


def fault_of(
    trial: Trial, fault: Fault, at: int, outcome: Outcome, next_reader: Outcome, others: set[str]
) -> str | None:
    """What is wrong with what a process went through, if anything is."""
    if outcome.exit:
        return f"a traceback: {outcome.all('bug')[0]}"
    assert outcome.all("points") >= [at], "the fault did not happen"
    failed, acknowledged = outcome.all("failed"), outcome.acknowledged
    for error in failed + outcome.all("reopened"):
        if error["line"] is None:
            return f"a traceback: {error['error'].splitlines()[-1]}"
    if failed and fault.action == Action.SHORT:
        return f"a short write fails: {failed[0]['line']}"
    before, after = outcome.all("seen")
    is_known = before in trial.states[acknowledged : acknowledged + 2]
    if not is_known and not trial.is_between(before["documents"], acknowledged):
        return LOST if before in trial.states[:acknowledged] else HALF
    if after["documents"] != before["documents"] | as_seen({d.id: d for d in LAST}):
        return "the next addition is not what is seen"
    if next_reader.all("faults") != [[]]:
        return f"verify: {next_reader.all('faults')}"
    if next_reader.all("seen") != [after]:
        return "another process sees something else"
    if others:
        return f"files that nobody removes: {others}"
    return None
