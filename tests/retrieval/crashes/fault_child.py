"""Runs changes of an index in children of its own, each with a fault armed in `faults.c`.

It is started with that library preloaded, imports what is heavy once, and forks for each line of
JSON on stdin: a `Job`. What a child has to say goes to stdout, a line of JSON at a time, and is
there for the test even if the child is killed the moment after; its exit code ends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli.errors import user_message
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders import encoding
from slimdex.retrieval.ingest import adding, addition, encode
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store import derived_files, ids, next_commit
from tests.encoders import ReadingEncoder

Seen = dict[str, Any]
"""What a reader finds: ``documents`` (id -> text, metadata) and ``answers`` (id, score)."""
NOTHING: Seen = {"words": [], "documents": {}, "answers": []}

INDEX = "x.index"
INT8 = "int8"
"""The operation on an index whose vectors are stored so."""
ENCODERS = ReadingEncoder(), ReadingEncoder(40)
"""The index's, and the one that replaces it; each process has its own."""
QUERIES = ["word3 text", "other40", "word17"]
LONG = " ".join(f"Sentence {i} of other{i} and word{i}." for i in range(9))
"""Three passages."""
BASE = [
    Document(str(i), f"word{i} word{i % 7} text {LONG if i in (7, 17) else ''}", metadata={"n": i})
    for i in range(40)
]
MORE = [
    Document(str(i), f"other{i} word{i % 5} {LONG if i in (37, 47) else ''}", metadata={"n": i})
    for i in range(36, 48)
]
LAST = [Document("last", "word3 text of the last", metadata={"n": -1})]
SMALL = [Document("small", "word3 text of a small addition", metadata={"n": -2})]
"""One that is only in the lines, as the last one."""
AGAIN = [Document("last", "word7 another text of the last", metadata={"n": -1})]
"""One that replaces one, only in the lines."""
GONE = ["3", "17", "39"]
TOO_LONG = 600
"""Seconds, for a child that hangs: no measure of a slow machine's work."""


@dataclass(frozen=True)
class Change:
    """One call that a user makes, and what it does to a plain dictionary of documents."""

    make: Callable[[Collection], object]
    model: Callable[[dict[str, Document]], object]
    documents: Sequence[Document] = ()  # that it adds, in batches if the operation says so


def put(documents: list[Document]) -> Change:
    return Change(
        lambda c: c.add(documents),
        lambda m: m.update({d.id: d for d in documents}),
        documents,
    )


def enter(documents: list[Document]) -> Change:
    """Add documents that wait for their vectors."""
    return replace(put(documents), make=lambda c: c.add(documents, encode=False))


def encode_all() -> Change:
    return Change(lambda c: c.encode(), lambda m: None)


def remove(ids: list[str]) -> Change:
    return Change(lambda c: c.delete(ids), lambda m: [m.pop(id) for id in ids])


def in_step(documents: list[Document], gone: list[str]) -> Change:
    """Add, replace and delete documents in one commit, as `sync` does."""

    def model(m: dict[str, Document]) -> None:
        m.update({d.id: d for d in documents})
        for id in gone:
            del m[id]

    return Change(
        lambda c: add(
            c.index, Addition(documents, missing=lambda store, _: np.unique(store.rows_of(gone)))
        ),
        model,
    )


def reduce(settings: Settings) -> Change:
    return Change(lambda c: c.reduce(settings), lambda m: None)


def compact() -> Change:
    return Change(lambda c: c.compact(), lambda m: None)


def undo(documents: list[Document]) -> Change:
    """Undo the last change, which restores these documents."""

    def model(m: dict[str, Document]) -> None:
        m.clear()
        m.update({d.id: d for d in documents})

    return Change(lambda c: c.undo(), model)


def index_lexical(wanted: bool) -> Change:
    return Change(lambda c: c.index_lexical(wanted), lambda m: None)


def reencode() -> Change:
    return Change(lambda c: c.reencode(ENCODERS[1]), lambda m: None)


