"""Stores are the real libraries, where they are installed, each in processes of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.engines.document_stores import SLIMDEX, STORES, missing_stores
from slimdex.bench.engines.measured import store_process
from slimdex.bench.engines.remote_object import WorkerError
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.experiments.search_study import exact_rows, rows_of
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.ranking import agreement
from tests.encoders import WordEncoder
from tests.slow import slow

OURS = f"{SLIMDEX} own order"


def test_exact_rows_are_those_of_brute_force(task: Task) -> None:
    X, Q = (normalize_rows(f.take(np.arange(len(f)))) for f in (task.vectors, task.queries))
    cosines = Q @ X.T
    scores, rows = exact_rows(task)
    np.testing.assert_array_equal(rows, np.argsort(-cosines, axis=1, kind="stable")[:, :10])
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :10], atol=1e-6)


def test_documents_come_in_parts_that_belong_together(task: Task) -> None:
    documents = task.documents
    parts = list(documents.parts(most=300))
    assert [len(rows) for rows, *_ in parts] == [300, 300, 200]
    for rows, ids, texts, vectors in parts:
        assert ids == [f"d{row}" for row in rows]
        np.testing.assert_array_equal(WordEncoder().encode(texts), vectors)


@pytest.mark.slow
@pytest.mark.parametrize("name", [OURS, *slow(name for name in STORES if name != OURS)])
def test_a_store_gives_back_the_nearest_texts(task: Task, name: str, tmp_path: Path) -> None:
    if name in missing_stores():
        pytest.skip(f"{name} is not installed: pip install {missing_stores()[name]}")
    dataset, store = task.dataset, STORES[name]
    with store_process(name, WordEncoder, tmp_path, dataset.query_texts) as process:
        assert process.remote.build(task.documents) > 0
    with store_process(name, WordEncoder, tmp_path, dataset.query_texts) as asked:
        told = asked.remote
        told.use(store.efforts[-1] if store.efforts else store.default)
        _, rows = rows_of(told.answers(10, 60), dataset, 10)  # looks at every text
        times = told.times(10, 0, 20, threads=1)
        whole, grown = told.memory()
        codes = told.codes()
        if store.callers:
            crowd = told.crowd(10, range(60), None, callers=4)
            assert crowd.faults == 0
            assert len(crowd.times) == 60
            assert max(crowd.times) <= crowd.seconds
    same = agreement(rows, exact_rows(task)[1], 10).mean()
    assert same > (0.97 if store.efforts or name == "sqlite-vec" else 0.6)
    # Half of 48 dimensions, four bits for each four of them.
    assert codes == ({"rows": 800, "code_bytes": 800 * 3} if name.startswith(SLIMDEX) else {})
    assert set(times) == {"total", "encode", "search", "fetch"}
    assert all(len(seconds) == 20 for seconds in times.values())
    assert min(times["total"]) > min(times["encode"]) > 0
    assert min(times["search"]) > 0
    assert 0 < grown.own < whole.own
    assert 0 < grown.files <= whole.files


def test_a_store_that_takes_too_long_is_given_up(task: Task, tmp_path: Path) -> None:
    given = (SLIMDEX, WordEncoder, tmp_path, ["a text"])
    with (
        store_process(*given, longest=0.1) as process,
        pytest.raises(WorkerError, match="build: no answer in 0 s"),
    ):
        process.remote.build(task.documents)
    assert not process._process.is_alive()


def test_another_documents_text_is_no_answer(task: Task) -> None:
    ids, texts = task.dataset.ids, task.dataset.texts
    answers = [[(ids[3], texts[3])], [(ids[1], texts[1]), (ids[0], texts[0])]]
    scores, rows = rows_of(answers, task.dataset, 2)
    assert rows.tolist() == [[3, -1], [1, 0]]
    assert scores.tolist() == [[0, -np.inf], [0, -1]]
    with pytest.raises(WorkerError, match=r"answers: id 'd3' with the text '.{40}', not its own"):
        rows_of([[(ids[3], texts[4])]], task.dataset, 2)
