"""A forked process opens indexes of its own; those of its parent refuse, and its parent goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slimdex import Collection, Document
from tests.encoders import WordEncoder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
TEXTS = ("stars and planets", "bread and butter", "rivers and lakes", "songs and dances")


def documents(count: int) -> list[Document]:
    return [Document(str(i), f"{TEXTS[i % 4]} number {i}") for i in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index of eight documents."""
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(8))
    return tmp_path / "i"


def run(script: str, *arguments: Path | str) -> str:
    """The output of a script, which has some minutes."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:.*fork",
            "-c",
            textwrap.dedent(HELPERS) + textwrap.dedent(script),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    print(done.stderr)  # where a process hung
    assert done.returncode == 0, done.stderr
    return done.stdout


HELPERS = """
    import faulthandler, multiprocessing, os, signal, sys, threading, time
    import numpy as np
    from slimdex import Collection, InputError, InUseError, Settings
    from tests.encoders import WordEncoder

    def error_of(call):
        try:
            return call()
        except (InputError, InUseError) as error:
            return str(error).replace(sys.argv[1], "INDEX")

    def status(work):
        "Exit code of a forked process that works, then ends as Python does."
        forked = os.fork()
        if not forked:
            faulthandler.dump_traceback_later(30)
            signal.alarm(40)
            work()
            sys.exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
"""
REFUSED = "INDEX was opened in another process: open it again here"

EVERY_CALL = """
    opened = Collection.open(sys.argv[1], WordEncoder())
    opened.search("bread", where="id < '4'")  # DuckDB and all threads run now
    CALLS = {
        "search": lambda: opened.search("bread"),
        "filter": lambda: opened.search("bread", where="id < '4'"),
        "related": lambda: opened.related("1"),
        "add": lambda: opened.add([{"id": "c", "text": "stars"}]),
        "delete": lambda: opened.delete(["1"]),
        "sync": lambda: opened.sync(sys.argv[2]),
        "get": lambda: opened.get("2"),
        "count": lambda: opened.count("id < '4'"),
        "len": lambda: len(opened),
        "in": lambda: "1" in opened,
        "list": lambda: list(opened),
        "version": lambda: opened.version,
        "info": lambda: opened.info(),
        "health": lambda: opened.health(),
        "duplicates": lambda: opened.near_duplicates(),
        "verify": lambda: opened.verify(),
        "reduce": lambda: opened.reduce(Settings(k=4)),
        "compact": lambda: opened.compact(),
        "undo": lambda: opened.undo(),
        "close": lambda: opened.close(),
        "after": lambda: opened.search("bread"),
    }

    def every_call():
        global opened
        for name, call in CALLS.items():
            print(f"{name}: {error_of(call)}")
        opened = None
        sys.stdout.flush()

    print(status(every_call))
    opened.add([{"id": "p", "text": "rivers"}])
    print([hit.id for hit in opened.search("stars", where="id IN ('0', 'p')")], opened.verify())
"""


def test_an_inherited_index_refuses_every_call_and_its_parent_goes_on(path: Path) -> None:
    notes = path.with_name("notes.txt")
    notes.write_text("stars")
    *calls, code, parent = run(EVERY_CALL, path, notes).splitlines()
    assert len(calls) == 21
    assert {call.partition(": ")[2] for call in calls if not call.startswith("close")} == {REFUSED}
    assert "close: None" in calls
    assert code == "0"
    assert parent == "['0', 'p'] []"


LOCKS_HELD = """
    def child():
        print(error_of(lambda: opened.search("bread")), error_of(lambda: len(opened)))
        opened.close()
        with Collection.open(sys.argv[1], encoder, wait=0.2) as own:
            hits = own.search("bread", limit=2, where="id < '6'")
            print(sorted(hit.id for hit in hits), own.verify())
            print(error_of(lambda: own.add([{"id": "c", "text": "stars"}]).documents))
        sys.stdout.flush()

    def hold():
        with opened.index.change():
            held.set()
            go_on.wait(60)
        opened.add([{"id": "p", "text": "rivers"}])

    encoder = WordEncoder()
    opened = Collection.open(sys.argv[1], encoder)
    opened.search("bread", where="id < '4'")
    held, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    print(process.exitcode, end=" ", flush=True)
    go_on.set()
    thread.join(60)
    print(len(opened))
    print(status(child), len(opened), opened.verify())
"""


def test_a_fork_beside_a_writer_hangs_at_no_lock_and_releases_none(path: Path) -> None:
    """Its own index waits for the parent's change, like any other process."""
    lines = run(LOCKS_HELD, path).splitlines()
    refused, hits, in_use, parent, refused_again, hits_again, added, end = lines
    assert refused == refused_again == f"{REFUSED} {REFUSED}"
    assert hits == hits_again == "['1', '5'] []"
    assert in_use.startswith("INDEX: another process")
    assert parent == "0 9"
    assert added == "1"
    assert end == "0 10 []"


