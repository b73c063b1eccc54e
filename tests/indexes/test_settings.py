from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.reducers.linear import Linear
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile


def moments(n: int, d: int = 40) -> Moments:
    rng = np.random.default_rng(n)
    return Moments(d).update(rng.normal(size=(n, d)).astype(np.float32))


def test_defaults_are_half_the_dimensions_and_pq() -> None:
    fitted, notes = Settings().fitted(moments(700))
    assert (fitted.k, fitted.kind, fitted.beta, fitted.gamma) == (20, "pq", 0.0, 0.0)
    assert fitted.candidates is None
    assert notes == []
    assert fitted == Settings().resolved(40, 700)


@pytest.mark.parametrize(("rows", "kind"), [(700, "pq"), (1_999_999, "pq"), (2_000_000, "ivf-pq")])
def test_auto_depends_on_the_number_of_rows(rows: int, kind: str) -> None:
    assert Settings().resolved(40, rows).kind == kind
    assert Settings(kind="sq8").resolved(40, rows).kind == "sq8"
    many = moments(700)
    many.n = rows
    assert Settings().fitted(many)[0].kind == kind


def test_current_settings_match_the_requested_ones() -> None:
    """And not the replacement for a small index."""
    requested = Settings()
    for rows in (700, 2_000_000):
        assert requested.matches(requested.resolved(40, rows), 40)
        assert Settings(kind="pq").matches(requested.resolved(40, rows), 40) == (rows == 700)
    assert not requested.matches(requested.fitted(moments(39))[0], 40)
    assert not requested.matches(Settings(k=20, kind="sq8"), 40)


@pytest.mark.parametrize("n", [1, 2, 15, 39])
def test_fewer_vectors_than_dimensions(n: int) -> None:
    for gamma in (0.0, 0.25):
        fitted, notes = Settings(gamma=gamma).fitted(moments(n))
        assert (fitted.k, fitted.kind, fitted.gamma) == (min(n, 20), "flat", 0.0)
        assert len(notes) == (gamma > 0)  # of what was requested


def test_too_few_to_train_the_kind() -> None:
    for kind in ("auto", "pq"):
        fitted, notes = Settings(kind=kind).fitted(moments(623))
        assert (fitted.k, fitted.kind, fitted.gamma) == (20, "flat", 0.0)
        assert len(notes) == (kind == "pq")
    assert Settings().fitted(moments(624))[0].kind == "pq"


def test_identical_vectors_span_one_dimension() -> None:
    same = Moments(40).update(np.ones((700, 40), dtype=np.float32))
    fitted, _ = Settings().fitted(same)
    assert (fitted.k, fitted.kind) == (1, "flat")


def test_an_explicit_k_adapts_to_few_vectors_only() -> None:
    assert Settings(k=8).fitted(moments(9))[0].k == 8
    fitted, notes = Settings(k=20).fitted(moments(9))
    assert (fitted.k, fitted.kind, fitted.gamma) == (9, "flat", 0.0)
    assert len(notes) == 1
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(700, 30)) @ rng.normal(size=(30, 40))  # 700 vectors of rank 30
    many = Moments(40).update(flat.astype(np.float32))
    assert Settings(k=40).fitted(many) == (Settings(k=40, kind="pq"), [])


@pytest.mark.parametrize(
    "change",
    [
        {"k": 41},
        {"k": 18},  # no multiple of 4, which pq takes
        {"reducer": "identity", "k": 20},
        {"reducer": "all-but-the-top", "k": 40},
    ],
)
def test_settings_that_do_not_suit_the_vectors_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Settings(**change).checked(40)


@pytest.mark.parametrize(
    "change",
    [
        *({"k": 0}, {"k": 64.0}, {"kind": "pq4"}, {"reducer": "bogus"}),
        *({"candidates": -1}, {"candidates": 10**30}, {"beta": float("nan")}, {"gamma": 9}),
    ],
)
def test_settings_that_suit_no_vectors_are_refused_at_once(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Settings(**change)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_few_dimensions_are_searched_exactly(dim: int) -> None:
    for rows in (1, 700):
        fitted, notes = Settings().checked(dim).fitted(moments(rows, dim))
        assert (fitted.kind, fitted.k) == ("flat", min(rows, dim))
        assert "kind pq needs a multiple of 4 dimensions" in " ".join(notes)
        assert len(notes) == 1
    assert Settings().matches(fitted, dim)
    assert Settings(kind="sq8").checked(dim).fitted(moments(700, dim))[0].kind == "sq8"


def fitted(settings: Settings, seen: Moments) -> Linear:
    """A linear reducer is fitted to moments: there is no file of rows."""
    reducer = settings.fit_reducer(VectorFile(Path("none"), 40), seen)
    assert isinstance(reducer, Linear)
    return reducer


def test_subspaces_are_balanced_for_product_quantisers_only() -> None:
    seen = moments(700)
    plain = fitted(Settings(k=20, kind="flat"), seen).components_
    dealt = fitted(Settings(k=20, kind="pq"), seen).components_
    assert not np.array_equal(plain, dealt)
    assert sorted(map(tuple, plain.T)) == sorted(map(tuple, dealt.T))
    truncated = fitted(Settings(k=20, reducer="truncate"), seen).components_
    np.testing.assert_array_equal(truncated, np.eye(40, 20))
