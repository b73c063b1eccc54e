"""An index that grew from one topic to all of them: what is seen, said, and made good.

The documents are docstrings of the standard library: those of one package first, then the others.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.catalog.state import Certificate
from slimdex.retrieval.cli.app import app
from slimdex.retrieval.cli.reports import health_lines
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repair import repair, verify
from slimdex.retrieval.quality.certified_recall import Measured, measured, verdict
from slimdex.retrieval.quality.fit_drift import Drift, drift
from slimdex.retrieval.quality.refitting import after_addition, may_have_changed
from slimdex.retrieval.sources.source import open_source
from slimdex.retrieval.trials.recall_trials import Pool
from tests.encoders import WordEncoder

EXACT = "agreement@10 with exact search"
FEW = Settings(k=16, kind="pq", candidates=20)
"""So that codes lose something among some thousand documents."""


@pytest.fixture(scope="module")
def docstrings() -> list[Document]:
    """Those of asyncio first, so that the fit knows nothing else."""
    found = [d for batch in open_source("python:").batches() for d in batch]
    topic = [d for d in found if d.id.startswith(("asyncio", "concurrent", "multiprocessing"))]
    known = {d.id for d in topic}
    others = [d for d in found if d.id not in known]
    order = np.random.default_rng(0).permutation(len(others))
    return [*topic[:640], *(others[i] for i in order)]


def old_fit(path: Path, documents: list[Document], more: int = 2000) -> Collection:
    """640 documents of one topic that the index was fitted on, then others."""
    collection = Collection.create(path, WordEncoder(), FEW)
    collection.add(documents[:640])
    collection.add(documents[640 : 640 + more], refit="never")
    return collection


def brute_agreement(collection: Collection, pool: Pool) -> float:
    """Agreement@10 by numpy: whitened cosines of everything, own rows left out."""
    state, shares = collection.state, []
    vectors = collection.commit_log.vectors().take(np.arange(state.rows)).astype(np.float64)
    metric = collection.reduced_index.metric
    assert metric is not None
    gram = metric.rescorer.gram
    assert gram is not None
    norms = np.sqrt(((vectors @ gram) * vectors).sum(axis=1))
    for query, own in zip(pool.vectors, pool.own, strict=True):
        scores = vectors @ (gram @ query) / np.where(norms > 0, norms, np.inf)
        scores[collection.snapshot.hidden] = scores[own[own >= 0]] = -np.inf
        truth = np.argsort(-scores)[:10]
        _, found = collection.reduced_index.search(
            query[None], 10, exclude=np.union1d(collection.snapshot.hidden, own)
        )
        shares.append(np.isin(truth, found).mean())
    return float(np.mean(shares))


@pytest.mark.slow
def test_figures_of_a_fit_are_kept_and_those_of_today_are_exact(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    with old_fit(tmp_path / "i", docstrings) as collection:
        fit, index = collection.state.fit, collection.reduced_index
        assert (fit["documents"], fit["rows"]) == (640, 640)
        found = drift(
            collection.state,
            index,
            collection.commit_log.moments(),
            collection.snapshot.hidden,
        )
        live = np.setdiff1d(np.arange(2640), collection.snapshot.hidden)
        for name, rows in (("then", live[live < 640]), ("now", live)):
            vectors = collection.commit_log.vectors().take(rows).astype(np.float64)
            axes, _ = np.linalg.qr(index.reducer.components_)  # type: ignore[attr-defined]
            expected = np.square(vectors @ axes).sum() / np.square(vectors).sum()
            assert getattr(found, f"variance_{name}") == pytest.approx(expected, abs=1e-5)
        assert found.since == len(live[live >= 640])
        old = live[live < 640]
        short = normalize_rows(index.reducer.transform(collection.commit_log.vectors().take(old)))
        lost = short - index.index.decoded(short)
        assert found.error_old == pytest.approx(np.square(lost).sum(axis=1).mean(), rel=1e-5)
        assert found.error_then == pytest.approx(found.error_old, rel=1e-5)
        assert found.error_new is not None
        assert found.error_old is not None
        assert found.error_new > 1.1 * found.error_old
        assert found.is_large


@pytest.mark.slow
def test_the_loss_is_the_measured_one_and_a_fit_of_today_restores_what_is_said(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    """By numpy, by the same queries; and by a real `reduce` after it."""
    with old_fit(tmp_path / "i", docstrings) as collection:
        report = collection.health(sample=500)
        pool = collection.pool(collection.snapshot, 500)
        before = brute_agreement(collection, pool)
        assert report["agreement"]["estimate"] == pytest.approx(before, abs=0.002)  # of float32
        assert report["agreement"]["bound"] < before
        collection.reduce(collection.state.requested)
        after = brute_agreement(collection, pool)
        assert report["refit"]["estimate"] == pytest.approx(after, abs=0.01)
        assert after > before + 0.01
        (advice,) = report["advice"]
        assert advice.startswith(f"agreement@10 is {report['agreement']['estimate']:.3f}, at least")
        assert f"; `slimdex reduce {tmp_path}/i` raises it to 0." in advice
        again = collection.health(sample=99)
        assert again["documents_since_fit"] == 0
        assert (again["refit"], again["advice"]) == (None, [])
        assert again["variance_kept"]["now"] == again["variance_kept"]["at_fit"]
        assert again["variance_kept"]["now"] == pytest.approx(
            report["variance_kept"]["refitted"], abs=1e-6
        )


@pytest.mark.slow
def test_a_refit_is_what_a_fresh_build_is(tmp_path: Path, docstrings: list[Document]) -> None:
    with old_fit(tmp_path / "i", docstrings, 2000) as collection:
        added = collection.add(docstrings[2640:3000], refit="always")
        assert added.refitted
        assert collection.state.fitted == len(collection) - len(collection.snapshot.textless)
        assert any("refitted in" in note for note in added.notes)
        vectors = collection.commit_log.vectors().take(np.arange(3000))
        found = collection.reduced_index.reducer.transform(vectors)
    with Collection.create(tmp_path / "fresh", WordEncoder(), FEW) as fresh:
        fresh.add(docstrings[:3000])
        expected = fresh.reduced_index.reducer.transform(vectors)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-3)
    assert verify(tmp_path / "i") == []


def certified(collection: Collection, promise: float | None = None) -> Certificate:
    """What `tune` would keep of an index as it is."""
    pool = collection.pool(collection.snapshot, 300)
    now = measured(collection.reduced_index, pool, collection.snapshot.hidden)
    settings = collection.state.settings
    assert settings is not None
    rows = collection.state.rows - len(collection.snapshot.hidden)
    made = Certificate(settings, now.estimate, now.bound, 0.05, pool.name, 300, rows, promise)
    writer.keep_certificate(collection, made)
    return made


@pytest.mark.slow
def test_a_certificate_that_holds_asks_for_nothing(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    """A refit that finds more is offered as what it is: not needed."""
    with old_fit(tmp_path / "i", docstrings, more=1500) as collection:
        certified(collection, 0.1)
        report = collection.health(sample=300)
        assert report["verdict"] == "holds"
        (advice,) = report["advice"]
        assert advice.startswith("the certified 0.1 holds, so nothing has to be done; agreement@10")
        assert health_lines(report)["certified"] == "0.1, which still holds"


@pytest.mark.slow
def test_an_addition_that_breaks_what_was_certified_says_so(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    with Collection.create(tmp_path / "i", WordEncoder(), FEW) as collection:
        collection.add(docstrings[:640])
        proved = certified(collection)
        assert collection.add(docstrings[640:650]).notes == []  # too few to matter
        assert collection.state.certificate == proved
        (note,) = collection.add(docstrings[650:2400], refit="never").notes
        kept = collection.state.certificate
        assert kept is not None
        assert f"{EXACT} is {kept.estimate:.4f}, at least {kept.bound:.4f}: below the" in note
        assert f"the certified {proved.bound:.4g}; `slimdex reduce {tmp_path}/i`" in note
        assert kept.target == proved.bound  # what is found now lowers no promise
        assert kept.rows == collection.state.rows - len(collection.snapshot.hidden)
        assert kept.estimate < proved.bound
        report = collection.health(sample=300)
        assert (report["certified"], report["verdict"]) == (proved.bound, "broken")
        assert report["agreement"]["estimate"] == kept.estimate  # the same queries
    assert verify(tmp_path / "i") == []


@pytest.mark.slow
@pytest.mark.parametrize("promise", [0.1, 0.99])
def test_a_refit_renews_what_was_certified(
    tmp_path: Path, docstrings: list[Document], promise: float
) -> None:
    with Collection.create(tmp_path / "i", WordEncoder(), FEW) as collection:
        collection.add(docstrings[:640])
        certified(collection, promise)
        notes = collection.add(docstrings[640:2000], refit="always").notes
        kept, pool = (
            collection.state.certificate,
            collection.pool(collection.snapshot, 300),
        )
        assert kept is not None
        assert kept.target == promise
        assert kept.estimate == pytest.approx(brute_agreement(collection, pool), abs=0.003)
        assert f"{EXACT} {kept.estimate:.4f}, at least {kept.bound:.4f}" in notes[0]
        assert collection.health(sample=300)["verdict"] == ("holds" if promise < 0.5 else "broken")
        assert ("slimdex tune" in notes[0]) is (promise > 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "is_refitted"), [(0.5, False), (1e6, True)])
def test_by_itself_only_if_that_takes_less_than_the_addition(
    tmp_path: Path, docstrings: list[Document], seconds: float, is_refitted: bool
) -> None:
    """What the addition took is told, so that a slow machine does not decide."""
    with Collection.create(tmp_path / "i", WordEncoder(), FEW) as collection:
        collection.add(docstrings[:640])
        collection.add(docstrings[640:1300], refit="never")
        with collection.change():
            settled = after_addition(collection, seconds)
        assert settled.refitted is is_refitted
        (note,) = settled.notes
        assert ("refitted in" if is_refitted else f"`slimdex reduce {tmp_path}/i`") in note
        assert collection.state.fitted == (1300 if is_refitted else 640)
        assert len(collection.search(docstrings[9].content)) == 10


def test_growth_of_one_topic_is_no_alarm(tmp_path: Path) -> None:
    """Rows of one distribution, four times as many: the fit is as good as it was."""
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(4000, 16)) * np.linspace(2, 0.5, 16)).astype(np.float32)
    documents = [Document(str(i), f"text {i}") for i in range(4000)]
    with Collection.create(tmp_path / "i", GivenEncoder(16), replace(FEW, k=8)) as collection:
        collection.add(documents[:1000], vectors=vectors[:1000])
        assert collection.add(documents[1000:], vectors=vectors[1000:]).notes == []
        report = collection.health(sample=800)
        assert report["documents_since_fit"] == 3000
        kept = report["variance_kept"]
        assert kept["now"] == pytest.approx(kept["refitted"], abs=0.005)
        assert report["refit"]["estimate"] == pytest.approx(
            report["agreement"]["estimate"], abs=0.02
        )


def test_more_of_the_same_may_break_a_promise_that_no_fit_restores(tmp_path: Path) -> None:
    """As many candidates find less among more rows: that is for other settings."""
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(8000, 16)) * np.linspace(2, 0.5, 16)).astype(np.float32)
    documents = [Document(str(i), f"text {i}") for i in range(8000)]
    with Collection.create(tmp_path / "i", GivenEncoder(16), replace(FEW, k=8)) as collection:
        collection.add(documents[:2000], vectors=vectors[:2000])
        certified(collection)
        added = collection.add(documents[2000:], vectors=vectors[2000:])
        assert not added.refitted
        (note,) = added.notes
        assert f"`slimdex tune {tmp_path}/i` looks for other settings" in note


@pytest.mark.slow
def test_searches_go_on_while_it_is_refitted(tmp_path: Path, docstrings: list[Document]) -> None:
    with old_fit(tmp_path / "i", docstrings, 1000) as collection:
        end, faults, asked = threading.Event(), list[str](), [0]

        def search() -> None:
            while not end.is_set():
                hits = collection.search(docstrings[3].content, limit=1)
                asked[0] += 1
                if [hit.text for hit in hits] != [docstrings[3].text]:
                    faults.append(str(hits))

        thread = threading.Thread(target=search)
        thread.start()
        try:
            assert collection.add(docstrings[1640:1700], refit="always").refitted
        finally:
            end.set()
            thread.join()
        assert not faults
        assert asked[0] > 0


@pytest.mark.slow
def test_what_is_kept_of_the_fit_survives(tmp_path: Path, docstrings: list[Document]) -> None:
    """Opening again, deletions, `compact` and `repair`."""
    path = tmp_path / "i"
    with old_fit(path, docstrings, 700) as collection:
        fit, before = collection.state.fit, collection.health(sample=9)
        gone = [docstrings[i].id for i in (1, 5, 300, 900)]
        collection.delete(gone)
        assert collection.state.fit == fit
        deleted = drift(
            collection.state,
            collection.reduced_index,
            collection.commit_log.moments(),
            collection.snapshot.hidden,
        )
        collection.compact()
        assert collection.state.fit == fit | {"rows": 637}
        compacted = drift(
            collection.state,
            collection.reduced_index,
            collection.commit_log.moments(),
            collection.snapshot.hidden,
        )
        assert compacted.since == deleted.since == before["documents_since_fit"] - 1
        assert compacted.variance_now == pytest.approx(deleted.variance_now)
        assert compacted.error_new == pytest.approx(deleted.error_new)
    name = next(path.glob("codes-*"))
    name.write_bytes(name.read_bytes()[:-5])
    assert repair(path)
    with Collection.open(path, WordEncoder()) as collection:
        now = collection.state.fit
        assert now is not None
        assert (now["rows"], now["documents"]) == (637, 640)
        assert now["variance_kept"] == fit["variance_kept"]  # the reducer was whole
        assert now["code_error"] != fit["code_error"]  # codes were trained again
        collection.delete(where="true")
        collection.compact()
        collection.add(docstrings[:700])
        assert collection.state.fit["rows"] == 700


def test_codes_alone_and_reducers_without_axes(tmp_path: Path) -> None:
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
            assert (report["refit"] is not None) is has_axes
            assert (report["variance_kept"]["now"] is not None) is has_axes


def test_a_verdict_worked_by_hand() -> None:
    def now(shares: list[float]) -> Measured:
        rows = np.zeros((1, 10), dtype=np.int64)
        return Measured(np.array(shares), rows, rows)

    proved = Certificate(Settings(), 0.96, 0.95, 0.05, "p", 500, 1000)
    assert proved.promised == 0.95
    assert replace(proved, target=0.9).promised == 0.9
    assert verdict(proved, now([1.0] * 500)) == "holds"
    assert verdict(proved, now([1.0] * 20)) == "not proved"  # too few to prove it
    assert verdict(proved, now([0.9, 0.9, 1.0])) == "broken"


def test_when_it_is_measured_again() -> None:
    proved = Certificate(Settings(), 0.96, 0.95, 0.05, "p", 500, 1000)
    calm = Drift(1200, 200, 1000, 0.9, 0.9, 0.9, 0.2, 0.2, 0.22)
    assert not may_have_changed(proved, calm)
    assert may_have_changed(proved, replace(calm, documents=1251))
    moved = replace(calm, variance_now=0.88)
    assert may_have_changed(proved, moved)
    assert may_have_changed(proved, replace(calm, error_new=0.24))
    assert not may_have_changed(proved, replace(moved, documents=1040))
    assert not replace(moved, since=0).is_large


def test_bad_input_is_one_line(tmp_path: Path, docstrings: list[Document]) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        with pytest.raises(InputError, match=r"refit='soon'; expected auto, never or always"):
            collection.add(docstrings[:9], refit="soon")
        with pytest.raises(InputError, match="holds no documents yet"):
            collection.health()
        collection.add(docstrings[:2])
        with pytest.raises(InputError, match="2 documents; at least 3"):
            collection.health()
        with pytest.raises(InputError, match="sample=0; expected 1 or more"):
            collection.health(sample=0)


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path, docstrings: list[Document]) -> None:
    """Of given vectors, since the command line knows no encoder of words."""
    vectors = WordEncoder().encode([d.content for d in docstrings[:2000]])
    path, run = str(tmp_path / "i"), CliRunner().invoke
    with Collection.create(path, GivenEncoder(48), FEW) as collection:
        collection.add(docstrings[:640], vectors=vectors[:640])
    np.save(tmp_path / "v.npy", vectors[640:])
    lines = [json.dumps({"id": d.id, "text": d.text or "none"}) for d in docstrings[640:2000]]
    (tmp_path / "more.jsonl").write_text("\n".join(lines))
    words = ["add", path, str(tmp_path / "more.jsonl"), "--vectors", str(tmp_path / "v.npy")]
    refused = run(app, [*words, "--refit", "soon"])
    assert isinstance(refused.exception, InputError)
    added = json.loads(run(app, [*words, "--refit", "never", "--json"]).stdout)
    assert (added["added"], added["refitted"]) == (1360, False)
    report = json.loads(run(app, ["health", path, "--json"]).stdout)
    assert report["documents_since_fit"] == 1360
    said = run(app, ["health", path])
    bound = report["agreement"]["bound"]
    assert f"at least {bound:.4f} with 95% confidence, by 2,000" in said.stdout
    assert "after a new fit" in said.stdout
    assert "raises it to" in said.stderr
    steps = json.loads(run(app, ["info", path, "--losses", "--json"]).stdout)["steps"]
    assert [step["step"] for step in steps] == ["float16", "whitened", "cut to k", "codes", "index"]
    table = run(app, ["info", path, "--losses", "--sample", "50"]).stdout
    assert "50 queries (vectors of two documents at a time" in table
    assert "codes, not rescored" in table
    assert isinstance(run(app, ["info", path, "--queries", "x"]).exception, InputError)
