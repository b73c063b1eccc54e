"""Forked processes search and train, although they lack their parent's threads."""

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


def run(script: str, folder: Path) -> str:
    """The output of a script, which has a minute and gets the folder as its argument."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SEARCHES = """
    import multiprocessing, sys
    import numpy as np
    from slimdex import Collection

    def among(how):
        if how == "inherited":
            return opened.nearest(vectors, 5)[1].tolist()
        with Collection.open(sys.argv[1]) as own:
            return own.nearest(vectors, 5)[1].tolist()

    opened = Collection.open(sys.argv[1])
    vectors = np.random.default_rng(0).normal(size=(64, opened.state.dim)).astype(np.float32)
    expected = opened.nearest(vectors, 5)[1].tolist()  # a batch wakes OpenMP's threads
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(among, ["inherited", "opened"]).get(timeout=45)
    print([rows == expected for rows in found])
"""


@pytest.mark.slow
def test_forked_children_search_after_their_parent_has(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(2000))
    assert run(SEARCHES, tmp_path / "i") == "[True, True]\n"


TRAININGS = """
    import multiprocessing
    import numpy as np
    from slimdex.indexes.reducers.autoencoder import TiedAutoencoder

    def losses(epochs):
        return TiedAutoencoder(4, epochs=epochs).fit(X).losses_

    X = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
    expected = losses(2)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.map_async(losses, [2]).get(timeout=45)[0]
    print(np.allclose(found, expected, rtol=1e-3))
"""


@pytest.mark.slow
def test_forked_children_train_after_their_parent_has(tmp_path: Path) -> None:
    assert run(TRAININGS, tmp_path) == "True\n"


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


@pytest.mark.parametrize("library", ["faiss", "torch"])
def test_the_openmp_functions_exist(library: str) -> None:
    from importlib import import_module

    from slimdex.indexes.execution.forks import OPENMP_LIBRARIES

    assert callable(getattr(import_module(library), OPENMP_LIBRARIES[library]))
