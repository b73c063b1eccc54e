"""Real processes whose calls to the kernel go wrong: killed, cut short, refused.

What a kill leaves is decided by the calls made before it, and by nothing else: no file is changed
through a memory map. So a kill at a random call, before it, after it or after a random part of a
write's bytes, is as good as one at a random time, and none falls where nothing happens.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from slimdex.retrieval.atomic_files import MANIFEST
from tests.chance import CHANCE, spread, sweep
from tests.conftest import Report

from .fault_child import INDEX, LAST, OPERATIONS
from .fault_trials import HALF, LOST, Lab, Trial, as_seen, names
from .faults import FAULTS, KILLS, Action, Fault, Forker, Kind, Outcome, compiled, read_trace
from .power_loss import ALL, Disk, Loss, losses

SEED = CHANCE.seed
RANDOM = int(os.environ.get("SLIMDEX_FAULTS", CHANCE.count(200, 10)))
"""Random kills of each operation, beside those at its calls."""
STEPS = 10
"""Calls of each change that every run of `make test` tries."""
CALLS = 8
"""Calls of each operation at which it is killed, in a sample of them."""
FAILURES = RANDOM // 2
"""Calls of each operation that fail."""
WORKERS = CHANCE.count(3, 2)
"""More than cores: they wait for the disk, too."""

AFTER_KILL, AFTER_FAULT = 5, 10
"""Losses of power after each of some kills, or failures."""
KILLED = KILLS[-1]
"""After the call."""
BEFORE = f"{INDEX}/before-N.bin"
CHANGES = [operation for operation in OPERATIONS if operation != "session"]
QUICK = "add"
"""The change that `make test` kills."""
Point = tuple[Fault, int]


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
    with ExitStack() as stack:
        lab = Lab(folder, [stack.enter_context(Forker(library)) for _ in range(WORKERS)])

        def trial(operation: str) -> Trial:
            if operation not in made:
                made[operation] = Trial(lab, operation)
            return made[operation]

        yield trial


def at_calls(trial: Trial) -> list[Point]:
    """At every call, or a sample of them."""
    if trial.operation == "session":  # its changes are killed one by one, too
        return []
    return [(KILLS[0], n) for n in CHANCE.sample(range(1, len(trial.calls) + 1), CALLS)]


def at_steps(trial: Trial) -> list[Point]:
    """At some calls of different sorts, in turns before, in the middle and after."""
    sorts = {(call.kind, Path(call.path).name): n + 1 for n, call in enumerate(trial.calls)}
    steps = spread(sorted(sorts.values()), STEPS)
    return [(KILLS[i % len(KILLS)], n) for i, n in enumerate(steps)]


def at_random_calls(trial: Trial, random: Random) -> list[Point]:
    def point() -> Point:
        share = random.random() ** 3  # the first bytes of a block or a header matter more
        return replace(random.choice(KILLS), share=share), random.randrange(len(trial.calls)) + 1

    return [point() for _ in range(RANDOM)]


def faulty(trial: Trial, random: Random) -> list[tuple[str, Point]]:
    """Every call that each sort of fault is for, or some; then short writes of all sizes."""
    points = [
        (name, (fault, n + 1))
        for name, fault in FAULTS.items()
        for n in range(sum(bool(call.kind & fault.kinds) for call in trial.calls))
    ]
    chosen = random.sample(points, min(FAILURES, len(points)))
    short = [(name, point) for name, point in points if point[0].action == Action.SHORT]
    while len(chosen) < FAILURES:
        name, (fault, n) = random.choice(short)
        chosen.append((name, (replace(fault, share=random.random()), n)))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
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
    adds = operation not in ("delete", "reduce")
    for ending in (f"{MANIFEST}.tmp", *([".duckdb.tmp"] if adds else [])):
        kinds = {call.kind for call in trial.calls if call.path.endswith(ending)}
        assert {Kind.WRITE, Kind.SYNC} <= kinds, ending


def test_killed_at_some_steps_nothing_is_lost(
    trials: Callable[[str], Trial], report: Report
) -> None:
    """A part of the next test that takes seconds."""
    trial = trials(QUICK)
    points = at_steps(trial)
    deaths = Deaths(trial, points)
    report(f"{QUICK}: killed at {len(points)} of {len(trial.calls)} calls; {deaths.counts}")
    assert not deaths.bad, described(trial, deaths.bad)


@sweep
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_nothing_acknowledged_is_lost(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    trial, random = trials(operation), CHANCE.random(operation)
    points = at_calls(trial) + at_random_calls(trial, random)
    twice = {
        point: (random.choice(KILLS), random.randint(1, 8)) for point in points[-RANDOM // 4 :]
    }
    deaths = Deaths(trial, points, twice)
    report(
        f"{operation}, seed {SEED}: killed {len(points)} times, at {len(points) - RANDOM} of "
        f"{len(trial.calls)} calls and {RANDOM} times at random, {sum(deaths.again)} of "
        f"them again as the next writer opened; {deaths.counts}",
        kills=len(points) + sum(deaths.again),
    )
    assert not deaths.bad, described(trial, deaths.bad)


class Deaths:
    """What is wrong after a kill at each of some points, and after a second one at some."""

    def __init__(
        self, trial: Trial, points: list[Point], twice: dict[Point, Point] | None = None
    ) -> None:
        self.trial, self.twice, self.again = trial, twice or {}, list[bool]()
        with ThreadPoolExecutor(WORKERS) as pool:
            found = list(zip(points, pool.map(self._attempt, points), strict=True))
        self.bad = [(point, fault) for point, fault in found if fault]

    def _attempt(self, point: Point) -> str | None:
        folder = self.trial.lab.new(self.trial.base)
        outcome = self.trial.run(folder, *point)
        assert outcome.exit == -9, f"it ended before the kill at {point}"
        if (again := self.twice.get(point)) is not None:  # more points than calls: not all are met
            self.again.append(self.trial.open(folder, *again).exit == -9)
        fault = self.trial.fault(folder, outcome.acknowledged)
        shutil.rmtree(folder)
        return fault

    @property
    def counts(self) -> str:
        lost, half = (sum(fault == sort for _, fault in self.bad) for sort in (LOST, HALF))
        return (
            f"{self.trial.distinct} different folders; "
            f"{lost} acknowledged lost, {half} half-written states visible"
        )


@sweep
@pytest.mark.parametrize("operation", CHANGES)
def test_failing_calls_end_in_one_line_and_lose_nothing(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    trial, random = trials(operation), CHANCE.random(operation)
    points = faulty(trial, random)
    reopened = Counter[str]()

    def attempt(point: Point) -> str | None:
        folder = trial.lab.new(trial.base)
        outcome = trial.run(folder, *point)
        reopened[str(bool(outcome.all("reopened")))] += 1
        fault = fault_of(trial, *point, outcome, trial.look(folder), names(folder))
        shutil.rmtree(folder)
        return fault

    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(zip(points, pool.map(attempt, [point for _, point in points]), strict=True))
    bad = [(point, fault) for (_, point), fault in found if fault]
    sorts = Counter(name for name, _ in points)
    report(
        f"{operation}, seed {SEED}: {len(points)} faults, "
        + ", ".join(f"{number} {name}" for name, number in sorts.items())
        + f"; reopened after {reopened['True']}; {len(bad)} with a fault of ours",
        faults=len(points),
    )
    assert not bad, described(trial, bad)


@sweep
@pytest.mark.parametrize("operation", CHANGES)
def test_power_lost_nothing_acknowledged_is_lost(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    trial, random = trials(operation), CHANCE.random(operation)
    possible = losses(trial.base, trial.traced, trial.trace, random)
    chosen = random.sample(possible, min(RANDOM, len(possible)))

    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda loss: after_loss(trial, loss, trial.fault), chosen))
    bad = [fault for fault in found if fault]
    lost, half = (sum(fault.endswith(sort) for fault in bad) for sort in (LOST, HALF))
    report(
        f"{operation}, seed {SEED}: power lost {len(chosen)} times, of {len(possible)} outcomes "
        f"that differ after {len(trial.calls)} calls; {lost} with acknowledged documents lost, "
        f"{half} with half-written states visible",
        power_losses=len(chosen),
    )
    assert not bad, "\n".join(bad)


@sweep
@pytest.mark.parametrize("operation", CHANGES)
def test_power_lost_after_a_kill(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    """Nothing is built on what a killed process left in the system's caches only."""
    trial = trials(operation)
    calls = range(1, len(trial.calls) + 1)

    def attempt(n: int) -> tuple[int, list[str]]:
        folder = trial.lab.new(trial.base)
        traces = [folder.with_name(f"{folder.name}.{who}") for who in ("killed", "next")]
        trial.run(folder, KILLED, n, str(traces[0]))
        trial.open(folder, trace=str(traces[1]))
        killed, opened = (read_trace(trace) for trace in traces)
        random = CHANCE.random(operation, n)
        possible = losses(trial.base, str(folder), killed + opened, random, len(killed))
        chosen = random.sample(possible, min(AFTER_KILL, len(possible)))
        shutil.rmtree(folder)
        found = [after_loss(trial, loss, trial.fault) for loss in chosen]
        return len(chosen), [f"killed at {n}: {fault}" for fault in found if fault]

    with ThreadPoolExecutor(WORKERS) as pool:
        points = CHANCE.random(operation).sample(calls, min(RANDOM // AFTER_KILL, len(calls)))
        found = list(pool.map(attempt, points))
    bad = [fault for _, faults in found for fault in faults]
    lost = sum(tried for tried, _ in found)
    report(
        f"{operation}, seed {SEED}: killed {len(found)} times, and power lost "
        f"{lost} times as the next writer opened; {len(bad)} bad",
        kills=len(found),
        power_losses=lost,
    )
    assert not bad, "\n".join(bad)


@sweep
@pytest.mark.parametrize("operation", CHANGES)
def test_power_lost_after_a_failed_call(
    operation: str, trials: Callable[[str], Trial], report: Report
) -> None:
    """What could not be made durable does not count as if it were."""
    trial, random = trials(operation), CHANCE.random(operation)

    def attempt(point: tuple[str, Point]) -> tuple[int, list[str]]:
        name, (fault, n) = point
        folder = trial.lab.new(trial.base)
        trace = folder.with_name(f"{folder.name}.trace")
        trial.run(folder, fault, n, str(trace))
        random = CHANCE.random(operation, point)
        possible = losses(trial.base, str(folder), read_trace(trace), random)
        chosen = random.sample(possible, min(AFTER_FAULT, len(possible)))
        shutil.rmtree(folder)
        found = [after_loss(trial, loss, trial.fault_of_rest) for loss in chosen]
        return len(chosen), [f"{name} at {n}: {fault}" for fault in found if fault]

    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(attempt, faulty(trial, random)[: RANDOM // AFTER_FAULT]))
    bad = [fault for _, faults in found for fault in faults]
    lost = sum(tried for tried, _ in found)
    report(
        f"{operation}, seed {SEED}: {len(found)} faults, and power lost "
        f"{lost} times after them; {len(bad)} bad",
        faults=len(found),
        power_losses=lost,
    )
    assert not bad, "\n".join(bad)


def after_loss(trial: Trial, loss: Loss, fault_in: Callable[[Path, int], str | None]) -> str | None:
    """What is wrong with what a loss of power leaves, if anything is, and where it was lost."""
    folder = trial.lab.new()
    loss.write(folder)
    fault = fault_in(folder, loss.acknowledged)
    shutil.rmtree(folder)
    return f"power lost after {loss.calls} calls, kept {loss.kept}: {fault}" if fault else None


def fault_of(
    trial: Trial, fault: Fault, at: int, outcome: Outcome, next_reader: Outcome, left: set[str]
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
    if before not in trial.states[acknowledged : acknowledged + 2]:
        return LOST if before in trial.states[:acknowledged] else HALF
    if after["documents"] != before["documents"] | as_seen({d.id: d for d in LAST}):
        return "the next addition is not what is seen"
    if next_reader.all("faults") != [[]]:
        return f"verify: {next_reader.all('faults')}"
    if next_reader.all("seen") != [after]:
        return "another process sees something else"
    if others := (left ^ trial.names) - {BEFORE}:  # the next addition can be undone
        return f"files that nobody removes: {others}"
    return None


def described(trial: Trial, bad: list[tuple[Point, str]]) -> str:
    """A line for each fault that was found, with the call at which it comes out."""
    lines = []
    for (fault, n), what in bad:
        call = [call for call in trial.calls if call.kind & fault.kinds][n - 1]
        where = f"{fault.action.name} {fault.error or ''}{' on' if fault.forever else ''} at {n}"
        lines.append(f"{where}, {call.kind.name} {Path(call.path).name}: {what}")
    return "\n".join(lines)
