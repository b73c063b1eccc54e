"""Points of an index, against brute force in numpy and as a user runs it; and points of a set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slimdex.bench.datasets import Dataset, Task
from slimdex.bench.engines.registry import Method, exact_method
from slimdex.bench.experiments import peers_study, points_study
from slimdex.bench.experiments.points_study import (
    ENOUGH,
    GRID,
    IndexPoints,
    LabelledQueries,
    Study,
    Subject,
    docstrings_index,
    gain_of_choice,
    grid,
    measure_grid,
    measure_settings,
    smallest,
)
from slimdex.bench.reporting.choices import by_task, front
from slimdex.bench.reporting.settings_page import (
    all_points,
    beside,
    read_run,
    summary,
    verdict,
    write_settings_page,
)
from slimdex.bench.rows import ResultsFile
from slimdex.errors import InputError
from slimdex.indexes.options import REDUCERS
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from slimdex.retrieval.index import Index
from slimdex.system.progress import listening
from tests.bench.conftest import ABOUT
from tests.bench.test_commands import bench
from tests.browsing import DESKTOP, PHONE, check_accessible, launched, watched
from tests.encoders import WordEncoder, direction

BUILD = ("slimdex", "reduce", "words.index")
SMALL = [
    exact_method(48),
    Method("slimdex", Settings(k=24), (0, 200)),
    Method("too much", Settings(k=96)),
]


@pytest.fixture
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure a part of the grid, where all of it would show nothing else."""
    monkeypatch.setattr(points_study, "GRID", (("pq", (0.5,)), ("flat", (1.0,))))
    monkeypatch.setattr(points_study, "CELLS", ((0.0, 0.0), (1.0, 1.0)))