LEFT = [d for d in [*BASE[:36], *MORE, *LAST] if d.id not in ("5", "40")]
ADD, DELETE, REDUCE = put(MORE), remove(GONE), reduce(Settings(kind="sq8", k=8, beta=1.0))
OPERATIONS: dict[str, list[list[Change]]] = {
    "reencode": [[reencode()]],
    "build": [[put(BASE)]],
    "batches": [[put(BASE)]],
    "long": [[ADD, put(LAST)]],
    "waits": [
        [enter(MORE), remove(["5", "40"]), compact()],
        [enter(LAST), encode_all(), enter(AGAIN), undo(LEFT), encode_all()],
    ],
    "undo": [
        [put(LAST), ADD, undo([*BASE, *LAST])],
        [put(SMALL), REDUCE, undo([*BASE, *LAST, *SMALL])],
    ],
    INT8: [[put(BASE), ADD], [DELETE, compact()]],
    "words": [
        [put(SMALL), ADD],
        [DELETE, index_lexical(False), index_lexical(True), compact()],
        [put(LAST)],
    ],
    "session": [
        [in_step(MORE, ["7", "12"]), remove(["5", "40"]), put(BASE[:8])],
        [put(SMALL), REDUCE, DELETE, compact()],
        [put(LAST), put(AGAIN)],
    ],
}
"""The changes of each, by the sittings in which a collection is opened, changed and closed."""
FROM_NOTHING = ("build", "batches", INT8)
"""Operations that create the index."""
BATCHED = {"batches": 8, "long": 3}
"""Documents in each batch of operations that add some in several."""
RESUMED = ("batches", "reencode")
"""Operations that resume after a kill without encoding a text twice."""


def changes(operation: str) -> list[Change]:
    return [change for sitting in OPERATIONS[operation] for change in sitting]


@dataclass(frozen=True)
class Job:
    """What one child does in a folder.

    Attributes
    ----------
    operation, folder : what is done, and the folder that holds the index.
    task : "run" the operation with a fault, only "open" the index with a fault, "look" at what is
        there, or look and "redo" what is missing of the operation.
    go_on : after a run, see what the same process can do once the fault is gone.
    states : for "redo", a file with what is seen before and after each change.
    action, kinds, at, forever, error, share, trace : as `faults_arm` has them.
    """

    operation: str
    folder: str
    task: str = "run"
    go_on: bool = False
    states: str = ""
    action: int = 0
    kinds: int = 0
    at: int = 0
    forever: bool = False
    error: int = 0
    share: float = 0.5
    trace: str = ""


