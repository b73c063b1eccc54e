"""Damaged and random input of every kind: read, or refused in one line; never a traceback."""

from __future__ import annotations

import copy
import gzip
import io
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slimdex.errors import SlimdexError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import load_reducer
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources.given_vectors import check_vectors, open_vectors, read_query_vectors
from slimdex.retrieval.sources.source import open_source, read_pairs
from slimdex.retrieval.store import next_commit
from slimdex.retrieval.store.state import State
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder

from ..forging import forge

EXAMPLES = CHANCE.count(150, 15)
LONGEST = 20
"""Seconds of work for one input, however busy the machine."""
ROWS = [
    {"_id": "a", "text": "one café", "title": "T", "n": 1, "tags": ["x"], "m": {"k": 1.5}},
    {"_id": "b", "text": "two, \"or\" 'more'", "title": None, "n": None, "tags": [], "m": {}},
]
CSV = 'id,text,n\na,"one, café",1\nb,"two ""or"" more",\n'


def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 'a' AS id, 'one' AS text, [1.0, 2.0]::FLOAT[] AS v, {'k': 1} AS m "
            "UNION ALL SELECT 'b', 'two', [3.0, 4.0]::FLOAT[], {'k': NULL}) "
            f"TO '{folder}/x.parquet'"
        )
        return Path(folder, "x.parquet").read_bytes()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