@pytest.fixture(scope="module")
def words(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """The set of words as an index, with some documents deleted."""
    path = tmp_path_factory.mktemp("words") / "words.index"
    with Collection.create(path, WordEncoder(), lexical=False) as collection:
        collection.add(map(Document, dataset.ids, dataset.texts))
        collection.delete(dataset.ids[780:])
        yield collection.index


@pytest.fixture(scope="module")
def given(dataset: Dataset) -> LabelledQueries:
    return list(zip(dataset.query_ids, dataset.query_texts, strict=True)), dataset.qrels


@pytest.fixture(scope="module")
def measured(words: Index, given: LabelledQueries) -> IndexPoints:
    return measure_settings(Subject(words, "words & more", BUILD, labelled_queries=given), 0)


def unit(X: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float64)


def whitened(X: NDArray[Any], beta: float, gamma: float, k: int) -> tuple[Any, Any]:
    """Shift and map of whitening to k dimensions, by its definition."""
    mean = X.mean(axis=0)
    centred = X - beta * mean
    values, axes = np.linalg.eigh(centred.T @ centred / len(X))
    order = np.argsort(-values)[:k]
    return beta * mean, axes[:, order] * values[order] ** (-gamma / 2)


def test_points_are_what_brute_force_finds(
    words: Index, measured: IndexPoints, dataset: Dataset
) -> None:
    """Of exact kinds, with each (beta, gamma) and each k, in float64."""
    encoder = WordEncoder()
    X = encoder.encode(dataset.texts[:780]).astype(np.float16).astype(np.float64)
    queries = encoder.encode(dataset.query_texts).astype(np.float64)
    targets = np.arange(len(queries))  # query i is words of document i

    def ranked(beta: float, gamma: float, k: int) -> NDArray[np.int64]:
        # Moments count deleted rows no more, and neither does this.
        shift, weights = whitened(X, beta, gamma, k)
        scores = unit((queries - shift) @ weights) @ unit((X - shift) @ weights).T
        return np.argsort(-scores, axis=1, kind="stable")[:, :10]

    def quality(rows: NDArray[np.int64]) -> tuple[float, float]:
        places = np.where(rows == targets[:, None], np.arange(10), np.inf).min(axis=1)
        return float((1 / np.log2(places + 2)).mean()), float((1 / (places + 1)).mean())

    encoders = np.argsort(-(unit(queries) @ unit(X).T), axis=1, kind="stable")[:, :10]
    exact = measured.exact
    assert exact["recall@10"] == exact["encoder_recall@10"] == 1
    assert exact["bytes_per_vector"] == 4 * 48
    assert (exact["ndcg@10"], exact["mrr@10"]) == pytest.approx(quality(encoders))
    flat = [p for p in measured.kinds if p["kind"] == "flat" and p["candidates"] == 0]
    assert [p["k"] for p in flat] == [6, 12, 24, 48]
    for point in flat:
        rows = ranked(0, 0, point["k"])
        whole = ranked(0, 0, 48)
        found = np.mean([len({*a} & {*b}) / 10 for a, b in zip(rows, whole, strict=True)])
        assert point["recall@10"] == pytest.approx(found, abs=0.005)  # ties of float32
        assert (point["ndcg@10"], point["mrr@10"]) == pytest.approx(quality(rows), abs=0.005)
        assert point["bytes_per_vector"] == 4 * point["k"]
    assert len(measured.metrics) == 25
    for point in measured.metrics:  # rescored: nearly as exact search in the same metric
        rows = ranked(point["beta"], point["gamma"], 48)
        same = np.mean([len({*a} & {*b}) / 10 for a, b in zip(rows, encoders, strict=True)])
        lost = 1 - point["recall@10"]  # what rescoring did not see
        assert point["encoder_recall@10"] == pytest.approx(same, abs=lost + 0.005)
        assert point["ndcg@10"] == pytest.approx(quality(rows)[0], abs=lost + 0.01)


def test_every_kind_is_measured_at_every_k_and_its_command_makes_it(
    words: Index, measured: IndexPoints
) -> None:
    shares = {(kind, round(48 * share)) for kind, own in GRID for share in own}
    possible = {(kind, k) for kind, k in shares if kind != "pq" or k % 4 == 0} | {("pq", 4)}
    assert {(p["kind"], p["k"]) for p in measured.kinds} == possible
    assert {p["candidates"] for p in measured.kinds} == {None, 0}
    assert {(p["k"], p["gamma"]) for p in measured.dimensions} == {
        (k, gamma) for k in (4, 12, 24, 48) for gamma in (0, 0.25, 0.5, 0.75, 1)
    }
    settings = words.state.settings
    assert settings is not None
    assert measured.current["command"] == (
        f"slimdex reduce words.index --k {settings.k} --beta 0 --gamma 0 --kind pq"
    )
    alone = measured.kinds[1]
    assert alone["command"] == f"{measured.current['command']} --candidates 0"


def test_differences_from_exact_search_are_paired_by_query(measured: IndexPoints) -> None:
    exact = measured.exact
    assert exact["ndcg@10_delta"] == exact["ndcg@10_delta_low"] == exact["ndcg@10_delta_high"] == 0
    for point in (*measured.kinds, *measured.metrics, *measured.dimensions):
        delta = point["ndcg@10_delta"]
        assert delta == pytest.approx(point["ndcg@10"] - exact["ndcg@10"])
        assert point["ndcg@10_delta_low"] <= delta <= point["ndcg@10_delta_high"]
        assert point["recall@10_low"] <= point["recall@10"] <= point["recall@10_high"]


def test_sizes_are_those_of_all_codes(measured: IndexPoints) -> None:
    for point in measured.kinds:
        codes = 800 * point["bytes_per_vector"] + point["fixed_bytes"]
        assert point["memory_bytes"] == pytest.approx(codes)
        assert point["disk_bytes"] == pytest.approx(codes + 800 * 48 * 2)


def test_more_candidates_find_more(measured: IndexPoints) -> None:
    """If half of the documents are rescored, the codes hardly matter."""
    curves = dict[tuple[Any, ...], list[Any]]()
    for point in measured.curves:
        curves.setdefault((point["kind"], point["k"]), []).append(point)
    assert {kind for kind, _ in curves} >= {"pq", "rabitq", "sq4", "sq8"}
    for points in curves.values():
        assert [p["candidates"] for p in points] == [10, 20, 50, 100, 200, 400]
        recalls = [p["recall@10"] for p in points]
        assert recalls == sorted(recalls)
        assert recalls[-1] > 0.99


def test_the_best_metric_is_judged_by_queries_that_did_not_choose_it() -> None:
    """If metrics differ only by chance, the best one gains nothing on other queries."""
    rng, settings = np.random.default_rng(0), [Settings(k) for k in range(1, 26)]
    gains, best = [], []
    for _ in range(200):
        study = SimpleNamespace(ndcg={each: rng.normal(size=60) for each in settings})
        gains.append(gain_of_choice(study, settings, settings[0])["ndcg@10_delta"])  # type: ignore[arg-type]
        means = [values.mean() for values in study.ndcg.values()]
        best.append(max(means) - means[0])
    assert np.mean(best) > 0.2
    assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(200)


def test_the_search_that_users_get_is_measured_from_a_text(
    words: Index, measured: IndexPoints, given: LabelledQueries
) -> None:
    search = measured.search
    assert search is not None
    queries, qrels = given
    places = []
    for id, text in queries:
        (wanted,) = qrels[id]
        ids = [hit.id for hit in Collection.open(words.path, WordEncoder()).search(text, 10)]
        places.append(ids.index(wanted) if wanted in ids else np.inf)
    assert search["ndcg@10"] == pytest.approx(np.mean(1 / np.log2(np.array(places) + 2)))
    assert not search["has_words"]
    assert search["p50_ms"] > 0


def test_a_graph_finds_what_exact_search_does(
    words: Index, given: LabelledQueries, tmp_path: Path
) -> None:
    pytest.importorskip("hnswlib", reason="hnswlib, of the extra peers, is not installed")
    snapshot = words.snapshot.open()
    subject = Subject(words, "words", BUILD, labelled_queries=given)
    points = [*Study(subject, snapshot, 0, tmp_path).graph()]
    assert [point["effort"] for point in points] == [10, 20, 40, 80, 160, 320, 640]
    assert points[-1]["recall@10"] > 0.99


def test_the_least_memory_that_suffices_is_chosen(measured: IndexPoints) -> None:
    chosen = measured.chosen
    assert chosen is not None
    least = measured.exact["ndcg@10"] - 0.01
    for point in measured.kinds:
        if point["memory_bytes"] < chosen["memory_bytes"]:
            assert point["recall@10"] < ENOUGH or point["ndcg@10"] < least
    codebooks = chosen | {"bytes_per_vector": 1, "memory_bytes": chosen["memory_bytes"] + 1}
    assert smallest([codebooks, chosen], measured.exact) is chosen
    assert smallest([p | {"recall@10": 0.9} for p in measured.kinds], measured.exact) is None


@pytest.mark.usefixtures("few_settings")
def test_queries_made_of_documents_ask_for_them(words: Index) -> None:
    """Exact search finds most of them, and recall leaves them out."""
    made = measure_settings(Subject(words, "words", BUILD), 40)
    assert made.facts["queries"] == 40
    assert "each asks for the document that it was made of" in made.facts["queries_are"]
    assert made.exact["recall@10"] == 1
    assert 0.5 < made.exact["ndcg@10"] < 1


def test_own_rows_do_not_add_candidates(words: Index, tmp_path: Path) -> None:
    """Recall is that of single searches for ten, which leave out the documents asked for."""
    snapshot = words.snapshot.open()
    study = Study(Subject(words, "words", BUILD), snapshot, 40, tmp_path)
    pool = study.pool
    assert pool.held_out.shape[1] > 0
    settings = Settings(4, kind="pq", beta=0.0, gamma=0.0)
    (point,) = study.measure("settings", [settings], [10])
    index = study.trials.build(replace(settings, candidates=10))
    truth = study.trials.exact(pool, Rescorer.fit(study.trials.moments, 0.0, 0.0))
    agreed, _ = study.trials.measure(index, pool, truth)
    assert (point["candidates"], point["recall@10"]) == (10, pytest.approx(agreed.mean()))


def test_a_data_set_is_indexed_for_the_time_of_a_run(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path))
    encoder = WordEncoder()
    for _ in range(2):
        with docstrings_index(dataset, encoder) as subject:
            assert subject.labelled_queries is not None
            queries, qrels = subject.labelled_queries
            assert len(subject.index.snapshot) == 800
            assert (queries[0], qrels["q0"]) == (("q0", dataset.query_texts[0]), {"d0": 1})
            path = subject.index.path
        assert not path.exists()
    assert len(encoder.encoded) == 800  # once