@dataclass
class Child:
    """The process in which a job is done."""

    job: Job
    faults: ctypes.CDLL = field(default_factory=lambda: ctypes.CDLL(None))

    @property
    def path(self) -> Path:
        return Path(self.job.folder) / INDEX

    def do(self) -> None:
        job = self.job
        signal.alarm(TOO_LONG)  # a hang ends in a signal
        encoding.WINDOW_TEXTS = encode.LEAST_ROWS = 16
        vars(derived_files).update(MOST_LATE=10)  # the words of more are written beforehand
        vars(next_commit).update(MOST_TRAILING=4)  # so that columns are written
        ids.LEAST_LATER = 4
        if job.operation in (*RESUMED, *BATCHED):
            encode.FIRST_CHARACTERS, encode.GROWTH = 1, 1
        if size := BATCHED.get(job.operation):
            addition.MOST_DOCUMENTS = encode.LEAST_ROWS = size
            adding.MOST_ENCODED_FIRST = -1
        self.faults.faults_disarm.restype = ctypes.c_long
        self.faults.faults_arm(
            job.folder.encode(),
            job.action,
            job.kinds,
            ctypes.c_long(job.at),
            job.forever,
            job.error,
            ctypes.c_double(job.share),
            job.trace.encode(),
        )
        {
            "run": self.run,
            "open": self.open,
            "look": self.look,
            "redo": self.redo,
        }[job.task]()

    def run(self) -> None:
        """The operation; should it fail, what the same process can do after that."""
        collection = self.operate()
        say(points=self.faults.faults_disarm())
        if self.job.go_on:
            self.go_on(collection)

    def open(self) -> None:
        """A writer that changes nothing but what opening and closing do."""
        opened(self.path, self.job.operation).close()

    def operate(self) -> Collection | None:
        """The operation; if it fails in the middle, the collection as it then is."""
        collection, done = None, 0
        try:
            for sitting in OPERATIONS[self.job.operation]:
                collection = opened(self.path, self.job.operation)
                for change in sitting:
                    change.make(collection)
                    done += 1
                    self.faults.faults_mark(b"acknowledged")
                    say(acknowledged=done)
                collection.close()
                collection = None
        except Exception as error:
            say(failed=report(error))
        return collection

    def go_on(self, collection: Collection | None) -> None:
        """What was true stays visible, and the next addition works."""
        if collection is None:
            collection = opened(self.path, self.job.operation)

        def attempt(action: Callable[[Collection], object]) -> object:
            nonlocal collection
            assert collection is not None
            try:
                return action(collection)
            except Exception as error:
                say(reopened=report(error))
            collection.close()
            collection = opened(self.path, self.job.operation)
            return action(collection)

        say(seen=attempt(observed))
        attempt(put(LAST).make)
        say(seen=attempt(observed))
        collection.close()

    def look(self) -> Seen:
        """What the next reader finds; a folder that is not there holds nothing."""
        if not self.path.exists():
            say(faults=[], seen=NOTHING)
            return NOTHING
        faults = verify(self.path)
        with opened(self.path, self.job.operation) as collection:
            seen = observed(collection)
        say(faults=faults, seen=seen)
        return seen

    def redo(self) -> None:
        """The next writer makes the changes that are missing; how many texts it encodes."""
        seen, states = self.look(), json.loads(Path(self.job.states).read_text())
        if seen not in states and self.job.operation not in BATCHED:
            return
        with opened(self.path, self.job.operation) as collection:
            with collection.index.change():
                pass  # the first turn ends what was interrupted
            before = encoded()
            first = states.index(seen) if seen in states else 0
            for change in changes(self.job.operation)[first:]:
                change.make(collection)
            say(encoded=encoded() - before)
            say(seen=observed(collection))


def encoded() -> int:
    """Count the texts that this process has encoded."""
    return sum(len(encoder.encoded) for encoder in ENCODERS)


def opened(path: Path, operation: str, *, words: bool = True) -> Collection:
    if path.exists():
        collection = Collection.open(path)
        for encoder in ENCODERS:
            collection.index.encoders.give(encoder)
        return collection
    stored = "int8" if operation == INT8 else "fp16"
    return Collection.create(path, ENCODERS[0], vector_dtype=stored, lexical=words)


def observed(collection: Collection) -> Seen:
    if not len(collection):
        return NOTHING
    found = collection.search_many(QUERIES, limit=1000)
    has_words = collection.index.state.words is not None
    worded = collection.search_many(QUERIES, limit=1000, hybrid=1.0) if has_words else []
    return {
        "words": [sorted(hit.id for hit in hits if hit.found_by != "meaning") for hits in worded],
        "documents": {each.id: [each.text, each.metadata] for each in collection},
        # Not in their order: words of deleted documents count, so it tells what was done twice.
        "answers": [
            sorted([hit.id, hit.start, round(hit.similarity, 4)] for hit in hits) for hits in found
        ],
    }


def report(error: Exception) -> dict[str, Any]:
    """The line that a user would see, none for a traceback."""
    return {"line": user_message(error), "error": "".join(traceback.format_exception(error))}


def say(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def warm_up() -> None:
    """Everything that is loaded or computed once, once; it must leave no thread behind.

    Writing words starts threads of tantivy's, so that is left to the children.
    """
    with TemporaryDirectory() as folder:
        for change in (put(BASE), ADD, REDUCE):
            with opened(Path(folder) / INDEX, "build", words=False) as collection:
                change.make(collection)
                observed(collection)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"{len(threads)} threads; a fork keeps one"


def jobs() -> Iterator[Job]:
    for line in sys.stdin:
        yield Job(**json.loads(line))


def main() -> None:
    warm_up()
    for job in jobs():
        process = os.fork()
        if process == 0:
            try:
                Child(job).do()
                os._exit(0)
            except BaseException:
                say(bug=traceback.format_exc())
                os._exit(1)
        _, status = os.waitpid(process, 0)
        say(exit=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
