"""Databases are the real libraries, where they are installed, each in processes of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.engines.engine import DOCUMENTS, Documents
from slimdex.bench.engines.measuring import store_process
from slimdex.bench.engines.processes import WorkerError
from slimdex.bench.engines.registry import LIBRARIES, SLIMDEX, libraries_for, missing
from slimdex.bench.experiments.peers_study import exact_answers
from slimdex.bench.experiments.search_study import documents_of, rows_of
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.ranking import agreement
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from tests.encoders import WordEncoder
from tests.slow import slow

OURS = f"{SLIMDEX} by vectors"


def test_exact_answers_are_those_of_brute_force(task: Task) -> None:
    X, Q = (normalize_rows(f.take(np.arange(len(f)))) for f in (task.vectors, task.queries))
    cosines = Q @ X.T
    scores, rows = exact_answers(task, 10)
    np.testing.assert_array_equal(rows, np.argsort(-cosines, axis=1, kind="stable")[:, :10])
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :10], atol=1e-6)


def test_documents_come_in_parts_that_belong_together(tmp_path: Path) -> None:
    numbers = np.arange(20_000)
    vectors = VectorFile(tmp_path / "vectors", 1, format=FLOAT32)
    vectors.append(numbers[:, None].astype(np.float32))
    texts = [f"text {number}" for number in numbers]
    parts = [*Documents(vectors, [*map(str, numbers)], texts).parts()]
    assert len(parts) > 1
    assert [row for part in parts for row in part.rows] == numbers.tolist()
    for rows, ids, own, values in parts:
        assert ids == [str(row) for row in rows]
        assert own == [f"text {row}" for row in rows]
        assert values.tolist() == [[row] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [OURS, *slow(name for name in libraries_for(DOCUMENTS) if name != OURS)]
)
def test_a_database_gives_back_the_nearest_texts(task: Task, name: str, tmp_path: Path) -> None:
    if absent := missing([name]):
        pytest.skip(f"{name} is not installed: pip install {absent[name]}")
    dataset, library = task.dataset, LIBRARIES[name]
    with store_process(name, WordEncoder, tmp_path, dataset.query_texts) as process:
        assert process.remote.build(documents_of(task)) > 0
    with store_process(name, WordEncoder, tmp_path, dataset.query_texts) as asked:
        told = asked.remote
        told.use(library.for_documents[-1])
        _, rows = rows_of(told.answers(10, 60), dataset, 10)  # looks at every text
        times = told.times(10, 0, 20, threads=1)
        whole, grown = told.memory()
        codes = told.codes()
        if library.callers:
            crowd = told.crowd(10, range(60), callers=4)
            assert crowd.faults == 0
            assert len(crowd.times) == 60
            assert max(crowd.times) <= crowd.seconds
    same = agreement(rows, exact_answers(task, 10)[1], 10).mean()
    is_exact = len(library.for_documents) > 1 or name == "sqlite-vec"
    assert same > (0.97 if is_exact else 0.6)
    # Half of 48 dimensions, four bits for each four of them.
    assert codes == ({"rows": 800, "code_bytes": 800 * 3} if name.startswith(SLIMDEX) else {})
    assert set(times) == {"total", "encode"}
    assert all(len(seconds) == 20 for seconds in times.values())
    assert min(times["total"]) > min(times["encode"]) > 0
    assert 0 < grown.private < whole.private
    assert 0 < grown.files <= whole.files


def test_a_database_that_takes_too_long_is_given_up(task: Task, tmp_path: Path) -> None:
    given = (SLIMDEX, WordEncoder, tmp_path, ["a text"])
    with (
        store_process(*given, longest=0.1) as process,
        pytest.raises(WorkerError, match="build: no answer in 0 s"),
    ):
        process.remote.build(documents_of(task))
    assert not process._process.is_alive()


def test_another_documents_text_is_no_answer(task: Task) -> None:
    ids, texts = task.dataset.ids, task.dataset.texts
    answers = [[(ids[3], texts[3])], [(ids[1], texts[1]), (ids[0], texts[0])]]
    scores, rows = rows_of(answers, task.dataset, 2)
    assert rows.tolist() == [[3, -1], [1, 0]]
    assert scores.tolist() == [[0, -np.inf], [0, -1]]
    with pytest.raises(WorkerError, match=r"answers: id 'd3' with the text '.{40}', not its own"):
        rows_of([[(ids[3], texts[4])]], task.dataset, 2)
