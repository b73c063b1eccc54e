"""Entailment by a threshold: against every threshold there is, and SNLI's own counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.bench.data.layer_vectors import Layers
from slimdex.bench.data.pairs import Pairs, read_entailment
from slimdex.bench.experiments.entailment_study import (
    accuracy,
    best_threshold,
    entailment_ways,
    measure_entailment,
)
from slimdex.bench.experiments.similarity_study import NLI, Way
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.errors import InputError
from tests.bench.conftest import ABOUT
from tests.bench.data.test_pairs import DATA


@given(st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=1, max_size=40))
def test_no_threshold_is_better(pairs: list[tuple[int, bool]]) -> None:
    cosines = np.array([value / 20 for value, _ in pairs], np.float32)
    gold = np.array([float(entailed) for _, entailed in pairs])
    best = accuracy(cosines, gold, best_threshold(cosines, gold))
    edges = [*np.unique(cosines).tolist(), 2.0]
    assert best == pytest.approx(max(accuracy(cosines, gold, edge) for edge in edges))


def test_whitening_tells_what_a_shared_direction_hides(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """One direction that says nothing and is large hides the others, which say all."""
    names = [f"s{i}" for i in range(800)]
    own = rng.normal(size=(800, 16))
    gold = rng.integers(0, 2, 400).astype(float)
    own[400:] = np.where(gold[:, None] == 1, own[:400], own[400:]) + 0.1 * own[:400]
    own[:, 0] = 30 * rng.normal(size=800)
    layers = Layers({name: i for i, name in enumerate(names)}, own[:, None].astype(np.float32))
    dev = Pairs("dev", names[:200], names[400:600], gold[:200], [""] * 200)
    test = Pairs("test", names[200:400], names[600:], gold[200:], [""] * 200)
    results = ResultsFile(tmp_path / "entailment-x.jsonl")
    ways = [Way("mean", (0,)), Way("mean", (0,), NLI, beta=1.0, gamma=1.0)]
    facts = {"model": "x", "set": "SNLI"}
    measure_entailment(ways, {"mean": layers}, dev, test, results, facts, ABOUT)
    plain, whitened = results.rows.values()
    assert whitened["accuracy"] > 90 > plain["accuracy"] + 5
    cosines = [
        x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        for x, y in zip(own[200:400], own[600:], strict=True)
    ]
    right = (np.array(cosines) >= 0.5) == (gold[200:] == 1)
    assert plain["accuracy_fixed"] == pytest.approx(100 * right.mean())
    entailed = 100 * gold[200:].mean()
    assert plain["accuracy_majority"] == pytest.approx(max(entailed, 100 - entailed))
    again = dict(results.rows)
    measure_entailment(ways, {}, dev, test, results, facts, ABOUT)  # nothing left to measure
    assert results.rows == again


def test_ways_are_poolings_without_and_with_whitening() -> None:
    ways = list(entailment_ways(["mean", "wk"]))
    assert [way.pooling for way in ways if not way.fit] == ["mean@-1", "mean@1,-1", "wk"]
    assert len(ways) == 9


@pytest.mark.skipif(not DATA.is_dir(), reason="no evaluation data beside the checkout")
def test_snli_s_own_counts() -> None:
    dev, test = (read_entailment(DATA.parent / "nli" / f"snli_{p}.tsv") for p in ("dev", "test"))
    assert (len(dev.gold), int(dev.gold.sum())) == (9842, 3329)  # Bowman et al. (2015)
    assert (len(test.gold), int(test.gold.sum())) == (9824, 3368)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sentence1\tsentence2\tscore\na\tb\t1\n",
            "expected columns sentence1, sentence2 and label",
        ),
        (
            "sentence1\tsentence2\tlabel\na\tb\tmaybe\n",
            "line 2: label 'maybe'; expected entailment",
        ),
    ],
)
def test_what_is_no_set_of_entailment(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "snli.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_entailment(path)