AMID_WORK = """
    def search():
        while not stopped.is_set():
            assert opened.search("bread", limit=1, where="id < '4'")[0].id == "1"

    def write():
        while not stopped.is_set():
            opened.add([{"id": "p", "text": "rivers"}])
            opened.delete(["p"])

    def child():
        assert error_of(lambda: opened.search("bread")).endswith("open it again here")
        with Collection.open(sys.argv[1], WordEncoder()) as own:
            assert own.search("bread", limit=1, where="id < '4'")[0].id == "1"
            own.add([{"id": f"c{time.monotonic_ns()}", "text": "stars"}])

    opened = Collection.open(sys.argv[1], WordEncoder())
    stopped = threading.Event()
    threads = [threading.Thread(target=work) for work in (search, search, write)]
    for thread in threads:
        thread.start()
    opened.search("bread")
    print([status(child) for _ in range(10)])
    stopped.set()
    for thread in threads:
        thread.join(60)
    print(len(opened), opened.verify())
"""


@pytest.mark.slow
def test_forks_amid_searches_and_changes_work_with_indexes_of_their_own(path: Path) -> None:
    assert run(AMID_WORK, path).splitlines() == [str([0] * 10), "18 []"]


AMID_START = """
    from slimdex.system.duckdb_library import connect

    for thread in [threading.Thread(target=connect, daemon=True) for _ in range(3)]:
        thread.start()
    time.sleep(float(sys.argv[1]))
    print(status(connect))
"""


@pytest.mark.slow
def test_a_fork_amid_the_start_of_duckdb_hangs_at_none_of_its_locks() -> None:
    for milliseconds in range(0, 40, 4):
        assert run(AMID_START, f"{milliseconds / 1000}") == "0\n"


IN_A_POOL = """
    from slimdex.indexes.reducers.autoencoder import TiedAutoencoder
    from slimdex.retrieval.quality.evaluation import nearest_of

    def among(_):
        with Collection.open(sys.argv[1]) as own:
            return nearest_of(own.index, vectors, 5)[1].tolist()

    def losses(epochs):
        return TiedAutoencoder(4, epochs=epochs).fit(many).losses_

    opened = Collection.open(sys.argv[1])
    many = np.random.default_rng(0).normal(size=(2000, opened.index.state.dim)).astype(np.float32)
    vectors = many[:64]
    nearest = nearest_of(opened.index, vectors, 5)[1].tolist()
    expected = nearest, losses(2)  # both wake OpenMP's threads
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(among, range(2)).get(timeout=45)
        trained = pool.map_async(losses, [2]).get(timeout=45)[0]
    print([rows == expected[0] for rows in found], np.allclose(trained, expected[1], rtol=1e-3))
"""


@pytest.mark.slow
def test_forked_children_search_and_train_after_their_parent_has(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(1000))
    assert run(IN_A_POOL, tmp_path / "i") == "[True, True] True\n"


IN_A_CALL = """
    def fork_in(call):
        global forked
        if call == sys.argv[2] and not os.getenv("FORKED"):
            os.environ["FORKED"] = "yes"
            forked = os.fork()
            if not forked:
                signal.alarm(40)
                assert error_of(lambda: opened.add([])).endswith("open it again here")
                sys.exit(7)  # through the parent's calls

    class Forking(WordEncoder):
        def encode(self, texts):
            fork_in("encode")
            return super().encode(texts)

    def documents():
        for i in range(1500):
            fork_in(f"read {i}")
            yield {"id": f"n{i}", "text": f"rivers {i}"}

    opened = Collection.open(sys.argv[1], Forking())
    rows = np.random.default_rng(0).normal(size=(1500, opened.index.state.dim))
    opened.add(documents(), vectors=None if sys.argv[2] == "encode" else rows)
    print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), end=" ")
    opened.add([{"id": "p", "text": "rivers"}])
    print(len(opened), opened.verify())
"""


@pytest.mark.parametrize("call", ["encode", "read 1200"])
def test_a_fork_within_an_addition_leaves_it_to_its_parent(path: Path, call: str) -> None:
    assert run(IN_A_CALL, path, call) == "7 1509 []\n"
    assert not [*path.glob("work-*")]


IN_A_CHANGE = """
    opened = Collection.open(sys.argv[1], WordEncoder())
    with opened.index.change() as change:
        forked = os.fork()
        if not forked:
            signal.alarm(40)
            if sys.argv[2] == "exit":
                sys.exit(7)
            print(error_of(change.commit))
            sys.exit(8)
        code = os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
        change.commit()
    opened.add([{"id": "p", "text": "rivers"}])
    print(code, len(opened), opened.verify())
"""


@pytest.mark.parametrize(
    ("action", "printed"), [("exit", "7 9 []\n"), ("commit", f"{REFUSED}\n8 9 []\n")]
)
def test_a_fork_within_a_change_neither_commits_nor_ends_it(
    path: Path, action: str, printed: str
) -> None:
    assert run(IN_A_CHANGE, path, action) == printed


IMPORTING = """
    from pathlib import Path
    from slimdex.system.threads import threads_for

    def multiply():
        with threads_for(1):
            multiplying.set()
            time.sleep(1)

    def load():
        time.sleep(0.5)
        import slow_module

    def child():
        import slow_module

    folder = Path(sys.argv[1]).parent
    (folder / "slow_module.py").write_text("import time; time.sleep(3)")
    sys.path.insert(0, str(folder))
    multiplying = threading.Event()
    threads = [threading.Thread(target=work) for work in (multiply, load)]
    for thread in threads:
        thread.start()
    multiplying.wait()
    print(status(child))
    for thread in threads:
        thread.join()
"""


def test_a_fork_waits_for_imports_that_begin_while_it_waits_for_products(path: Path) -> None:
    assert run(IMPORTING, path) == "0\n"