LINES = "\n".join(json.dumps(row) for row in ROWS).encode()
VALID = {
    ".jsonl": LINES,
    ".jsonl.gz": gzip.compress(LINES, mtime=0),
    ".json": json.dumps(ROWS).encode(),
    ".csv": CSV.encode(),
    ".tsv": CSV.replace(",", "\t").encode(),
    ".txt": b"one\n\ntwo caf\xc3\xa9\n",
    ".parquet": parquet(),
}
PIECES = [b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n", b'"', b"'", b"{", b",", b"\t", b"["]
PIECES += [b"\\ud800", b"1e999", b"\x7f" * 8, b"\xff" * 8, b"\0" * 64, b"9" * 400, b"[" * 200]
PIECES += [b"NaN", b"null"]
INSERTED = st.one_of(st.binary(max_size=12), st.sampled_from(PIECES))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with a few bytes replaced, put in or cut off; or random bytes."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=300))
    for _ in range(draw(st.integers(1, 3))):
        at, piece = draw(st.integers(0, len(data))), draw(INSERTED)
        end = {"put": at, "replace": at + len(piece), "cut": len(data)}
        data = data[:at] + piece + data[end[draw(st.sampled_from(sorted(end)))] :]
    return data


def fuzzed(test: Callable[..., None]) -> Callable[..., None]:
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    tried = settings(max_examples=EXAMPLES, suppress_health_check=checks)(test)
    marked: Callable[..., None] = pytest.mark.sweep(tried)
    return marked


def quietly(action: Callable[[], object]) -> None:
    """Run it; what it may raise is one line for the user."""
    message, begin = "", time.process_time()
    try:
        action()
    except (SlimdexError, OSError) as error:
        message = str(error)
    assert time.process_time() - begin < LONGEST
    assert "\n" not in message.strip()
    assert "Traceback" not in message
    assert len(message) < 2000


def read_or_refused(path: Path) -> None:
    """As documents and as pairs of sentences."""

    def read() -> None:
        for batch in open_source(str(path)).batches():
            for document in batch:
                assert isinstance(document.id, str)
                assert isinstance(document.content, str)

    quietly(read)
    quietly(lambda: read_pairs(str(path)))


@pytest.mark.slow
@pytest.mark.parametrize("ending", VALID)
@fuzzed
@given(st.data())
def test_sources(tmp_path: Path, ending: str, data: st.DataObject) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(data.draw(damaged(VALID[ending])))
    read_or_refused(path)


@pytest.mark.parametrize("ending", VALID)
def test_valid_sources_are_read(tmp_path: Path, ending: str) -> None:
    """So that what is damaged above is no nonsense to begin with."""
    path = tmp_path / f"x{ending}"
    path.write_bytes(VALID[ending])
    assert [len(batch) for batch in open_source(str(path)).batches()] == [2]


NPY = npy(np.arange(12, dtype=np.float32).reshape(3, 4))


@pytest.mark.slow
@fuzzed
@given(damaged(NPY))
@example(NPY.replace(b"(3, 4)", b"(3, 4 "))  # numpy reads the header as Python: a TokenError,
@example(NPY.replace(b"'descr': ", b"[]     : "))  # and a TypeError
def test_npy_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)

    def read() -> None:
        vectors = open_vectors(str(path), [])
        if len(vectors) * vectors.dim < 1 << 24:  # what is claimed was checked against the file
            check_vectors(vectors)

    quietly(read)
    quietly(lambda: read_query_vectors(str(path)))


@pytest.mark.slow
@fuzzed
@given(damaged(parquet()))
def test_vectors_in_parquet(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    quietly(lambda: check_vectors(open_vectors("v", [str(path)])))


LONG = " ".join(f"Line {i} of it." for i in range(12))
"""Passages."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "x.index"
    parts = [Part(0, ["A"]), Part(9, ["B"])]
    documents = [
        Document(
            f"d{i}", f"word{i} text {LONG if i % 5 == 1 else ''}", "", {"n": i}, parts[: i % 3]
        )
        for i in range(40)
    ]
    with (
        pytest.MonkeyPatch.context() as patch,
        Collection.create(path, ReadingEncoder(8), Settings(k=4, kind="flat")) as collection,
    ):
        patch.setattr(next_commit, "MOST_TRAILING", 0)  # so that columns are written
        collection.add(documents)
        assert collection.info()["passages"]["documents_cut"] == 8
        collection.delete(["d3"])
    return path


@pytest.fixture(scope="module")
def opened(made: Path) -> Collection:
    return Collection.open(made, ReadingEncoder(8))


ODD_ARRAYS = st.sampled_from(
    [
        *(np.zeros(shape) for shape in ((1, 8), (0, 8), (0,), 8, (1, 7), (1, 8, 1))),
        *(np.full((1, 8), value) for value in (np.nan, np.inf, 1e308)),
        *(np.full((1, 8), value, np.float32) for value in (3e38, 1e-45)),
        np.full((1, 8), 10**30, object),
        np.array([["a"] * 8]),
        np.array([[1j] * 8]),
        np.array([[None] * 8]),
        np.zeros((1, 8), bool),
        np.array(["2020-01-01"] * 8, "M8[D]")[None],
        np.zeros((1, 16))[:, ::2],
        np.zeros((8, 1)).T,
        [[1.0] * 8, [2.0]],
        [[]],
        "12345678",
        b"12345678",
        {"a": 1},
        7,
    ]
)


@fuzzed
@given(ODD_ARRAYS, st.integers(-3, 100), st.sampled_from([None, "n > 20", "n = -1", "true"]))
@example(np.array([[1j] * 8]), 5, None)
@example(np.full((1, 8), 1e308), 5, None)
@example(np.full((1, 8), 3e38, np.float32), 5, None)
@example(np.full((1, 8), 10**30, object), 5, None)
def test_query_vectors(opened: Collection, vectors: Any, k: int, where: str | None) -> None:
    def search() -> None:
        for hits in opened.search_many(vectors, limit=k, where=where):
            assert len(hits) <= k
            assert all(np.isfinite(hit.score) for hit in hits)

    quietly(search)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["reducer", "rescorer", "moments"])
@fuzzed
@given(st.data())
def test_fitted_files(tmp_path: Path, made: Path, role: str, data: st.DataObject) -> None:
    load: Any = {"reducer": load_reducer, "rescorer": Rescorer.load, "moments": Moments.load}[role]
    *_, file = sorted(made.glob(f"{role}-*"))  # `undo` needs an older one
    path = tmp_path / file.name
    path.write_bytes(data.draw(damaged(file.read_bytes())))
    quietly(lambda: load(path))


ODD_VALUES = st.sampled_from(
    [None, True, -1, 0, 1.5, 1 << 40, 10**400, "", "x", "../x", "\ud800", [], {}, [1], {"a": 1}]
)


@fuzzed
@given(st.data())
def test_states(opened: Collection, data: st.DataObject) -> None:
    values: Any = json.loads(opened.index.state.to_json())
    for _ in range(data.draw(st.integers(1, 3))):
        place = values
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
                break
            place = place[key]
        if data.draw(st.booleans()):
            place[key] = copy.deepcopy(data.draw(ODD_VALUES))
        else:
            del place[key]
        if not values:
            break
    quietly(lambda: State.from_json(json.dumps(values)))


@pytest.mark.slow
@fuzzed
@given(st.data())
def test_columns(tmp_path: Path, made: Path, data: st.DataObject) -> None:
    folder = tmp_path / "y.index"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder)
    (file,) = folder.glob("columns-*.parquet")
    whole = file.read_bytes()
    if data.draw(st.booleans()):  # as one block is damaged, not as all after it are moved
        at, piece = data.draw(st.integers(0, len(whole))), data.draw(INSERTED)
        file.write_bytes(whole[:at] + piece + whole[at + len(piece) :])
    else:
        file.write_bytes(data.draw(damaged(whole)))

    forge(folder)

    def use() -> None:
        verify(folder)
        with Collection.open(folder, ReadingEncoder(8)) as collection:
            collection.search_many("word1", where="n > 3")
            collection.add([Document("d1", "new"), Document("d5", f"new {LONG}")])
            collection.delete(["d2"])

    quietly(use)
