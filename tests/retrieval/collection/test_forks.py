"""Forked processes search, train and write, although they lack their parent's threads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slimdex import Collection, Document
from tests.encoders import WordEncoder

TEXTS = ("stars and planets", "bread and butter", "rivers and lakes", "songs and dances")


def documents(count: int) -> list[Document]:
    return [Document(str(i), f"{TEXTS[i % 4]} number {i}") for i in range(count)]


def run(script: str, *arguments: Path | str) -> str:
    """The output of a script, which has some minutes."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:.*fork",
            "-c",
            textwrap.dedent(script),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IN_A_POOL = """
    import multiprocessing, sys
    import numpy as np
    from slimdex import Collection
    from slimdex.indexes.reducers.autoencoder import TiedAutoencoder
    from slimdex.retrieval.quality.evaluation import nearest_of

    def among(how):
        if how == "inherited":
            return nearest_of(opened.index, vectors, 5)[1].tolist()
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
        found = pool.map_async(among, ["inherited", "opened"]).get(timeout=45)
        trained = pool.map_async(losses, [2]).get(timeout=45)[0]
    print([rows == expected[0] for rows in found], np.allclose(trained, expected[1], rtol=1e-3))
"""


@pytest.mark.slow
def test_forked_children_search_and_train_after_their_parent_has(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(1000))
    assert run(IN_A_POOL, tmp_path / "i") == "[True, True] True\n"


def test_a_fork_reads_and_writes_like_its_parent(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "i", WordEncoder())
    collection.add(documents(8))
    assert collection.count("id = '1'") == 1  # the parent has the catalog open by now
    child = os.fork()
    if not child:  # pragma: no cover - another process
        code = 1
        try:
            code = int(collection.delete(["1"]) != 1 or collection.count("id < '4'") != 3)
            collection.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "1" not in collection
    assert collection.delete(["2"]) == 1
    assert collection.verify() == []
    collection.close()
    with Collection.open(tmp_path / "i") as again:
        assert len(again) == 6


IN_A_TURN = """
    import os, signal, sys, threading
    from slimdex import Collection, InUseError
    from tests.encoders import WordEncoder

    def child():
        assert opened.search("bread", limit=1)[0].id in ("1", "5")
        assert opened.count("id < '4'") == 4 and opened.get("2").id == "2" and opened.verify() == []
        try:
            opened.add([{"id": "c", "text": "stars"}])
        except InUseError as error:
            assert f"process {parent}" in str(error) and "\\n" not in str(error)
        else:
            raise AssertionError("two writers")
        opened.close()

    def write():
        with opened.index.change():
            began.set()
            go_on.wait(60)
        opened.add([{"id": "p", "text": "rivers"}])

    def status(work):
        forked = os.fork()
        if not forked:
            signal.alarm(40)
            work()
            sys.exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])

    began, go_on, parent = threading.Event(), threading.Event(), os.getpid()
    opened = Collection.open(sys.argv[1], WordEncoder(), wait=0.2)
    opened.search("bread")
    writer = threading.Thread(target=write)
    writer.start()
    began.wait(60)
    print(status(child), end=" ")
    go_on.set()
    writer.join(60)
    print(status(lambda: opened.add([{"id": "c", "text": "stars"}])), end=" ")
    print(opened.count("id IN ('c', 'p')"), opened.verify())
"""


def test_a_fork_reads_while_a_thread_writes_and_waits_for_its_turn(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(8))
    assert run(IN_A_TURN, tmp_path / "i") == "0 0 2 []\n"


IN_A_CALL = """
    import os, signal, sys
    import numpy as np
    from slimdex import Collection
    from tests.encoders import WordEncoder

    def fork_in(call):
        global forked
        if call == sys.argv[2] and not os.getenv("FORKED"):
            os.environ["FORKED"] = "yes"
            forked = os.fork()
            if not forked:
                signal.alarm(40)
                opened.add([{"id": "c", "text": "stars"}])
                sys.exit(0)  # through the parent's calls

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
def test_a_fork_within_a_change_leaves_it_to_its_parent(tmp_path: Path, call: str) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(8))
    assert run(IN_A_CALL, tmp_path / "i", call) == "0 1510 []\n"
    assert not [*(tmp_path / "i").glob("work-*")]


@pytest.mark.parametrize("library", ["faiss", "torch"])
def test_the_openmp_functions_exist(library: str) -> None:
    from importlib import import_module

    from slimdex.system.forks import OPENMP_LIBRARIES

    assert callable(getattr(import_module(library), OPENMP_LIBRARIES[library]))