@pytest.fixture(scope="module")
def page(measured: IndexPoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "bench.html"
    about = ABOUT | {"processor": "An <Example> 3000", "flags": "avx2"}
    write_settings_page(path, measured, about)
    return path


def test_the_page_says_what_was_measured(page: Path, measured: IndexPoints) -> None:
    text = page.read_text()
    assert text.count("<svg role=") == 5
    assert "An &lt;Example&gt; 3000 (avx2)" in text
    assert "<h1>words &amp; more: quality against memory</h1>" in text
    points = all_points(measured)
    table = text[text.index("All points") :]
    assert table.count("<tr>") == len(points) + 1
    for point in points:
        assert point["command"] in table
        assert f">{point['ndcg@10']:.3f}</td>" in table
    tooltips = re.findall("<title>([^<]*)</title>", text)[1:]
    drawn = [*measured.kinds, *measured.curves, *measured.metrics, *measured.dimensions]
    assert len(tooltips) > len(drawn)
    for point in drawn:
        own = [tip for tip in tooltips if tip.endswith(f"\n{point['command']}")]
        assert any(f"recall@10 {point['recall@10']:.3f}" in tip for tip in own)
    first, *_ = (row for row in summary(measured).rows if "now" in row[0].shown)
    assert first[6].shown == f"{measured.current['recall@10']:.3f}"


def test_the_page_says_what_to_do(measured: IndexPoints) -> None:
    chosen, current = measured.chosen, measured.current
    assert chosen is not None
    assert verdict(measured)[0].startswith(f"Change to {chosen['kind']}, k={chosen['k']}: ")
    assert f"`{chosen['command']}`" in verdict(measured)[0]
    kept = replace(measured, chosen=current)
    assert verdict(kept)[0].startswith(f"Keep {current['kind']}, k={current['k']}: ")
    assert verdict(replace(measured, chosen=None))[0].startswith("No setting has a recall@10 of ")


def test_the_front_is_what_nothing_smaller_beats(measured: IndexPoints) -> None:
    best = front(measured.kinds, "memory_bytes", "recall@10")
    for point in measured.kinds:
        beaten = any(
            other["memory_bytes"] <= point["memory_bytes"]
            and other["recall@10"] >= point["recall@10"]
            and other is not point
            for other in measured.kinds
        )
        assert beaten or point in best


def test_a_run_is_shown_beside_an_earlier_one(measured: IndexPoints, tmp_path: Path) -> None:
    about = ABOUT | {"processor": "Before", "flags": ""}
    run = measured.as_dict() | {"machine": about}
    run["kinds"] = [point | {"p50_ms": 2 * point["p50_ms"]} for point in measured.kinds]
    (tmp_path / "old.json").write_text(json.dumps(run))
    before = read_run(tmp_path / "old.json")
    rows = {row[0].shown: row for row in beside(measured, before).rows}
    exact = rows.pop("flat, k=48 (float32, exact)")
    assert exact[-1].shown == "1.00"
    assert {row[-1].shown for row in rows.values()} == {"0.50"}
    assert len(rows) >= len(GRID)
    write_settings_page(tmp_path / "page.html", measured, ABOUT | {"flags": ""}, before)
    assert "Then: words &amp; more, 780 documents" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_the_page_needs_no_network_and_is_accessible(measured: IndexPoints, tmp_path: Path) -> None:
    """A page of fewer points, as axe-core looks at each of them."""
    few = {name: getattr(measured, name)[::5] for name in ("kinds", "metrics", "dimensions")}
    write_settings_page(tmp_path / "page.html", replace(measured, **few), ABOUT | {"flags": ""})
    for browser in launched():
        for size, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
            options = {**size, "color_scheme": scheme, "offline": True, "bypass_csp": True}
            with watched(browser, ("file:", "data:"), **options) as tab:
                tab.goto((tmp_path / "page.html").as_uri())
                tab.locator("summary").click()
                check_accessible(tab)


@pytest.fixture
def static(tmp_path: Path, dataset: Dataset) -> Path:
    """The set of words as a folder's index, by vectors of words in a file."""
    known = sorted({word for text in dataset.texts for word in text.split()})
    lines = [" ".join([word, *map(str, direction(word, 48))]) for word in known]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    encoder = StaticEncoder(str(tmp_path / "vectors.txt"))
    with Collection.create(tmp_path / "words.index", encoder, lexical=False) as collection:
        collection.add(map(Document, dataset.ids, dataset.texts))
    return tmp_path


@pytest.mark.usefixtures("few_settings")
def test_an_index_is_measured_without_a_command(
    static: Path, beir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By labels and without, named or found by the variable; `settings` is the command's name."""
    before = {path: path.stat().st_mtime_ns for path in (static / "words.index").rglob("*")}
    labels = ("--queries", beir / "words/queries.jsonl", "--qrels", beir / "words/qrels/test.tsv")
    said = json.loads(bench("words.index", *labels, "--json", folder=static))
    assert (said["name"], said["documents"], said["queries"]) == ("words.index", 800, 60)
    assert said["machine"]["processor"] in (static / "bench.html").read_text()
    monkeypatch.setenv("SLIMDEX_INDEX", "words.index")
    (static / "before.json").write_text(json.dumps(said))
    against = ("--against", "before.json")
    said_too = bench("--sample", 30, "--out", "other.html", *against, folder=static)
    assert "Then: words.index, 800 documents, 60 queries." in " ".join(said_too.split())
    assert said_too.splitlines()[-1] == "Charts: other.html"
    assert "30 queries" in (static / "other.html").read_text()
    lines = said_too.splitlines()
    place = next(i for i, line in enumerate(lines) if line.split()[:2] == ["kind", "k"])
    head, first = lines[place : place + 2]
    heads = "kind k bytes share MB recall@10 nDCG@10 difference MRR@10 ms"
    assert " ".join(head.split()) == heads
    assert first.split()[:6] == ["float32,", "exact", "flat", "48", "192", "1"]
    after = {path: path.stat().st_mtime_ns for path in (static / "words.index").rglob("*")}
    assert after == before
    assert " settings [OPTIONS] [DIR]\n" in bench("settings", "--help", folder=static)


def test_too_few_documents_say_so(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder(), lexical=False) as collection:
        with pytest.raises(InputError, match="holds no documents; expected some to measure"):
            measure_settings(Subject(collection.index, "x", BUILD), 10)
        collection.add([Document(str(i), f"word{i} rain") for i in range(12)])
        made = measure_settings(Subject(collection.index, "x", BUILD), 10)
    assert made.exact["recall@10"] == 1
    assert json.dumps(made.as_dict())


@pytest.mark.parametrize("dim", [384, 768])
def test_every_method_of_the_grid_suits_the_vectors(dim: int) -> None:
    methods = grid(dim, 60_000)
    assert methods[0] == exact_method(dim)
    assert len(set(methods)) == len(methods)
    for method in methods:
        if method.settings:
            method.settings.checked(dim)
    reducers = {method.settings.reducer for method in methods if method.settings}
    assert reducers == set(REDUCERS) - {"pca"}  # which is whitening's (1, 0)
    assert any(600 in method.efforts for method in methods)  # 1% of the rows
    assert set(grid(dim, 60_000, quick=True)) < set(methods)


@pytest.mark.slow
def test_rows_are_measured_once_and_a_killed_run_goes_on(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points_study, "grid", lambda *_, **__: SMALL)
    monkeypatch.setattr(peers_study, "BUILDS", 2)
    path = tmp_path / "rows.jsonl"
    measure_grid(task, ResultsFile(path), ABOUT)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    exact, codes, rescored, failed = ResultsFile(path).rows.values()
    assert exact["ndcg@10_delta"] == exact["ndcg@10_low"] == 0
    assert exact["agreement@10"] == 1
    assert exact["compression"] == 1
    assert codes["compression"] == 64
    assert codes["ndcg@10_low"] <= codes["ndcg@10_delta"] <= codes["ndcg@10_high"] < 0
    assert rescored["ndcg@10"] > codes["ndcg@10"]
    assert rescored["candidates"] == 200
    assert rescored["seed"] == 0
    assert failed["error"] == "build: k=96; expected 1 to the encoder's 48 dimensions"
    assert by_task([failed, exact]) == {("words", "words"): [exact]}

    path.write_text("".join(lines[:2]) + lines[2][:50])  # as a kill leaves it
    measured_again: list[str] = []
    report = lambda stage, done, total: measured_again.append(f"{stage} {done}/{total}")  # noqa: E731
    with listening(report):
        measure_grid(task, ResultsFile(path), ABOUT)
    own = [line for line in measured_again if line.startswith("words")]
    assert own == ["words, words 1/3", "words, words 2/3", "words, words 3/3"]
    rows = ResultsFile(path).rows.values()
    assert [r["method"] for r in rows] == ["float32", "slimdex", "slimdex", "too much"]
