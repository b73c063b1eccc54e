"""The model against indexes of 60 thousand, 1.18 million and 10 million rows.

Those that `bench/results` has no rows of are told in docs/benchmarks.md (A million sentences) and
docs/limits.md. They were measured on other machines: bytes have to fit, seconds nearly so.
"""

from __future__ import annotations

import pytest

from slimdex.bench.planning.checks import Check, checks
from slimdex.bench.planning.estimates import Asked, Estimates
from slimdex.bench.planning.model import Model
from slimdex.bench.planning.workload import Machine, Workload
from slimdex.bench.rows import FOLDER

MILLION = Workload(1_183_499, 384, tokens=23.6, text_bytes=96.8)
"""Sentences of as many tokens and bytes on average."""
TEN_MILLION = Workload(10_000_000, 384)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.of(FOLDER)


@pytest.fixture(scope="module")
def found(model: Model) -> list[Check]:
    return checks(model, FOLDER)


def estimates(model: Model, workload: Workload) -> Estimates:
    return Estimates(model, Asked(workload, Machine(ram=10**12, cores=1)))


def test_every_measured_index_is_checked(found: list[Check]) -> None:
    made = [(check.rows, check.dim) for check in found if check.of == "made vectors"]
    assert {(60_000, 384), (200_000, 768), (1_000_000, 384), (3_000_000, 384)} <= set(made)
    real = {(check.of, check.rows) for check in found if check.of != "made vectors"}
    assert real == {
        ("debian-desc, all-MiniLM-L6-v2", 60_523),
        ("sentences_large, paraphrase-MiniLM-L3-v2", 1_183_499),
    }


def test_bytes_are_met(found: list[Check]) -> None:
    off = {(c.of, c.rows, c.what): c.error for c in found if "bytes" in c.what}
    assert len(off) > 10
    assert max(map(abs, off.values())) < 0.1, off
    real = [abs(error) for (of, _, _), error in off.items() if of != "made vectors"]
    assert max(real) < 0.02


def test_seconds_are_met_where_they_were_fitted(found: list[Check]) -> None:
    off = {(c.rows, c.kind, c.what): c.error for c in found if c.fitted and "bytes" not in c.what}
    assert len(off) > 5
    assert max(map(abs, off.values())) < 0.35, off


def test_a_million_sentences(model: Model) -> None:
    assert model.index_bytes(MILLION) == pytest.approx(29_304_681, rel=0.005)
    documents = model.documents(MILLION.terms()) + model.catalog(MILLION.terms())
    assert documents == pytest.approx(195e6 + 77e6, rel=0.35)
    known = Asked(MILLION, Machine(ram=10**12, cores=1), tokens_per_s=23.6 / 4.21e-3)
    assert Estimates(model, known).build_s(MILLION) == pytest.approx(5363, rel=0.1)


def test_ten_million_rows(model: Model) -> None:
    made = estimates(model, TEN_MILLION)
    assert TEN_MILLION.lists == 6325
    assert model.index_bytes(TEN_MILLION) / 1e7 == pytest.approx(33, rel=0.02)
    assert made.fit_s(TEN_MILLION) + made.code_s(TEN_MILLION) == pytest.approx(1200, rel=0.5)
