"""Trials: an operation on copies of an index, with faults, and what is found after them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from slimdex.retrieval.documents import Document
from slimdex.retrieval.store.manifest import Manifest
from slimdex.system.atomic_files import ENDINGS
from slimdex.system.locks import NAMES

from .fault_child import (
    BASE,
    BATCHED,
    FROM_NOTHING,
    INDEX,
    LAST,
    NOTHING,
    Job,
    Seen,
    changes,
    observed,
    opened,
)
from .faults import Action, Fault, Forker, Kind, Outcome, read_trace

NO_FAULT = Fault()


class Lab:
    """A folder where operations are tried, and processes that fork to try them."""

    def __init__(self, folder: Path, forkers: list[Forker]) -> None:
        self.folder, self._numbers = folder, count()
        self._forkers = SimpleQueue[Forker]()
        for forker in forkers:
            self._forkers.put(forker)

    def new(self, base: Path | None = None) -> Path:
        """A folder of its own, a copy of another or empty."""
        path = self.folder / str(next(self._numbers))
        shutil.copytree(base, path) if base else path.mkdir()
        return path

    def do(self, job: Job) -> Outcome:
        forker = self._forkers.get()
        try:
            outcome = forker.run(job)
        finally:
            self._forkers.put(forker)
        assert outcome.exit in (0, 1, -9), outcome.exit
        return outcome


class Trial:
    """An operation: where it starts, what it calls, what is seen before and after each change.

    What is seen of documents is what a plain dictionary says, and of answers what an undisturbed
    run gives.
    """

    def __init__(self, lab: Lab, operation: str) -> None:
        self.lab, self.operation = lab, operation
        self.base = lab.new()
        if operation not in FROM_NOTHING:
            lab.do(Job("build", str(self.base)))
        done, trace = lab.new(self.base), lab.folder / f"{operation}.trace"
        lab.do(Job(operation, str(done), trace=str(trace)))
        self.trace, self.traced = read_trace(trace), str(done)
        self.calls = [call for call in self.trace if call.kind != Kind.MARK]
        self.names = names(done)
        self.states = self._states(lab.new(self.base))
        self._states_file = lab.folder / f"{operation}.json"
        self._states_file.write_text(json.dumps(self.states))
        self._found: dict[tuple[str, int], tuple[str | None, int]] = {}

    def _states(self, folder: Path) -> list[Seen]:
        model = {} if self.operation in FROM_NOTHING else {d.id: d for d in BASE}
        states = [NOTHING]
        if model:
            with opened(folder / INDEX, self.operation) as collection:
                states = [observed(collection)]
        for change in changes(self.operation):
            with opened(folder / INDEX, self.operation) as collection:
                change.make(collection)
            with opened(folder / INDEX, self.operation) as collection:
                states.append(observed(collection))
            change.model(model)
            assert states[-1]["documents"] == as_seen(model)
        return states

    def run(self, folder: Path, fault: Fault, at: int, trace: str = "") -> Outcome:
        """The operation with a fault at its n-th call of those that the fault is for."""
        go_on = fault.action in (Action.FAIL, Action.SHORT)
        job = Job(self.operation, str(folder), go_on=go_on, **asdict(fault), at=at, trace=trace)
        return self.lab.do(job)

    def open(self, folder: Path, fault: Fault = NO_FAULT, at: int = 0, trace: str = "") -> Outcome:
        """The next writer, with a fault too."""
        job = Job(self.operation, str(folder), task="open", **asdict(fault), at=at, trace=trace)
        return self.lab.do(job)

    def look(self, folder: Path) -> Outcome:
        """Run the next reader."""
        return self.lab.do(Job(self.operation, str(folder), task="look"))

    def found(self, folder: Path, acknowledged: int) -> tuple[str | None, int]:
        """Return the first fault seen by the next reader and writer, and the texts encoded.

        Folders with the same bytes are tried once.
        """
        key = (digest(folder), acknowledged)
        if key not in self._found:
            for work in folder.glob(f"{INDEX}/work-*"):  # as if it had been killed long ago
                os.utime(work, (0, 0))
            states = str(self._states_file)
            outcome = self.lab.do(Job(self.operation, str(folder), task="redo", states=states))
            others = names(folder) ^ self.expected_names(folder)
            fault = self._fault(outcome, others, acknowledged)
            self._found[key] = fault, outcome.one("encoded") or 0
        return self._found[key]

    def fault(self, folder: Path, acknowledged: int) -> str | None:
        """Return the fault that `found` finds, if any."""
        return self.found(folder, acknowledged)[0]

    def fault_of_rest(self, folder: Path, acknowledged: int) -> str | None:
        """The same for a process that went on after a failure.

        It may have added the last document or not, also where an operation adds it itself.
        """
        outcome = self.look(folder)
        if outcome.exit:
            return f"a traceback: {outcome.all('bug')[0]}"
        if outcome.all("faults") != [[]]:
            return f"verify: {outcome.all('faults')}"
        (seen,) = outcome.all("seen")
        documents, *possible = (
            {id: what for id, what in state["documents"].items() if id != LAST[0].id}
            for state in (seen, *self.states)
        )
        if documents in possible[acknowledged:] or self.is_between(documents, acknowledged):
            return None
        return LOST if documents in possible[:acknowledged] else HALF

    def expected_names(self, folder: Path) -> set[str]:
        """Names of the operation, with the files that the newest manifest names."""
        named = Manifest.read(folder / INDEX).state.file_names
        files = {without_number(f"{INDEX}/{name}") for name in named}
        roles = tuple(f"{INDEX}/{role}-" for role in ENDINGS)
        return files | {name for name in self.names if not name.startswith(roles)}

    def is_between(self, documents: dict[str, object], acknowledged: int) -> bool:
        """Tell whether these are there after some batches of the change that follows."""
        change, size = changes(self.operation)[acknowledged:][:1], BATCHED.get(self.operation)
        if not change or not size:
            return False
        (added,) = (each.documents for each in change)
        before = self.states[acknowledged]["documents"]
        ends = range(size, len(added) + size, size)  # all may be there, without vectors
        return documents in [before | as_seen({d.id: d for d in added[:end]}) for end in ends]

    @property
    def distinct(self) -> int:
        """How many different folders were tried."""
        return len({folder for folder, _ in self._found})

    def _fault(self, outcome: Outcome, others: set[str], acknowledged: int) -> str | None:
        faults, seen = outcome.all("faults"), outcome.all("seen")
        if outcome.exit:
            return f"a traceback: {outcome.all('bug')[0]}"
        is_known = seen[0] in self.states[acknowledged : acknowledged + 2]
        if not is_known and not self.is_between(seen[0]["documents"], acknowledged):
            return LOST if seen[0] in self.states[:acknowledged] else HALF
        if any(faults):
            return f"verify: {faults}"
        if seen[1] != self.states[-1]:
            return "done again, it ends otherwise"
        if others:
            return f"files that nobody removes: {others}"
        return None


LOST, HALF = "acknowledged documents lost", "a half-written state"


def as_seen(model: dict[str, Document]) -> dict[str, object]:
    return {d.id: [d.text, d.metadata] for d in model.values()}


def names(folder: Path) -> set[str]:
    """The names in a folder, without the numbers in them; those of words' files are tantivy's.

    Locks are left out: they stay once they are made.
    """
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.name not in NAMES)
    return {without_number(name) for name in found if ".tantivy/" not in name}


def without_number(name: str) -> str:
    """The name of a file without the number of the commit that wrote it."""
    return re.sub(r"\d{6}", "N", name)


def digest(folder: Path) -> str:
    """Changes with any name or byte in a folder."""
    found = hashlib.blake2b()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + b"\0")
        found.update(path.read_bytes() if path.is_file() else b"/")
    return found.hexdigest()
