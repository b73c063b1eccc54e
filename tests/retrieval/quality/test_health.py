"""Health of an index that grew from one topic to all of them.

The documents are docstrings of the standard library: those of one package first, then the others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repairing import repair
from slimdex.retrieval.quality.evaluation import evaluate_self
from slimdex.retrieval.quality.health import drift, has_drifted, verdict
from slimdex.retrieval.sources.source import open_source
from slimdex.retrieval.store.state import Certificate
from tests.encoders import WordEncoder

FEW = Settings(k=16, gamma=0.25, kind="pq", candidates=20)
"""So that codes lose something among some thousand documents."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """640 documents that the index was fitted on, most of one topic, then 2,000 others."""
    found = [d for batch in open_source("python:").batches() for d in batch]
    topic = [d for d in found if d.id.startswith(("asyncio", "concurrent", "multiprocessing"))]
    known = {d.id for d in topic}
    others = [d for d in found if d.id not in known]
    order = np.random.default_rng(0).permutation(len(others))
    documents = [*topic, *(others[i] for i in order)]
    path = tmp_path_factory.mktemp("grown") / "i"
    with Collection.create(path, WordEncoder(), FEW) as collection:
        collection.add(documents[:640])
        collection.add(documents[640:2640], refit="never")
    return path


@pytest.fixture
def grown(tmp_path: Path, built: Path) -> Iterator[Collection]:
    shutil.copytree(built, tmp_path / "i")
    with Collection.open(tmp_path / "i", WordEncoder()) as collection:
        yield collection


@pytest.mark.slow
def test_variance_kept_and_code_error_are_those_by_numpy(grown: Collection) -> None:
    fit, index = grown.index.state.fit, grown.index.snapshot.index
    assert fit is not None
    assert (fit.documents, fit.rows) == (640, 640)
    found = drift(grown.index.snapshot)
    variance, error = found["variance_kept"], found["code_error"]
    live = np.setdiff1d(np.arange(2640), grown.index.snapshot.hidden)
    for name, rows in (("at_fit", live[live < 640]), ("now", live)):
        vectors = grown.index.snapshot.vectors().take(rows).astype(np.float64)
        axes, _ = np.linalg.qr(index.reducer.components_)  # type: ignore[attr-defined]
        expected = np.square(vectors @ axes).sum() / np.square(vectors).sum()
        assert variance[name] == pytest.approx(expected, abs=1e-5)
    assert found["rows_since_fit"] == len(live[live >= 640])
    old = live[live < 640]
    short = normalize_rows(index.reducer.transform(grown.index.snapshot.vectors().take(old)))
    lost = short - index.index.quantize(short)
    assert error["old_rows"] == pytest.approx(np.square(lost).sum(axis=1).mean(), rel=1e-5)
    assert error["at_fit"] == pytest.approx(error["old_rows"], rel=1e-5)
    assert error["new_rows"] > 1.1 * error["old_rows"]
    assert has_drifted(found)


@pytest.mark.slow
def test_agreement_is_that_of_eval_and_reduce_raises_it(grown: Collection) -> None:
    """Which is compared with brute force by its own tests."""
    report = grown.health(sample=500)
    before = report["agreement"]
    proved = evaluate_self(grown.index, sample=500)["proved"]
    # `eval` requests one more result, to drop the own document, and so rescores more rows.
    assert before["estimate"] == pytest.approx(proved["estimate"], abs=0.02)
    assert before["bound"] == pytest.approx(proved["bound"], abs=0.02)
    grown.reduce(grown.index.state.requested)
    after = grown.health(sample=500)
    assert after["agreement"]["estimate"] > before["estimate"] + 0.01
    assert after["rows_since_fit"] == 0
    kept = after["variance_kept"]
    assert kept["now"] == kept["at_fit"]
    assert kept["now"] == pytest.approx(report["variance_kept"]["refitted"], abs=1e-6)


@pytest.mark.slow
def test_health_says_whether_the_certified_agreement_holds(grown: Collection) -> None:
    settings = grown.index.state.settings
    assert settings is not None
    for promise, expected in ((0.1, "holds"), (0.999, "broken")):
        made = Certificate(0.999, 0.998, 0.05, "words", 300, 640, promise)
        writer.keep_certificate(grown.index, made, settings)
        report = grown.health(sample=300)
        assert (report["certified"], report["verdict"]) == (promise, expected)
    grown.reduce(grown.index.state.requested)
    assert grown.health(sample=300)["certified"] is None


@pytest.mark.slow
def test_figures_of_the_fit_survive_deletion_compact_and_repair(grown: Collection) -> None:
    fit = grown.index.state.fit
    assert fit is not None
    since = drift(grown.index.snapshot)["rows_since_fit"]
    ids = grown.index.store.ids_by_row()
    grown.delete([ids[i] for i in (1, 5, 300, 900)])
    assert grown.index.state.fit == fit
    deleted = drift(grown.index.snapshot)
    grown.compact()
    assert grown.index.state.fit == replace(fit, rows=637)
    compacted = drift(grown.index.snapshot)
    assert compacted["rows_since_fit"] == deleted["rows_since_fit"] == since - 1
    assert compacted["variance_kept"] == pytest.approx(deleted["variance_kept"])
    assert compacted["code_error"] == pytest.approx(deleted["code_error"])
    grown.close()
    name = next(grown.path.glob("codes-*"))
    name.write_bytes(name.read_bytes()[:-5])
    assert repair(grown.path)
    with Collection.open(grown.path, WordEncoder()) as collection:
        now = collection.index.state.fit
        assert now is not None
        assert (now.rows, now.documents) == (637, 640)
        assert now.variance_kept == fit.variance_kept  # the reducer was whole
        assert now.code_error != fit.code_error  # codes were trained again


def test_more_documents_of_the_same_topic_raise_no_alarm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(4000, 16)) * np.linspace(2, 0.5, 16)).astype(np.float32)
    documents = [Document(str(i), f"text {i}") for i in range(4000)]
    with Collection.create(tmp_path / "i", GivenEncoder(16), replace(FEW, k=8)) as collection:
        collection.add(documents[:1000], vectors=vectors[:1000])
        assert collection.add(documents[1000:], vectors=vectors[1000:]).notes == []
        report = collection.health(sample=800)
        assert report["rows_since_fit"] == 3000
        kept = report["variance_kept"]
        assert kept["now"] == pytest.approx(kept["refitted"], abs=0.005)


def test_health_without_rescoring_and_of_reducers_without_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1500, 16)).astype(np.float32)
    documents = [Document(str(i), f"text {i}") for i in range(1500)]
    for settings, has_axes in (
        (Settings(k=8, candidates=0), True),
        (Settings(k=8, reducer="autoencoder"), False),
    ):
        path = tmp_path / settings.reducer
        with Collection.create(path, GivenEncoder(16), settings) as collection:
            collection.add(documents[:700], vectors=vectors[:700])
            collection.add(documents[700:], vectors=vectors[700:], refit="never")
            report = collection.health(sample=100)
            assert 0 < report["agreement"]["estimate"] <= 1
            assert (report["variance_kept"]["now"] is not None) is has_axes


def test_verdicts() -> None:
    proved = Certificate(0.96, 0.95, 0.05, "p", 500, 1000)
    assert proved.promised == 0.95
    assert replace(proved, target=0.9).promised == 0.9
    assert verdict(proved, estimate=0.96, bound=0.951) == "holds"
    assert verdict(proved, estimate=0.96, bound=0.94) == "not proved"
    assert verdict(proved, estimate=0.94, bound=0.93) == "broken"


def test_drift_is_large_if_a_new_fit_keeps_more_or_new_codes_err_more() -> None:
    def figures(since: int = 200, now: float = 0.9, new_rows: float = 0.22) -> dict[str, Any]:
        return {
            "rows_since_fit": since,
            "variance_kept": {"at_fit": 0.9, "now": now, "refitted": 0.9},
            "code_error": {"at_fit": 0.2, "old_rows": 0.2, "new_rows": new_rows},
        }

    assert not has_drifted(figures())
    assert has_drifted(figures(now=0.88))
    assert has_drifted(figures(new_rows=0.24))
    assert not has_drifted(figures(new_rows=0.24, since=0))


def test_health_refuses_too_few_documents_and_queries(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        with pytest.raises(InputError, match="0 documents; at least 3"):
            collection.health()
        collection.add([Document("a", "one"), Document("b", "two")])
        with pytest.raises(InputError, match="2 documents; at least 3"):
            collection.health()
        collection.add(Document("c", "three"))
        with pytest.raises(InputError, match="sample=0; expected 1 or more"):
            collection.health(sample=0)
