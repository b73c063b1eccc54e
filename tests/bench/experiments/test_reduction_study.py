"""The reduction experiment, and the study's tables and charts, from rows measured in the test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import vl_convert
from scipy.stats import pearsonr

from slimdex.bench.data.layer_vectors import Layers
from slimdex.bench.data.pairs import Pairs
from slimdex.bench.experiments.reduction_study import (
    NONE,
    Reduction,
    Search,
    Sentences,
    measure_reduction,
)
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.experiments.similarity_study import measure_study, study
from slimdex.bench.reporting.similarity_charts import study_charts
from slimdex.bench.reporting.similarity_tables import reduction_tables, study_tables
from slimdex.bench.rows import ResultsFile, Row
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.linear import Pca
from tests.bench.conftest import ABOUT

pytestmark = pytest.mark.slow

N, D = 300, 24


@pytest.fixture(scope="module")
def task_of_words(task: Task) -> Reduction:
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(3, N, 48)) * np.linspace(2, 0.2, 48) + 0.5).astype(np.float32)
    names = [f"s{i}" for i in range(N)]
    pairs = Pairs("P", names, names, np.vecdot(X[1], X[2]).astype(np.float64), [""] * N)
    rows = (file.take(np.arange(len(file))) for file in (task.vectors, task.queries))
    return Reduction(X[0], [Sentences(pairs, X[1], X[2])], [Search(task.dataset, *rows)])


def test_reductions_are_measured_once_and_as_by_hand(
    task_of_words: Reduction, tmp_path: Path
) -> None:
    results = ResultsFile(tmp_path / "reduction-words.jsonl")
    measure_reduction("words", task_of_words, results, ABOUT)
    rows = list(results.rows.values())
    assert [row["reducer"] for row in rows[:2]] == [NONE, "PCA"]
    assert {row["k"] for row in rows} == {48, 12}
    plain = rows[0]
    assert plain["similarity_pearson"] == pytest.approx(100)
    assert plain["words ndcg@10_delta"] == 0
    (sentences,) = task_of_words.sentences
    pca = Pca(12).fit(task_of_words.fitted_on)
    a, b = (normalize_rows(pca.transform(side)) for side in (sentences.first, sentences.second))
    expected = 100 * pearsonr(np.vecdot(a, b), sentences.pairs.gold).statistic
    assert rows[1]["sts_pearson"] == pytest.approx(expected, abs=1e-3)
    assert 0 < rows[1]["similarity_pearson"] < 100
    before = results.path.read_text()
    measure_reduction("words", task_of_words, results, ABOUT)
    assert results.path.read_text() == before
    (table,) = reduction_tables(rows)
    assert table.title == "words, 48 dimensions"
    assert len(table.rows) == len(rows) == 10
    assert table.heads[5:7] == ["words, MRR@10", "words, nDCG@10"]


@pytest.fixture(scope="module")
def study_rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    rng = np.random.default_rng(4)
    X = (rng.normal(size=(N, 4, D)) * np.linspace(2, 0.2, D) + 0.5).astype(np.float32)
    names = [f"s{i}" for i in range(N)]
    layers = Layers({name: i for i, name in enumerate(names)}, X)
    half = N // 2
    sets = [
        Pairs(name, names[:half], names[half:], rng.uniform(size=half), [""] * half)
        for name in ("A", "B")
    ]
    results = ResultsFile(tmp_path_factory.mktemp("sts") / "sts-words.jsonl")
    facts = {"model": "words", "language": "english", "sets": ["A", "B"], "width": D}
    ways = study(4, D, ["mean"], nli=False, quick=False)
    measure_study(ways, {"mean": layers}, sets, [], results, facts, ABOUT)
    return list(results.rows.values())


def test_the_study_s_table_has_the_papers_layout(study_rows: list[Row]) -> None:
    (table,) = study_tables(study_rows)
    assert table.heads == ["", "A", "B", "average"]
    names = [line[0].shown for line in table.rows]
    assert names[:2] == ["mean@-1", "mean@-1, whitened on target"]
    assert "mean@1,-1, (0, 0) on target, k=12" in names
    assert [name for name in names if "flow" in name] == ["mean@1,-1, flow on target"]
    plain, white = (next(line for line in table.rows if line[0].shown == n) for n in names[:2])
    change = float(white[3].value) - float(plain[3].value)
    assert white[3].shown == f"{white[3].value:.2f} ({change:+.2f})"


def test_every_figure_is_drawn(study_rows: list[Row]) -> None:
    charts = study_charts(study_rows)
    assert list(charts) == ["sts-k", "sts-layers", "sts-best", "sts-surface", "sts-reducers"]
    for figure in charts.values():
        assert len(vl_convert.vegalite_to_png(figure.picture().to_dict())) > 5000
    assert study_charts([]) == {}
